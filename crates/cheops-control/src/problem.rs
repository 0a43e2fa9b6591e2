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
    /// Not built yet.
    NotImplemented(&'static str),
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, code, detail) = match self {
            Problem::BadRequest(detail) => (StatusCode::BAD_REQUEST, "bad-request", detail),
            Problem::Forbidden(detail) => (StatusCode::FORBIDDEN, "forbidden-by-policy", detail),
            Problem::Conflict(detail) => (StatusCode::CONFLICT, "conflict", detail),
            Problem::Unavailable(detail) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            }
            Problem::NotFound(detail) => (StatusCode::NOT_FOUND, "not-found", detail),
            Problem::NotImplemented(what) => (
                StatusCode::NOT_IMPLEMENTED,
                "not-implemented",
                format!("{what}: not built yet"),
            ),
        };
        let body = json!({
            "type": format!("urn:cheops:problem:{code}"),
            "code": code,
            "title": code.replace('-', " "),
            "status": status.as_u16(),
            "detail": detail,
            "sites": [],
        });
        (
            status,
            [(header::CONTENT_TYPE, "application/problem+json")],
            body.to_string(),
        )
            .into_response()
    }
}
