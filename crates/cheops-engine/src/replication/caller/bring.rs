//! Content that a request names by its digest: a site that lacks it gets it from one that has it.
//!
//! It has one name everywhere and never changes, so it is no replicant and stands in no log. What cannot be had is left
//! to the service to refuse, and the operation is tried again.

use std::time::Duration;

use bytes::Bytes;
use cheops_model::SiteName;
use cheops_rest::Need;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::client::conn::http2;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::timeout;

use super::super::limits::{ANSWER_BYTES_MAX, CONTENT_BYTES_MAX, CONTENT_TIME_MAX};
use super::super::wire::Asked;
use super::{Desk, With, request};

/// What agents tell each other of a request that they forward; read by the data plane.
const ENVELOPE: HeaderName = HeaderName::from_static("x-cheops-mesh");
/// The host that the service is to see.
const HOST: HeaderName = HeaderName::from_static("x-cheops-host");

impl Desk<'_> {
    /// Sees to it that what a request needs is here.
    pub(super) async fn bring(&self, asked: &Asked) {
        for need in self.api().needs(&asked.kind, &asked.path, &asked.body) {
            if self.has(&need, asked).await {
                continue;
            }
            let Ok(_turn) = self.inner.brings.acquire().await else {
                return;
            };
            if let Some(content) = self.fetch(&need, asked).await {
                let brought = self.upload(&need, asked, content).await.is_some();
                tracing::debug!(replicant = ?self.replicant, brought, "content came from another site");
            }
        }
    }

    async fn has(&self, need: &Need, asked: &Asked) -> bool {
        let Some(request) = request("HEAD", &need.item, asked, &With::Rights, Vec::new()) else {
            return false;
        };
        let heard = self.ask(request, ANSWER_BYTES_MAX).await;
        heard.is_ok_and(|heard| heard.status.is_success())
    }

    /// From the first of the other sites that gives it.
    async fn fetch(&self, need: &Need, asked: &Asked) -> Option<Bytes> {
        let known = self.inner.index.get(self.replicant)?;
        for site in known.sites.iter().filter(|site| **site != self.inner.here) {
            let request = self.forwarded(site, need, asked)?;
            if let Ok(Some(content)) = timeout(CONTENT_TIME_MAX, self.get_from(site, request)).await
            {
                return Some(content);
            }
        }
        None
    }

    fn forwarded(
        &self,
        site: &SiteName,
        need: &Need,
        asked: &Asked,
    ) -> Option<Request<Full<Bytes>>> {
        let (service, here) = (&self.service.name, &self.inner.here);
        let target = format!("https://cheops.mesh{}", need.item);
        let mut request = request("GET", &target, asked, &With::Rights, Vec::new())?;
        let deadline_ms = Duration::as_millis(&CONTENT_TIME_MAX);
        let envelope = format!(
            "service={service};target={site};entry={here};visited={here};hops=0;deadline={deadline_ms}"
        );
        let headers = request.headers_mut();
        let host = headers.remove(header::HOST)?;
        headers.insert(HOST, host);
        headers.insert(ENVELOPE, HeaderValue::try_from(envelope).ok()?);
        Some(request)
    }

    async fn get_from(&self, site: &SiteName, request: Request<Full<Bytes>>) -> Option<Bytes> {
        let stream = self.inner.dialer.dial_requests(site).await.ok()?;
        let io = TokioIo::new(stream);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.ok()?;
        let driver = tokio::spawn(connection);
        let asking = async {
            let response = sender.send_request(request).await.ok()?;
            if !response.status().is_success() {
                return None;
            }
            let body = Limited::new(response.into_body(), CONTENT_BYTES_MAX);
            Some(body.collect().await.ok()?.to_bytes())
        };
        let content = asking.await;
        driver.abort();
        content
    }

    /// Two calls: one names a place, the other puts the content there. The service checks the digest.
    async fn upload(&self, need: &Need, asked: &Asked, content: Bytes) -> Option<()> {
        let begin = request("POST", &need.upload, asked, &With::Rights, Vec::new())?;
        let begun = self.ask(begin, ANSWER_BYTES_MAX).await.ok()?;
        let place = begun.headers.get(header::LOCATION)?.to_str().ok()?;
        let place: hyper::Uri = place.parse().ok()?;
        let place = place.path_and_query()?;
        let join = if place.query().is_some() { '&' } else { '?' };
        let target = format!("{place}{join}{}", need.query);
        let mut put = request("PUT", &target, asked, &With::Rights, content.to_vec())?;
        let octets = HeaderValue::from_static("application/octet-stream");
        put.headers_mut().insert(header::CONTENT_TYPE, octets);
        let heard = self.ask(put, ANSWER_BYTES_MAX).await.ok()?;
        heard.status.is_success().then_some(())
    }
}
