//! Bytes replaced by others, and everything between them left as it is.

use std::borrow::Cow;
use std::ops::Range;

use crate::json::{escape_into, is_integer, quoted};
use crate::url::percent_encode_into;

/// How an id stands in its surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dress {
    /// By itself.
    Plain,
    /// Between quotes.
    Text,
    /// A JSON number.
    Integer,
    /// In a path.
    Segment,
    /// In a query.
    Query,
}

impl Dress {
    fn put_on(self, id: &str) -> String {
        let mut out = String::with_capacity(id.len());
        match self {
            Dress::Plain => out.push_str(id),
            Dress::Text => escape_into(id, &mut out),
            Dress::Integer if is_integer(id) => out.push_str(id),
            Dress::Integer => out = quoted(id),
            Dress::Segment | Dress::Query => percent_encode_into(id, &mut out),
        }
        out
    }
}

/// What is to be replaced.
#[derive(Default)]
pub(crate) struct Patches(Vec<(Range<usize>, String)>);

impl Patches {
    pub(crate) fn add(&mut self, range: Range<usize>, dress: Dress, id: &str) {
        self.0.push((range, dress.put_on(id)));
    }

    pub(crate) fn add_raw(&mut self, range: Range<usize>, text: String) {
        self.0.push((range, text));
    }

    /// The text with everything replaced.
    pub(crate) fn apply(mut self, text: &str) -> Cow<'_, str> {
        self.0.retain(|(range, new)| text[range.clone()] != **new);
        if self.0.is_empty() {
            return Cow::Borrowed(text);
        }
        self.0.sort_by_key(|(range, _)| range.start);
        let grown: usize = self.0.iter().map(|(_, new)| new.len()).sum();
        let mut out = String::with_capacity(text.len() + grown);
        let mut done = 0;
        for (range, new) in self.0 {
            assert!(done <= range.start, "an id stands in one place only");
            out.push_str(&text[done..range.start]);
            out.push_str(&new);
            done = range.end;
        }
        out.push_str(&text[done..]);
        Cow::Owned(out)
    }
}
