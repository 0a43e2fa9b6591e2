//! Ids in requests and answers replaced, and nothing else: everything between them stays byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use crate::api::Api;
use crate::error::RewriteError;
use crate::id::Id;

/// A body with what has to be known to find ids in it.
#[derive(Clone, Copy, Debug)]
pub struct Body<'b> {
    /// Whose it is.
    pub side: Side,
    /// The kind of the collection that was asked; [`crate::Spot::kind`].
    pub kind: Option<&'b str>,
    /// Its `Content-Type`.
    pub media: Option<&'b str>,
    /// Its `Content-Encoding`. Ask services for `identity`.
    pub encoding: Option<&'b str>,
    /// The whole of it.
    pub bytes: &'b [u8],
}

/// Which way a body goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To a service. A `name` in it is never taken for an id: where names are ids, clients choose them.
    Request,
    /// From a service.
    Answer,
}

impl Api {
    /// Shows every id of a path and query to `visit`, with the bytes it takes up, in order.
    pub fn target_ids(&self, target: &str, visit: impl FnMut(Id<'_>, Range<usize>)) {
        let _ = (target, visit);
    }

    /// A path and query with its ids replaced. `None` leaves one as it is.
    pub fn rewrite_target<'t, 'm>(
        &self,
        target: &'t str,
        map: impl Fn(&Id<'_>) -> Option<Cow<'m, str>>,
    ) -> Cow<'t, str> {
        let _ = map;
        Cow::Borrowed(target)
    }

    /// Shows every id of a header to `visit`, if the profile says that this one holds any.
    pub fn header_ids(&self, name: &str, value: &str, visit: impl FnMut(Id<'_>, Range<usize>)) {
        let _ = (name, value, visit);
    }

    /// A header with its ids replaced: `Location`, `Link` and those of the profile.
    pub fn rewrite_header<'t, 'm>(
        &self,
        name: &str,
        value: &'t str,
        map: impl Fn(&Id<'_>) -> Option<Cow<'m, str>>,
    ) -> Cow<'t, str> {
        let _ = (name, map);
        Cow::Borrowed(value)
    }

    /// Shows every id of a body to `visit`. A body that is not JSON has none.
    pub fn body_ids(
        &self,
        body: &Body<'_>,
        visit: impl FnMut(Id<'_>, Range<usize>),
    ) -> Result<(), RewriteError> {
        let _ = (body, visit);
        Ok(())
    }

    /// A body with its ids replaced. One that is not JSON is not touched; an integer stays an integer if
    /// what replaces it is one.
    pub fn rewrite_body<'b, 'm>(
        &self,
        body: &Body<'b>,
        map: impl Fn(&Id<'_>) -> Option<Cow<'m, str>>,
    ) -> Result<Cow<'b, [u8]>, RewriteError> {
        let _ = map;
        Ok(Cow::Borrowed(body.bytes))
    }
}
