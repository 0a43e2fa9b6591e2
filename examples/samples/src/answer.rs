//! Answers: JSON, nothing, a file; and the refusals, which are JSON as well.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value, json};

/// The largest JSON body that is read.
const JSON_BYTES_MAX: usize = 1 << 20;

/// Where reading a body ends that is too large anyway.
const DRAINED_BYTES_MAX: usize = 16 << 20;

pub(crate) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A request that is not served, and why.
#[derive(Debug)]
pub(crate) enum Refusal {
    BadRequest(String),
    NotFound(String),
    /// Holds the methods that the path does have.
    BadMethod(&'static str),
    TooLarge,
    BadMediaType,
    /// A service that this one depends on did not do its part.
    FailedDependency(String),
    Busy,
}

impl Refusal {
    pub(crate) fn into_answer(self) -> Answer {
        let text = |status, text: &str| json_answer(status, &json!({ "error": text }));
        match self {
            Refusal::BadRequest(why) => text(StatusCode::BAD_REQUEST, &why),
            Refusal::NotFound(what) => text(StatusCode::NOT_FOUND, &what),
            Refusal::BadMethod(allowed) => {
                let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
                answer
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static(allowed));
                answer
            }
            Refusal::TooLarge => text(StatusCode::PAYLOAD_TOO_LARGE, "body too large"),
            Refusal::BadMediaType => {
                text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json")
            }
            Refusal::FailedDependency(why) => text(StatusCode::FAILED_DEPENDENCY, &why),
            Refusal::Busy => text(StatusCode::SERVICE_UNAVAILABLE, "too much work in progress"),
        }
    }
}

pub(crate) fn json_answer(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(value.to_string())).boxed());
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

pub(crate) fn empty_answer(status: StatusCode) -> Answer {
    let mut answer = Response::new(Empty::new().boxed());
    *answer.status_mut() = status;
    answer
}

/// Reads a JSON object. A body without a content type is taken for JSON.
pub(crate) async fn read_object(
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Map<String, Value>, Refusal> {
    if !headers.get(CONTENT_TYPE).is_none_or(is_json) {
        return Err(Refusal::BadMediaType);
    }
    let bytes = read_bounded(body).await?;
    serde_json::from_slice(&bytes)
        .map_err(|fault| Refusal::BadRequest(format!("the body is not a JSON object: {fault}")))
}

/// What is too large is still read for a while: a client that is cut off while it sends does not
/// see the answer.
async fn read_bounded(mut body: Incoming) -> Result<Vec<u8>, Refusal> {
    let mut kept = Vec::new();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|fault| Refusal::BadRequest(format!("body broke: {fault}")))?;
        let piece = frame.into_data().unwrap_or_default();
        bytes += piece.len();
        if bytes <= JSON_BYTES_MAX {
            kept.extend_from_slice(&piece);
        } else if bytes > DRAINED_BYTES_MAX {
            break;
        }
    }
    if bytes > JSON_BYTES_MAX {
        Err(Refusal::TooLarge)
    } else {
        Ok(kept)
    }
}

fn is_json(content_type: &HeaderValue) -> bool {
    let Ok(text) = content_type.to_str() else {
        return false;
    };
    let essence = text
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}
