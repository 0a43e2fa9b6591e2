//! Errors of the admin API, as RFC 9457 problems. The only place here that chooses a status.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

#[derive(Debug)]
pub(crate) enum Problem {
    /// Ask otherwise.
    BadRequest(String),
    /// Not from there.
    Forbidden(String),
    /// Not as things are.
    Conflict(String),
    /// The agent cannot write or is about to stop.
    Unavailable(String),
    /// There is no such thing.
    NotFound(String),
    /// One id, several resources.
    Ambiguous {
        /// Services and ids that it may be.
        candidates: Vec<(String, String)>,
    },
    /// Another site did not answer.
    Unreachable {
        /// Which.
        site: String,
        /// What was heard.
        why: String,
    },
    /// Not now; nothing happened.
    NotNow(String),
    /// It may still happen.
    OutcomeUnknown(String),
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (mut sites, mut candidates) = (Vec::new(), None);
        let (status, code, detail) = match self {
            Problem::Ambiguous { candidates: found } => {
                let words: Vec<String> =
                    found.iter().map(|(s, id)| format!("{id} of {s}")).collect();
                let detail = format!("say which with ?service=: {}", words.join(", "));
                let items = found.into_iter();
                let items = items.map(|(service, id)| json!({"service": service, "id": id}));
                candidates = Some(items.collect::<Vec<_>>());
                (StatusCode::CONFLICT, "conflict", detail)
            }
            Problem::Unreachable { site, why } => {
                let detail = format!("{site}: {why}; nothing was done there");
                sites.push(site);
                (StatusCode::SERVICE_UNAVAILABLE, "site-unreachable", detail)
            }
            Problem::NotNow(detail) => (StatusCode::SERVICE_UNAVAILABLE, "no-usable-site", detail),
            Problem::BadRequest(detail) => (StatusCode::BAD_REQUEST, "bad-request", detail),
            Problem::Forbidden(detail) => (StatusCode::FORBIDDEN, "forbidden-by-policy", detail),
            Problem::Conflict(detail) => (StatusCode::CONFLICT, "conflict", detail),
            Problem::Unavailable(detail) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            }
            Problem::NotFound(detail) => (StatusCode::NOT_FOUND, "not-found", detail),
            Problem::OutcomeUnknown(detail) => {
                (StatusCode::GATEWAY_TIMEOUT, "outcome-unknown", detail)
            }
        };
        let mut body = json!({
            "type": format!("urn:cheops:problem:{code}"),
            "code": code,
            "title": code.replace('-', " "),
            "status": status.as_u16(),
            "detail": detail,
            "sites": sites,
        });
        if let Some(candidates) = candidates {
            body["candidates"] = candidates.into();
        }
        (
            status,
            [(header::CONTENT_TYPE, "application/problem+json")],
            body.to_string(),
        )
            .into_response()
    }
}
