//! One list from the lists of several sites, replicas once.

use cheops_model::SiteName;
use cheops_rest::MergeFault;
use http::{HeaderValue, Response, header};

use super::body::whole;
use super::read::kind_of;
use crate::body::Body;
use crate::headers;
use crate::here::Call;
use crate::problem::Problem;
use crate::route::Journey;

/// Asks every site that can be reached, this one first, and joins what they say. Sites that did not
/// answer are named.
pub(super) async fn merged(
    journey: &Journey<'_>,
    sites: &[SiteName],
    call: Call,
) -> Result<Response<Body>, Problem> {
    let replicas = &journey.service.replicas;
    let kind = kind_of(replicas, &call).unwrap_or_default();
    let picture = journey.worker.picture();
    let name = &journey.service.config.name;
    let (usable, mut missing): (Vec<_>, Vec<_>) =
        sites.iter().partition(|site| picture.usable(site, name));
    let mut plain = call;
    let identity = HeaderValue::from_static("identity");
    plain.head.headers.insert(header::ACCEPT_ENCODING, identity);
    let mut heads = Vec::new();
    let mut bodies = Vec::new();
    let mut served = Vec::new();
    for site in usable {
        let one = Call {
            head: plain.head.clone(),
            body: Body::empty(),
            upgrade: None,
        };
        // Boxed: this site's own list may come by here again.
        let answered = Box::pin(journey.to(site, one)).await;
        match answered {
            Ok(response) if response.status().is_success() => {
                let (head, body) = response.into_parts();
                let max = cheops_rest::limits::BODY_BYTES_MAX;
                match whole(journey.worker, &journey.patience, body, max).await {
                    Ok(bytes) => {
                        heads.push(head);
                        bodies.push(bytes);
                        served.push(site.as_str());
                    }
                    Err(_) => missing.push(site),
                }
            }
            // What the service itself refuses, it refuses: there is nothing to join.
            Ok(response) if response.status().is_client_error() => return Ok(response),
            Ok(_) | Err(_) => missing.push(site),
        }
    }
    if heads.is_empty() {
        return Err(Problem::NoUsableSite(sites.to_vec()));
    }
    let parts: Vec<&[u8]> = bodies.iter().map(|body| &body[..]).collect();
    let body = match replicas.api.merge(&kind, &parts) {
        Ok(body) => body,
        Err(MergeFault::Paged { .. }) => {
            return Err(Problem::NotImplemented(
                "lists of several sites that come in pages are not joined yet; ask for one site, or for longer pages".to_owned(),
            ));
        }
        Err(fault @ MergeFault::NoList(_)) => {
            return Err(Problem::ServiceFailed {
                site: journey.worker.here.clone(),
                detail: fault.to_string(),
            });
        }
    };
    let mut head = heads.swap_remove(0);
    let out = &mut head.headers;
    out.remove(header::CONTENT_LENGTH);
    out.remove(header::ETAG);
    served.sort_unstable();
    headers::put(out, headers::SERVED_BY, &served.join(", "));
    if !missing.is_empty() {
        missing.sort_unstable();
        let names: Vec<&str> = missing.iter().map(|site| site.as_str()).collect();
        headers::put(out, headers::PARTIAL, &names.join(", "));
    }
    Ok(Response::from_parts(head, Body::full(body.into())))
}
