//! Ids in paths, queries and URLs.

use std::borrow::Cow;
use std::ops::Range;

use cheops_model::profile::Reach;

use crate::api::Api;
use crate::id::{Id, Place, is_unmistakable};
use crate::pattern::Segments;
use crate::splice::Dress;

impl Api {
    /// Shows the ids of a URL, absolute or not, or of a path and query.
    pub(crate) fn url_ids(
        &self,
        url: &str,
        as_link: Place,
        mut visit: impl FnMut(Id<'_>, Range<usize>, Dress),
    ) {
        let start = path_start(url);
        let end = url.find('#').unwrap_or(url.len()).max(start);
        let (path, query) = match url[start..end].find('?') {
            Some(at) => (start..start + at, Some(start + at + 1..end)),
            None => (start..end, None),
        };
        let place = |here: Place| {
            if as_link == Place::Link {
                Place::Link
            } else {
                here
            }
        };
        let mut kind = None;
        // `images/7` is relative to some place above it.
        let (text, shift) = match url[path.clone()].starts_with('/') {
            true => (Cow::Borrowed(&url[path.clone()]), 0),
            false => (Cow::Owned(format!("/{}", &url[path.clone()])), 1),
        };
        if let Some(segments) = Segments::of(&text) {
            kind = self.path_ids(&segments, |text, kind, range| {
                let range = range.start + path.start - shift..range.end + path.start - shift;
                let text = percent_decoded(text);
                let place = place(Place::Path);
                visit(Id { text, kind, place }, range, Dress::Segment);
            });
        }
        if let Some(query) = query {
            self.query_ids(&url[query.clone()], kind, |text, kind, range| {
                let range = range.start + query.start..range.end + query.start;
                let text = percent_decoded(text);
                visit(
                    Id {
                        text,
                        kind,
                        place: place(Place::Query),
                    },
                    range,
                    Dress::Query,
                );
            });
        }
    }

    /// Shows the segments that may be ids; gives the kind of the collection.
    fn path_ids<'a>(
        &'a self,
        segments: &Segments<'a>,
        mut visit: impl FnMut(&str, Option<&str>, Range<usize>),
    ) -> Option<&'a str> {
        let count = segments.len();
        let kind_before = |at: usize| (at > 0).then(|| segments.get(at - 1));
        if let Some((rule, fit)) = self.fitting(segments) {
            let parents = rule.pattern.as_ref().map(|pattern| pattern.parents(fit));
            for at in parents.into_iter().flatten() {
                visit(segments.get(at), kind_before(at), segments.range(at));
            }
            if fit.taken < count {
                visit(
                    segments.get(fit.taken),
                    Some(&rule.kind),
                    segments.range(fit.taken),
                );
            }
            for at in (fit.taken + 1..count).filter(|at| is_unmistakable(segments.get(*at))) {
                visit(segments.get(at), kind_before(at), segments.range(at));
            }
            return Some(&rule.kind);
        }
        for at in 0..count {
            let text = segments.get(at);
            if (self.guess && at > 0) || is_unmistakable(text) {
                visit(text, kind_before(at), segments.range(at));
            }
        }
        (count > 0 && self.guess).then(|| segments.get(count - 1))
    }

    fn query_ids(
        &self,
        query: &str,
        kind: Option<&str>,
        mut visit: impl FnMut(&str, Option<&str>, Range<usize>),
    ) {
        let mut start = 0;
        for pair in query.split('&') {
            let key_end = pair.find('=').unwrap_or(pair.len());
            let key = &pair[..key_end];
            let named =
                if self.ids.query.has(key) || self.ids.fields.iter().any(|field| field == key) {
                    Some(kind)
                } else {
                    self.ids.refs.kind(key, kind)
                };
            let mut at = start + key_end + 1;
            for value in pair
                .get(key_end + 1..)
                .into_iter()
                .flat_map(|values| values.split(','))
            {
                let unmistakable =
                    || self.ids.reach == Reach::Unmistakable && is_unmistakable(value);
                if !value.is_empty() && (named.is_some() || unmistakable()) {
                    visit(value, named.flatten(), at..at + value.len());
                }
                at += value.len() + 1;
            }
            start += pair.len() + 1;
        }
    }
}

/// True for what can only be a URL or an absolute path.
pub(crate) fn is_url(text: &str) -> bool {
    text.starts_with('/') || text.starts_with("http://") || text.starts_with("https://")
}

/// Where the path begins, after scheme and host.
fn path_start(url: &str) -> usize {
    if url.starts_with('/') {
        return 0;
    }
    let scheme = url.find("://");
    let scheme = scheme.filter(|at| !url[..*at].contains(['/', '?', '#']));
    let Some(host) = scheme.map(|at| at + 3) else {
        return 0;
    };
    url[host..]
        .find(['/', '?', '#'])
        .map_or(url.len(), |at| host + at)
}

/// The path and query of a URL.
pub(crate) fn target_of(url: &str) -> &str {
    let target = &url[path_start(url)..];
    &target[..target.find('#').unwrap_or(target.len())]
}

/// What a segment or value means. Left as it is where it is not UTF-8.
pub(crate) fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten();
        let signed = pair.is_some_and(|pair| pair.starts_with('+'));
        match pair
            .filter(|_| !signed)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// As it has to stand in a path or a query.
pub(crate) fn percent_encode_into(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_read_and_written() {
        assert_eq!(percent_decoded("a%2Fb%20"), "a/b ");
        assert_eq!(percent_decoded("%zz%"), "%zz%");
        assert_eq!(percent_decoded("%ff"), "%ff");
        assert_eq!(percent_decoded("%+1"), "%+1");
        let mut out = String::new();
        percent_encode_into("sha256:a/b é", &mut out);
        assert_eq!(out, "sha256:a%2Fb%20%C3%A9");
    }

    #[test]
    fn the_path_of_a_url() {
        assert_eq!(target_of("http://h:1/a/b?c#d"), "/a/b?c");
        assert_eq!(target_of("/a?u=http://h/b"), "/a?u=http://h/b");
        assert_eq!(target_of("http://h"), "");
        assert_eq!(target_of("?marker=1"), "?marker=1");
    }
}
