//! Headers that an agent gives another value on the way to a service.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// A value that was replaced towards the service and is restored in its answer.
pub struct Replaced {
    /// Which.
    pub header: HeaderName,
    /// What the service got.
    pub ours: HeaderValue,
    /// What the request had.
    pub own: Option<HeaderValue>,
}

impl Replaced {
    /// Shows what the request had where a service repeats what it got.
    pub fn restore(self, headers: &mut HeaderMap) {
        if headers.get(&self.header) != Some(&self.ours) {
            return;
        }
        match self.own {
            Some(own) => headers.insert(self.header, own),
            None => headers.remove(self.header),
        };
    }
}
