//! `/.cheops/v1/…` on every service listener: read-only, for whoever made the request.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, header};

use crate::body::Body;
use crate::problem::Problem;
use crate::worker::Worker;

pub(crate) fn answer(worker: &Worker, head: &Parts) -> Result<Response<Body>, Problem> {
    let read = matches!(head.method, Method::GET | Method::HEAD);
    match head.uri.path() {
        "/.cheops/v1/sites" if read => {
            let items = cheops_engine::api::sites(&worker.picture());
            Ok(json(serde_json::to_vec(&items).unwrap_or_default()))
        }
        path if path.starts_with("/.cheops/v1/operations/")
            || path.starts_with("/.cheops/v1/resources/") =>
        {
            Err(Problem::NotImplemented(
                "no agent replicates yet, so there are none".to_owned(),
            ))
        }
        _ => Err(Problem::NotFound("see /.cheops/v1/sites".to_owned())),
    }
}

fn json(text: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::full(Bytes::from(text)));
    let value = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
