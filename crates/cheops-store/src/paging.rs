//! How a scan is cut into pages, the same for every store.

use crate::key::{Key, KeyRange, Value};
use crate::limits::{PAGE_BYTES_MAX, PAGE_ENTRIES_MAX};
use crate::store::Page;

/// A page in the making.
pub(crate) struct Paging {
    range: KeyRange,
    limit: usize,
    entries: Vec<(Key, Value)>,
    bytes: usize,
}

impl Paging {
    /// A wish for no entry is a wish for one: a page always gets further.
    pub(crate) fn new(range: KeyRange, limit: usize) -> Paging {
        let limit = limit.clamp(1, PAGE_ENTRIES_MAX);
        let (entries, bytes) = (Vec::new(), 0);
        Paging {
            range,
            limit,
            entries,
            bytes,
        }
    }

    pub(crate) fn range(&self) -> &KeyRange {
        &self.range
    }

    /// How many entries to look at: one more than fits tells whether there is a next page.
    pub(crate) fn looked_at_max(&self) -> usize {
        self.limit + 1
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX
    }

    pub(crate) fn add(&mut self, key: Key, value: Value) {
        self.bytes += key.len() + value.len();
        self.entries.push((key, value));
    }

    /// The page, with nothing behind it.
    pub(crate) fn end(self) -> Page {
        let entries = self.entries;
        Page {
            entries,
            next: None,
        }
    }

    /// The page, with more behind it.
    pub(crate) fn cut(self) -> Page {
        let (last, _) = self.entries.last().expect("a full page has an entry");
        let next = Some(self.range.after(last));
        let entries = self.entries;
        Page { entries, next }
    }
}
