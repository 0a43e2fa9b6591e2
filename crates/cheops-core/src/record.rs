//! What is on disk: tables, keys, and which record is of which kind and version.
//!
//! The bytes of every version that was ever written are kept in `tests/fixtures`. A new form of a record is a new
//! version of it, which says how to get there from the one before.

use cheops_model::record::{First, Record};
pub use cheops_model::record::{RecordFault, decode, encode};

use crate::eventual::{AnswerRecord, Kept, Mark, OutboxRecord, ReplicantRecord, SiteRecord};

/// Where a record lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// One record: this site's own counters.
    Site,
    /// By replicant.
    Replicants,
    /// By replicant and index.
    Log,
    /// By operation: what clients were told.
    Answers,
    /// By operation: what this site still has to hand to a leader.
    Outbox,
    /// By replicant: whether something is under way with it.
    Marks,
}

/// Records that have had one form so far.
macro_rules! first_version {
    ($($kind:literal: $type:ty),+) => {$(
        impl Record for $type {
            const KIND: [u8; 4] = *$kind;
            const VERSION: u16 = 1;
            type Previous = First;
            fn migrate(first: First) -> Self {
                match first {}
            }
        }
    )+};
}

first_version! {
    b"SITE": SiteRecord,
    b"REPL": ReplicantRecord,
    b"LOGE": Kept,
    b"ANSW": AnswerRecord,
    b"OUTB": OutboxRecord,
    b"MARK": Mark
}

pub(crate) fn key_of(id: u128) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

pub(crate) fn log_key(id: u128, index: u64) -> Vec<u8> {
    let mut key = key_of(id);
    key.extend(index.to_be_bytes());
    key
}
