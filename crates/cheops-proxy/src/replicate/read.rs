//! Reads, and everything else that only mentions replicants: ids are replaced on both ways.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use cheops_engine::replication::Known;
use cheops_rest::{Body as RestBody, Id, RewriteError, Side, is_json};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};

use super::body::{Gathered, NotWhole, gather, of_request, whole};
use super::documents::Documents;
use super::{Replicas, target, to_service};
use crate::body::Body;
use crate::headers;
use crate::here::Call;
use crate::problem::Problem;
use crate::route::Journey;

/// A JSON answer of unknown length that has not ended by then may be a watch: it is passed on document by
/// document. An ordinary answer has ended, and can be refused as a whole if it cannot be read.
const STREAM_AFTER: Duration = Duration::from_millis(250);

/// A read of a replicant: the replica of this site, or none.
pub(super) async fn replica(
    journey: &Journey<'_>,
    known: &Known,
    call: Call,
) -> Result<Response<Body>, Problem> {
    if known.deleted {
        return Err(Problem::Gone {
            id: known.meta.to_string(),
        });
    }
    if known.local.is_none() {
        return Err(Problem::ReplicaPending {
            id: known.meta.to_string(),
            sites: known.live.to_vec(),
        });
    }
    let kind = kind_of(&journey.service.replicas, &call);
    let mut response = mention(journey, call, kind.as_deref()).await?;
    let out = response.headers_mut();
    headers::put(out, headers::RESOURCE, &known.meta);
    if known.stale {
        headers::put(out, headers::STALE, journey.worker.here.as_str());
    }
    Ok(response)
}

/// A request in which ids of replicants may stand, and its answer.
pub(super) async fn mention(
    journey: &Journey<'_>,
    call: Call,
    kind: Option<&str>,
) -> Result<Response<Body>, Problem> {
    let call = localise(journey, call, kind).await?;
    let response = to_service(journey, call).await?;
    globalise(journey, response, kind).await
}

/// What the collection of a request is called.
pub(super) fn kind_of(replicas: &Replicas, call: &Call) -> Option<String> {
    let meaning = replicas.classify(call.head.method.as_str(), target(call));
    meaning.spot().map(|spot| spot.kind.to_owned())
}

/// The request with the ids of this site's service.
async fn localise(
    journey: &Journey<'_>,
    mut call: Call,
    kind: Option<&str>,
) -> Result<Call, Problem> {
    let replicas = &journey.service.replicas;
    let ids = replicas.ids();
    let map = |id: &Id<'_>| ids.to_local(id);
    let changed = replicas.api.rewrite_target(target(&call), map);
    if let Ok(changed) = PathAndQuery::try_from(&*changed) {
        set_target(&mut call, changed);
    }
    rewrite_headers(replicas, &mut call.head.headers, map);
    // Ids can be replaced in plain bytes only.
    let plain = HeaderValue::from_static("identity");
    call.head.headers.insert(header::ACCEPT_ENCODING, plain);
    let media = text(&call.head.headers, header::CONTENT_TYPE).unwrap_or_default();
    if call.head.method.is_safe() || !is_json(media) {
        return Ok(call);
    }
    let max = cheops_rest::limits::BODY_BYTES_MAX;
    let bytes = of_request(journey.worker, &journey.patience, call.body, max).await?;
    let body = RestBody {
        side: Side::Request,
        kind,
        media: text(&call.head.headers, header::CONTENT_TYPE),
        encoding: text(&call.head.headers, header::CONTENT_ENCODING),
        bytes: &bytes,
    };
    // A body in which no id can be found goes on as it came: the service judges it.
    let rewritten = match replicas.api.rewrite_body(&body, map) {
        Ok(Cow::Owned(rewritten)) => Bytes::from(rewritten),
        Ok(Cow::Borrowed(_)) | Err(_) => bytes,
    };
    set_length(&mut call.head.headers, rewritten.len());
    call.body = Body::full(rewritten);
    Ok(call)
}

/// The answer with the ids that clients see.
pub(super) async fn globalise(
    journey: &Journey<'_>,
    response: Response<Body>,
    kind: Option<&str>,
) -> Result<Response<Body>, Problem> {
    let replicas = &journey.service.replicas;
    let ids = replicas.ids();
    let map = |id: &Id<'_>| ids.to_meta(id);
    let (mut head, body) = response.into_parts();
    rewrite_headers(replicas, &mut head.headers, map);
    let media = text(&head.headers, header::CONTENT_TYPE).unwrap_or_default();
    if !is_json(media) || head.status.is_informational() {
        return Ok(Response::from_parts(head, body));
    }
    let max = cheops_rest::limits::BODY_BYTES_MAX;
    let bytes = match known_length(&body) {
        true => whole(journey.worker, &journey.patience, body, max).await,
        false => match gather(body, max, STREAM_AFTER).await {
            Ok(Gathered::More(bytes, rest)) => {
                let documents = Documents::new(rest, bytes, replicas.clone(), kind, media);
                let body = Body::Documents(Box::new(documents));
                return Ok(Response::from_parts(head, body));
            }
            Ok(Gathered::Whole(bytes)) => Ok(bytes),
            Err(fault) => Err(fault),
        },
    };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(NotWhole::TooLong) => return Err(unreadable(journey, &"it is over 16 MiB")),
        Err(NotWhole::Broken) => return Err(unreadable(journey, &"it broke off")),
    };
    let answer = RestBody {
        side: Side::Answer,
        kind,
        media: text(&head.headers, header::CONTENT_TYPE),
        encoding: text(&head.headers, header::CONTENT_ENCODING),
        bytes: &bytes,
    };
    let rewritten = match replicas.api.rewrite_body(&answer, map) {
        Ok(Cow::Owned(rewritten)) => Bytes::from(rewritten),
        Ok(Cow::Borrowed(_)) => bytes,
        // Not what it says it is, or nothing at all (HEAD): nothing in it can be an id.
        Err(RewriteError::NotJson { .. }) => bytes,
        Err(fault) => return Err(unreadable(journey, &fault)),
    };
    if !rewritten.is_empty() {
        set_length(&mut head.headers, rewritten.len());
    }
    Ok(Response::from_parts(head, Body::full(rewritten)))
}

fn known_length(body: &Body) -> bool {
    http_body::Body::size_hint(body).exact().is_some()
}

fn unreadable(journey: &Journey<'_>, why: &dyn std::fmt::Display) -> Problem {
    let (name, here) = (&journey.service.config.name, &journey.worker.here);
    Problem::ServiceFailed {
        site: here.clone(),
        detail: format!("the ids in an answer of {name} cannot be replaced: {why}"),
    }
}

fn rewrite_headers(
    replicas: &Replicas,
    headers: &mut HeaderMap,
    map: impl Fn(&Id<'_>) -> Option<Cow<'static, str>>,
) {
    for (name, value) in headers.iter_mut() {
        let text = value.to_str().ok();
        let changed = text.and_then(|text| rewritten(replicas, name.as_str(), text, &map));
        if let Some(changed) = changed {
            *value = changed;
        }
    }
}

/// A header with its ids replaced, if there are any.
pub(super) fn rewritten(
    replicas: &Replicas,
    name: &str,
    value: &str,
    map: impl Fn(&Id<'_>) -> Option<Cow<'static, str>>,
) -> Option<HeaderValue> {
    match replicas.api.rewrite_header(name, value, map) {
        Cow::Owned(changed) => HeaderValue::try_from(changed).ok(),
        Cow::Borrowed(_) => None,
    }
}

pub(super) fn set_target(call: &mut Call, target: PathAndQuery) {
    let mut parts = std::mem::take(&mut call.head.uri).into_parts();
    parts.path_and_query = Some(target);
    call.head.uri = http::Uri::from_parts(parts).unwrap_or_default();
}

fn set_length(headers: &mut HeaderMap, length: usize) {
    if headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
