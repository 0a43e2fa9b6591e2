//! Lists in pages. A cursor says after which item the next page begins, whatever came or went since.

use serde::{Deserialize, Serialize};

/// Items of a page that says nothing.
const ITEMS_USUAL: usize = 100;

/// Items of one page, to keep answers and looks at the state short. More is as much.
const ITEMS_MAX: usize = 1_000;

/// One page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List<T> {
    /// In order.
    pub items: Vec<T>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// Which page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    limit: usize,
    after: Option<Vec<u8>>,
}

impl Page {
    /// None if the cursor is not one that a page gave.
    pub fn new(limit: Option<usize>, cursor: Option<&str>) -> Option<Page> {
        let after = match cursor {
            None => None,
            Some(cursor) => Some(unhex(cursor)?),
        };
        let limit = limit.unwrap_or(ITEMS_USUAL).clamp(1, ITEMS_MAX);
        Some(Page { limit, after })
    }

    /// Of what one shard has, the part that may be on the page. `found` are items with their keys.
    pub(super) fn cut<T>(&self, found: impl Iterator<Item = (Vec<u8>, T)>) -> Vec<(Vec<u8>, T)> {
        let mut kept: Vec<(Vec<u8>, T)> = Vec::new();
        for item in found.filter(|(key, _)| self.after.as_ref().is_none_or(|after| key > after)) {
            kept.push(item);
            // More is not held than twice what is shown, however much there is.
            if kept.len() > 2 * (self.limit + 1) {
                self.shorten(&mut kept);
            }
        }
        self.shorten(&mut kept);
        kept
    }

    /// The page, of what all shards have.
    pub(super) fn list<T>(&self, parts: Vec<Vec<(Vec<u8>, T)>>) -> List<T> {
        let mut all: Vec<(Vec<u8>, T)> = parts.into_iter().flatten().collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let more = all.len() > self.limit;
        all.truncate(self.limit);
        let last = all.last().filter(|_| more).map(|(key, _)| hex(key));
        List {
            items: all.into_iter().map(|(_, item)| item).collect(),
            next: last,
        }
    }

    fn shorten<T>(&self, kept: &mut Vec<(Vec<u8>, T)>) {
        kept.sort_by(|a, b| a.0.cmp(&b.0));
        kept.truncate(self.limit + 1);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(numbers: &[u8]) -> impl Iterator<Item = (Vec<u8>, u8)> {
        numbers.iter().map(|n| (vec![*n], *n))
    }

    #[test]
    fn pages_follow_each_other_and_nothing_is_shown_twice() {
        let (left, right) = ([9, 1, 5, 3, 7], [2, 8, 4, 6]);
        let (mut seen, mut cursor) = (Vec::new(), None);
        for _ in 0..3 {
            let page = Page::new(Some(4), cursor.as_deref()).unwrap();
            let list = page.list(vec![page.cut(keyed(&left)), page.cut(keyed(&right))]);
            seen.extend(list.items);
            cursor = list.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!((seen, cursor), ((1..=9).collect(), None));
    }

    #[test]
    fn a_cursor_that_no_page_gave_is_none() {
        for bad in ["x", "0", "é0", "0g"] {
            assert!(Page::new(None, Some(bad)).is_none(), "{bad}");
        }
    }
}
