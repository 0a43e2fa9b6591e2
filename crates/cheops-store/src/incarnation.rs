//! Incarnations: which life of this disk is speaking.
//!
//! A site that was given an older disk would hand out positions that it has handed out before.
//! Therefore writers are (site, incarnation), and a new or restored disk is a new incarnation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A random name for one life of a store; never the same again after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation([u8; 16]);

impl Incarnation {
    /// The incarnation of these bytes: whoever calls answers for them being random.
    pub fn from_bytes(bytes: [u8; 16]) -> Incarnation {
        Incarnation(bytes)
    }

    /// Its bytes, for a message or a record.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
    }
}

/// What opening a store found: the same life, or why a new one began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The store goes on where it was, after a stop, a crash or a power cut.
    Continued,
    /// There was no store: this one is new and empty.
    Created,
    /// Nothing beside the database vouches for it: it was restored, or moved here.
    Unvouched,
    /// What vouches for it is itself a copy: the folder was copied, or put back from a copy.
    Copied,
    /// The database is older than it was, or belongs to another life: its file was put back.
    RolledBack,
}

impl Opening {
    /// Whether writers of this site start a new life.
    pub fn is_new_incarnation(self) -> bool {
        self != Opening::Continued
    }
}

impl fmt::Display for Opening {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Opening::Continued => "continued",
            Opening::Created => "created",
            Opening::Unvouched => "restored or moved here",
            Opening::Copied => "put back from a copy of its folder",
            Opening::RolledBack => "put back to an older state",
        })
    }
}
