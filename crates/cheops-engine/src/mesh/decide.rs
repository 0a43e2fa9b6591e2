//! What operators tell a mesh to do with sites.

use cheops_core::membership::StandingWord;
use cheops_model::SiteName;

/// What an operator wants of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This site refuses mutations from elsewhere.
    Hold,
    /// It takes them again.
    Release,
    /// The site leaves on purpose; what waits for it is kept.
    Detach,
    /// It belongs to the mesh again.
    Attach,
    /// It is gone for good.
    Remove {
        /// Also without a majority of the mesh.
        force: bool,
    },
    /// It is shut out.
    Fence,
    /// It is confirmed to have failed.
    Fail,
    /// This site gets another parent, or none.
    Move {
        /// The new one.
        parent: Option<SiteName>,
    },
}

impl Decision {
    /// What it makes of the site's standing, for every site of the mesh.
    pub(super) fn standing(&self) -> Option<StandingWord> {
        match self {
            Decision::Hold | Decision::Release | Decision::Move { .. } => None,
            Decision::Detach => Some(StandingWord::Detached),
            Decision::Attach => Some(StandingWord::Attached),
            Decision::Remove { .. } => Some(StandingWord::Removed),
            Decision::Fence => Some(StandingWord::Fenced),
            Decision::Fail => Some(StandingWord::Failed),
        }
    }
}

/// Why a decision was not taken. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// Name a site that is known.
    #[error("no site `{0}` is known")]
    Unknown(SiteName),
    /// Ask that site's own agent.
    #[error("only {0}'s own agent can do that: ask it, with --admin")]
    NotHere(SiteName),
    /// Ask another site's agent.
    #[error("this agent is {0}'s own: decide that at another site")]
    Here(SiteName),
    /// Wait for the others, or insist.
    #[error(
        "only {reached} of {known} sites are in reach, which is no majority; try again later, or insist with --force"
    )]
    NoMajority {
        /// Sites in reach, this one included.
        reached: usize,
        /// All that belong to the mesh.
        known: usize,
    },
    /// Choose another parent.
    #[error("{0} is below this site: that would be a circle")]
    Circle(SiteName),
    /// Free space, or check the data folder.
    #[error("it could not be written down: {0}")]
    Unsaved(String),
    /// The agent stops.
    #[error("the agent is stopping")]
    Stopped,
}
