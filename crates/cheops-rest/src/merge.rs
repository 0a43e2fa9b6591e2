//! One list from the lists of several sites: what is a replica appears once.

use std::collections::BTreeSet;

use crate::api::Api;
use crate::created::Answer;
use crate::json::Node;
use crate::listing::{next_link, next_page};
use crate::splice::Patches;

/// Lists that cannot be made one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeFault {
    /// 502.
    #[error("what site {0} answered is not JSON with a list in it")]
    NoList(usize),
    /// The list of a site goes on elsewhere: fetch that page of it too, and merge again.
    #[error("the list of site {site} goes on at {next}")]
    Paged {
        /// Which.
        site: usize,
        /// Path and query of its next page, as it says.
        next: String,
    },
}

impl Api {
    /// Merges what several sites answered to one list request, the pages of each in order, all in meta-id
    /// form. Items keep their order, each id once. Everything that is not an item is from the first page of
    /// the first site, byte for byte, but for the link to its next page, and for the members that the profile
    /// says count the items.
    pub fn merge(&self, kind: &str, sites: &[&[Answer<'_>]]) -> Result<Vec<u8>, MergeFault> {
        let rule = self.rule(kind);
        let mut seen = BTreeSet::new();
        let mut merged: Option<Merged<'_>> = None;
        for (site, pages) in sites.iter().enumerate() {
            for (page, answer) in pages.iter().enumerate() {
                let fault = || MergeFault::NoList(site);
                let root = Node::read(answer.body).map_err(|_| fault())?;
                let next = next_page(&root, answer.header("link"));
                if let Some(next) = next.filter(|_| page + 1 == pages.len()) {
                    return Err(MergeFault::Paged { site, next });
                }
                let list = rule.list_of(&root, kind).ok_or_else(fault)?;
                let items = list.items().ok_or_else(fault)?;
                // An item without an id is no replica of another.
                let is_new = |item: &&Node<'_>| {
                    let id = rule.own_id(rule.unwrapped(item));
                    id.is_none_or(|id| seen.insert(id))
                };
                let new: Vec<&str> = items.iter().filter(is_new).map(|item| item.raw).collect();
                match &mut merged {
                    Some(merged) => merged.added.extend(new),
                    None => {
                        let end = list.start + list.raw.len() - 1;
                        let first = items.len();
                        merged = Some(Merged {
                            root,
                            end,
                            first,
                            added: Vec::new(),
                        });
                    }
                }
            }
        }
        let merged = merged.ok_or(MergeFault::NoList(0))?;
        Ok(merged.written(&rule.counts))
    }
}

struct Merged<'a> {
    /// Of the first page.
    root: Node<'a>,
    /// Where its list ends.
    end: usize,
    /// How many items it had.
    first: usize,
    added: Vec<&'a str>,
}

impl Merged<'_> {
    fn written(self, counts: &[String]) -> Vec<u8> {
        let mut patches = Patches::default();
        let base = self.root.start;
        let mut put = |start: usize, end: usize, text: String| {
            patches.add_raw(start - base..end - base, text)
        };
        if !self.added.is_empty() {
            let comma = if self.first > 0 { "," } else { "" };
            put(
                self.end,
                self.end,
                format!("{comma}{}", self.added.join(",")),
            );
        }
        for total in counts.iter().filter_map(|name| self.root.get(name)) {
            put(
                total.start,
                total.start + total.raw.len(),
                (self.first + self.added.len()).to_string(),
            );
        }
        if let Some(link) = next_link(&self.root) {
            let nothing = if link.items().is_some() { "[]" } else { "null" };
            put(link.start, link.start + link.raw.len(), nothing.to_owned());
        }
        patches.apply(self.root.raw).into_owned().into_bytes()
    }
}
