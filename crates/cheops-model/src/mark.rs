//! Marks: what one site believes of another.

use std::fmt;

use serde::{Serialize, Serializer};

/// What is believed of a site. Never `Connected` without a recent proof; `Autonomous` is not `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Never heard.
    Unknown,
    /// In reach.
    Connected,
    /// In reach, with a backlog.
    Synchronizing,
    /// Not in reach, presumed to work on its own.
    Autonomous,
    /// Confirmed by an operator or an outside check.
    Failed,
    /// Left on purpose.
    Disconnected,
    /// Shut out.
    Fenced,
}

impl Mark {
    /// The word shown to people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Mark::Unknown => "unknown",
            Mark::Connected => "connected",
            Mark::Synchronizing => "synchronizing",
            Mark::Autonomous => "autonomous",
            Mark::Failed => "failed",
            Mark::Disconnected => "disconnected",
            Mark::Fenced => "fenced",
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Serialize for Mark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}
