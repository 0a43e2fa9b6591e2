//! Requests and answers that name replicants in passing, or none, where they lie in bytes: what [`super::read`] does to those
//! that the HTTP library has read.
//!
//! Nearly always nothing is to be replaced. Then no header is copied and no body parsed.

use std::borrow::Cow;

use cheops_rest::limits::BODY_BYTES_MAX;
use cheops_rest::{Body as RestBody, Id, RewriteError, Side, is_json};
use http::{HeaderValue, Method, Response};
use httparse::Header;

use super::{Replicas, read};
use crate::body::Body;
use crate::problem::Problem;
use crate::route::Journey;

/// A request in which ids of replicants may stand, and in its answer too.
pub(crate) struct Mention {
    /// What its collection is called.
    pub(super) kind: Option<String>,
}

/// A request as it came.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) target: &'a str,
    pub(crate) headers: &'a [Header<'a>],
    pub(crate) body: &'a [u8],
}

/// An answer as it came, or the beginning of it.
pub(crate) struct Answered<'a> {
    pub(crate) headers: &'a [Header<'a>],
    /// What is there of its body.
    pub(crate) body: &'a [u8],
    /// Of its body.
    pub(crate) length: usize,
}

/// What becomes of an answer.
pub(crate) enum Look {
    /// It goes on, with these changes.
    Pass(Changes),
    /// More can be said when all of it is there.
    Wait,
    /// The HTTP library has to read it.
    Read,
}

/// What is replaced in an answer.
#[derive(Default)]
pub(crate) struct Changes {
    /// By their places.
    pub(crate) headers: Vec<(usize, HeaderValue)>,
    pub(crate) body: Option<Vec<u8>>,
}

impl Mention {
    /// True if nothing in the request is to be replaced towards the service.
    pub(crate) fn asks_as_it_is(&self, replicas: &Replicas, asked: &Asked<'_>) -> bool {
        let (api, ids) = (&replicas.api, replicas.ids());
        let map = |id: &Id<'_>| ids.to_local(id);
        let in_target = || matches!(api.rewrite_target(asked.target, map), Cow::Owned(_));
        let in_headers = || !changed(replicas, asked.headers, map).is_empty();
        !in_target() && !in_headers() && !self.names_any(replicas, asked, map)
    }

    /// Whether an id in the body is to be replaced. In one that cannot be read there is none: the
    /// service judges it.
    fn names_any(
        &self,
        replicas: &Replicas,
        asked: &Asked<'_>,
        map: impl Fn(&Id<'_>) -> Option<Cow<'static, str>>,
    ) -> bool {
        let media = text(asked.headers, "content-type");
        if asked.method.is_safe() || !is_json(media.unwrap_or_default()) {
            return false;
        }
        let body = RestBody {
            side: Side::Request,
            kind: self.kind.as_deref(),
            media,
            encoding: text(asked.headers, "content-encoding"),
            bytes: asked.body,
        };
        matches!(replicas.api.rewrite_body(&body, map), Ok(Cow::Owned(_)))
    }

    /// What is to be replaced in the answer. Asked when it is there: what became a replicant
    /// meanwhile is seen.
    pub(crate) fn look(&self, replicas: &Replicas, answered: &Answered<'_>) -> Look {
        let ids = replicas.ids();
        let map = |id: &Id<'_>| ids.to_meta(id);
        let headers = changed(replicas, answered.headers, map);
        let media = text(answered.headers, "content-type");
        let whole = answered.body.get(..answered.length);
        let population = &replicas.population;
        let body = match whole {
            _ if !is_json(media.unwrap_or_default()) || answered.length == 0 => None,
            // Ids are replaced in plain bytes only: whoever reads it says so.
            _ if text(answered.headers, "content-encoding").is_some() => return Look::Read,
            _ if !population.has_local_ids() && answered.length <= BODY_BYTES_MAX => None,
            None => return Look::Wait,
            Some(bytes) if !population.may_be_named_in(bytes) => None,
            Some(bytes) => {
                let body = RestBody {
                    side: Side::Answer,
                    kind: self.kind.as_deref(),
                    media,
                    encoding: None,
                    bytes,
                };
                match replicas.api.rewrite_body(&body, map) {
                    Ok(Cow::Owned(rewritten)) => Some(rewritten),
                    Ok(Cow::Borrowed(_)) | Err(RewriteError::NotJson { .. }) => None,
                    Err(_) => return Look::Read,
                }
            }
        };
        Look::Pass(Changes { headers, body })
    }

    /// The answer with the ids that clients see, read by the HTTP library.
    pub(crate) async fn read(
        &self,
        journey: &Journey<'_>,
        response: Response<Body>,
    ) -> Result<Response<Body>, Problem> {
        read::globalise(journey, response, self.kind.as_deref()).await
    }
}

/// Headers in which ids are to be replaced, and what they are then.
fn changed(
    replicas: &Replicas,
    headers: &[Header<'_>],
    map: impl Fn(&Id<'_>) -> Option<Cow<'static, str>>,
) -> Vec<(usize, HeaderValue)> {
    let change = |(place, header): (usize, &Header<'_>)| {
        if !replicas.api.holds_ids(header.name) {
            return None;
        }
        let value = read::rewritten(replicas, header.name, visible(header.value)?, &map)?;
        Some((place, value))
    };
    headers.iter().enumerate().filter_map(change).collect()
}

/// The first header of that name, if it is text.
fn text<'h>(headers: &[Header<'h>], name: &str) -> Option<&'h str> {
    let mut named = headers.iter();
    let first = named.find(|header| header.name.eq_ignore_ascii_case(name));
    first.and_then(|header| visible(header.value))
}

/// What counts as text in a header: as `HeaderValue::to_str` has it.
fn visible(value: &[u8]) -> Option<&str> {
    let shown = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    let text = value.iter().all(shown).then_some(value)?;
    std::str::from_utf8(text).ok()
}
