//! Ids in requests and answers replaced, and nothing else: everything between them stays byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use crate::api::Api;
use crate::error::RewriteError;
use crate::id::{Id, Place};
use crate::json::{NotJson, utf8};
use crate::limits::BODY_BYTES_MAX;
use crate::media::{is_json, is_json_patch};
use crate::splice::{Dress, Patches};
use crate::visit::Walk;

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
    pub fn target_ids(&self, target: &str, mut visit: impl FnMut(Id<'_>, Range<usize>)) {
        self.url_ids(target, Place::Path, |id, range, _| visit(id, range));
    }

    /// A path and query with its ids replaced. `None` leaves one as it is.
    pub fn rewrite_target<'t, 'm>(
        &self,
        target: &'t str,
        map: impl Fn(&Id<'_>) -> Option<Cow<'m, str>>,
    ) -> Cow<'t, str> {
        let mut patches = Patches::default();
        self.url_ids(target, Place::Path, |id, range, dress| {
            replace(&mut patches, &id, range, dress, map(&id));
        });
        patches.apply(target)
    }

    /// Shows every id of a header to `visit`, if the profile says that this one holds any.
    pub fn header_ids(&self, name: &str, value: &str, mut visit: impl FnMut(Id<'_>, Range<usize>)) {
        self.header(name, value, |id, range, _| visit(id, range));
    }

    /// A header with its ids replaced: `Location`, `Link` and those of the profile.
    pub fn rewrite_header<'t, 'm>(
        &self,
        name: &str,
        value: &'t str,
        map: impl Fn(&Id<'_>) -> Option<Cow<'m, str>>,
    ) -> Cow<'t, str> {
        let mut patches = Patches::default();
        self.header(name, value, |id, range, dress| {
            replace(&mut patches, &id, range, dress, map(&id));
        });
        patches.apply(value)
    }

    fn header(&self, name: &str, value: &str, mut visit: impl FnMut(Id<'_>, Range<usize>, Dress)) {
        if !self.holds_ids(name) {
            return;
        }
        if !value.contains('/') && !value.starts_with('?') {
            let kind = self.rules.iter().find(|rule| {
                rule.id_header
                    .as_ref()
                    .is_some_and(|header| header.eq_ignore_ascii_case(name))
            });
            let id = Id {
                text: Cow::Borrowed(value.trim()),
                kind: kind.map(|rule| rule.kind.as_str()),
                place: Place::Header,
            };
            let start = value.len() - value.trim_start().len();
            return visit(id, start..start + value.trim().len(), Dress::Plain);
        }
        for range in urls(value) {
            let start = range.start;
            self.url_ids(&value[range], Place::Link, |id, range, dress| {
                visit(id, start + range.start..start + range.end, dress);
            });
        }
    }

    /// True if the profile says that ids stand in this header.
    pub fn holds_ids(&self, name: &str) -> bool {
        let same = |header: &String| header.eq_ignore_ascii_case(name);
        self.ids.headers.iter().any(same)
            || self
                .rules
                .iter()
                .any(|rule| rule.id_header.as_ref().is_some_and(same))
    }

    /// Shows every id of a body to `visit`. A body that is not JSON has none.
    pub fn body_ids(
        &self,
        body: &Body<'_>,
        mut visit: impl FnMut(Id<'_>, Range<usize>),
    ) -> Result<(), RewriteError> {
        match self.json_of(body)? {
            Some(text) => self.walk(body, text, |id, range, _| visit(id, range)),
            None => Ok(()),
        }
    }

    /// A body with its ids replaced. One that is not JSON is not touched; an integer stays an integer if
    /// what replaces it is one.
    pub fn rewrite_body<'b, 'm>(
        &self,
        body: &Body<'b>,
        map: impl Fn(&Id<'_>) -> Option<Cow<'m, str>>,
    ) -> Result<Cow<'b, [u8]>, RewriteError> {
        let Some(text) = self.json_of(body)? else {
            return Ok(Cow::Borrowed(body.bytes));
        };
        let mut patches = Patches::default();
        self.walk(body, text, |id, range, dress| {
            replace(&mut patches, &id, range, dress, map(&id));
        })?;
        Ok(match patches.apply(text) {
            Cow::Borrowed(same) => Cow::Borrowed(same.as_bytes()),
            Cow::Owned(new) => Cow::Owned(new.into_bytes()),
        })
    }

    /// The text in which ids are looked for.
    fn json_of<'b>(&self, body: &Body<'b>) -> Result<Option<&'b str>, RewriteError> {
        match body.kind.is_some_and(|kind| self.rule(kind).opaque) {
            true => Ok(None),
            false => body.json(),
        }
    }

    fn walk(
        &self,
        body: &Body<'_>,
        text: &str,
        visit: impl FnMut(Id<'_>, Range<usize>, Dress),
    ) -> Result<(), RewriteError> {
        let walk = Walk::new(self, body.kind, body.side, text, visit);
        let patch = body.side == Side::Request && body.media.is_some_and(is_json_patch);
        let walked = if patch {
            walk.patch(body.kind)
        } else {
            walk.body(body.kind)
        };
        walked.map_err(|NotJson { at }| RewriteError::NotJson { at })
    }
}

impl<'b> Body<'b> {
    /// Nothing where it is not JSON by its own account.
    fn json(&self) -> Result<Option<&'b str>, RewriteError> {
        let bytes = self.bytes;
        let blank = bytes.iter().all(u8::is_ascii_whitespace);
        let json = match self.media {
            Some(media) => is_json(media),
            None => matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[')),
        };
        if blank || !json {
            return Ok(None);
        }
        if self
            .encoding
            .is_some_and(|encoding| !encoding.trim().eq_ignore_ascii_case("identity"))
        {
            return Err(RewriteError::Encoded);
        }
        if bytes.len() > BODY_BYTES_MAX {
            return Err(RewriteError::TooLarge { bytes: bytes.len() });
        }
        utf8(bytes)
            .map(Some)
            .map_err(|NotJson { at }| RewriteError::NotJson { at })
    }
}

/// An id that stays what it is stays as it is written.
fn replace(
    patches: &mut Patches,
    id: &Id<'_>,
    range: Range<usize>,
    dress: Dress,
    new: Option<Cow<'_, str>>,
) {
    if let Some(new) = new.filter(|new| *new != id.text) {
        patches.add(range, dress, &new);
    }
}

/// The URLs of a header: all of it, or what stands between angle brackets, as in `Link`.
fn urls(value: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let whole = (!value.contains('<')).then_some(0..value.len());
    let mut at = 0;
    let bracketed = std::iter::from_fn(move || {
        let start = at + value[at..].find('<')? + 1;
        let end = start + value[start..].find('>')?;
        at = end + 1;
        Some(start..end)
    });
    whole.into_iter().chain(bracketed)
}
