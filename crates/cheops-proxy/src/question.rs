//! Questions to other sites that belong to no client's request: asked by the control plane, from
//! whatever thread it runs on, over a connection of their own.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cheops_engine::Picture;
use cheops_engine::mesh::Dialer;
use cheops_engine::replication::api::{AskSite, Question, Said, SiteAnswer};
use cheops_model::{Mark, ServiceName, SiteName};
use http::{HeaderName, HeaderValue, Request, Version, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as HttpBody, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::envelope::Envelope;
use crate::headers;
use crate::limits::{QUESTION_BYTES_MAX, QUESTION_TIME_MAX};
use crate::peer::mesh_uri;

/// What asks other sites in the name of this one.
pub fn ask_site(dialer: Dialer, pictures: watch::Receiver<Arc<Picture>>) -> AskSite {
    Arc::new(move |question| {
        let (dialer, picture) = (dialer.clone(), pictures.borrow().clone());
        Box::pin(async move {
            if picture.mark(&question.site) != Mark::Connected {
                return Err(format!("{} cannot be reached", question.site));
            }
            let hop = picture.next_hop(&question.site);
            let asked = timeout(
                QUESTION_TIME_MAX,
                ask(&dialer, &picture.here, &hop, question),
            );
            asked
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {QUESTION_TIME_MAX:?}")))
        })
    })
}

async fn ask(
    dialer: &Dialer,
    here: &SiteName,
    hop: &SiteName,
    question: Question,
) -> Result<SiteAnswer, String> {
    let request = request(here, &question).ok_or("it cannot be asked")?;
    let stream = dialer.dial_requests(hop).await;
    let stream = TokioIo::new(stream.map_err(|error| error.to_string())?);
    let broken = |error: hyper::Error| error.to_string();
    let handshake = http2::handshake(TokioExecutor::new(), stream);
    let (mut sender, connection) = handshake.await.map_err(broken)?;
    let asking = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let by = match response.headers().contains_key(headers::SERVED_BY) {
            true => Said::Service,
            false => Said::Agent,
        };
        let status = response.status().as_u16();
        let body = gather(response.into_body(), QUESTION_BYTES_MAX).await;
        let body = body.ok_or("its answer is too long, or broke off")?.to_vec();
        Ok(SiteAnswer { status, by, body })
    };
    let mut asking = std::pin::pin!(asking);
    tokio::select! {
        answer = asking.as_mut() => answer,
        // It may end right after the answer, which is then still to be read.
        _ = connection => asking.await,
    }
}

fn request(here: &SiteName, question: &Question) -> Option<Request<Full<Bytes>>> {
    let service = ServiceName::new(&question.service).ok()?;
    let mut request = Request::new(Full::new(Bytes::from(question.body.clone())));
    *request.method_mut() = question.method.parse().ok()?;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = mesh_uri(Some(question.path.parse().ok()?));
    let out = request.headers_mut();
    for (name, value) in &question.headers {
        let pair = HeaderName::try_from(name.as_str())
            .ok()
            .zip(HeaderValue::from_bytes(value).ok());
        if let Some((name, value)) = pair {
            out.append(name, value);
        }
    }
    headers::clean(out);
    let identity = HeaderValue::from_static("identity");
    out.insert(header::ACCEPT_ENCODING, identity);
    if let Some(host) = out.remove(header::HOST) {
        out.insert(headers::HOST, host);
    }
    out.insert(
        headers::ENVELOPE,
        envelope(here, &question.site, &service).to_header(),
    );
    Some(request)
}

/// Of a question that comes from nobody's workflow.
pub(crate) fn envelope(here: &SiteName, site: &SiteName, service: &ServiceName) -> Envelope {
    Envelope {
        service: service.clone(),
        target: site.clone(),
        entry: here.clone(),
        visited: vec![here.clone()],
        hops: 0,
        deadline: QUESTION_TIME_MAX,
    }
}

/// A body of at most `bytes_max`; none if it is longer or breaks off.
pub(crate) async fn gather(mut body: Incoming, bytes_max: usize) -> Option<Bytes> {
    if body.size_hint().lower() > bytes_max as u64 {
        return None;
    }
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.ok()?.into_data() else {
            continue;
        };
        if bytes.len() + piece.len() > bytes_max {
            return None;
        }
        bytes.extend_from_slice(&piece);
    }
    Some(bytes.freeze())
}
