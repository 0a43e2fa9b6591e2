//! What a service's answer means: done, refused and why, or nobody knows.

use cheops_model::profile::CallKind;

use crate::api::Api;

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Done.
    Applied,
    /// Refused for what it is.
    Verdict,
    /// Refused for now: no room.
    NoRoom,
    /// Refused for now: not ready.
    NotReady,
    /// It may have been done.
    Unknown,
}

/// Whether a resource may be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It may.
    Yes,
    /// Ask again later.
    NotYet,
    /// It never will.
    Failed,
}

impl Api {
    /// What an answer to such a call means.
    pub fn class(&self, call: CallKind, status: u16, body: &[u8]) -> Class {
        let _ = (call, status, body);
        Class::Unknown
    }

    /// True if a create with a chosen id was refused because the id is in use.
    pub fn is_id_taken(&self, kind: &str, status: u16) -> bool {
        let _ = kind;
        matches!(status, 409 | 412)
    }

    /// True if the profile says when a resource of that kind may be worked on; then GET of the item, and [`Api::ready`].
    pub fn awaits_ready(&self, kind: &str) -> bool {
        let _ = kind;
        false
    }

    /// Reads the answer to GET of an item.
    pub fn ready(&self, kind: &str, body: &[u8]) -> Ready {
        let _ = (kind, body);
        Ready::Yes
    }
}
