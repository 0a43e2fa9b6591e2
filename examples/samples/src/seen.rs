//! The last requests a service saw, for tests to check what reached it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hyper::Request;
use hyper::header::HeaderMap;
use serde_json::{Map, Value, json};

/// How many requests are remembered.
pub const SEEN_MAX: usize = 64;

/// A bounded memory of requests, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<VecDeque<Value>>);

impl Seen {
    pub(crate) fn record<B>(&self, request: &Request<B>) {
        let entry = json!({
            "method": request.method().as_str(),
            "path": request.uri().path_and_query().map_or("", |path| path.as_str()),
            "headers": headers_as_json(request.headers()),
        });
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() == SEEN_MAX {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    pub(crate) fn to_json(&self) -> Value {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        json!({ "seen": entries.iter().collect::<Vec<_>>() })
    }
}

/// Several headers of one name become one, joined by `, `.
fn headers_as_json(headers: &HeaderMap) -> Value {
    let mut object = Map::new();
    for name in headers.keys() {
        let values: Vec<_> = headers
            .get_all(name)
            .iter()
            .map(|v| String::from_utf8_lossy(v.as_bytes()))
            .collect();
        object.insert(name.to_string(), values.join(", ").into());
    }
    object.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_requests_are_kept_oldest_first() {
        let seen = Seen::default();
        for turn in 0..SEEN_MAX + 2 {
            seen.record(&Request::builder().uri(format!("/{turn}")).body(()).unwrap());
        }
        let entries = seen.to_json()["seen"].as_array().unwrap().clone();
        assert_eq!(entries.len(), SEEN_MAX);
        assert_eq!(entries[0]["path"], "/2");
    }
}
