//! What operators decided of a site: a fact of the whole mesh, spread with membership.

use serde::{Deserialize, Serialize};

/// A decision. The highest version counts, then the site that made it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Standing<K> {
    /// Raised with each decision about the site.
    pub version: u64,
    /// Where it was made.
    pub by: K,
    /// What was decided.
    pub word: StandingWord,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StandingWord {
    /// It belongs to the mesh, as any site does of which nothing was decided.
    Attached,
    /// It left on purpose and is expected back; what waits for it is kept.
    Detached,
    /// It is shut out until attached again.
    Fenced,
    /// It is gone for good; it comes back only as a new incarnation, attached again.
    Removed,
    /// It is confirmed to have failed.
    Failed,
}

impl StandingWord {
    /// Whether nothing is exchanged with such a site.
    pub fn is_out(self) -> bool {
        match self {
            StandingWord::Detached | StandingWord::Fenced | StandingWord::Removed => true,
            StandingWord::Attached | StandingWord::Failed => false,
        }
    }

    /// The word shown to people and programs.
    pub fn word(self) -> &'static str {
        match self {
            StandingWord::Attached => "attached",
            StandingWord::Detached => "detached",
            StandingWord::Fenced => "fenced",
            StandingWord::Removed => "removed",
            StandingWord::Failed => "failed",
        }
    }
}
