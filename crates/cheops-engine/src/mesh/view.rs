//! What this agent knows of the mesh, as one value that does not change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use cheops_core::membership::{Coordinate, Nearest, Reach, Report, StandingWord, Tree};
use cheops_model::{Mark, SiteName};

use super::announcement::Announcement;
use super::trips::RoundTrip;

/// Every known site, as seen from here.
#[derive(Clone, Debug)]
pub struct View {
    /// Grows when anything but times of contact and round trips changed.
    pub version: u64,
    /// This site.
    pub here: SiteName,
    /// Every known site, this one included; not those that were removed.
    pub sites: BTreeMap<SiteName, SiteView>,
    /// Who stands above whom.
    pub tree: Arc<Tree>,
    /// Sites that were removed for good; perhaps this one.
    pub removed: BTreeSet<SiteName>,
    /// This site refuses mutations from elsewhere.
    pub held: bool,
    /// Datagrams that were not taken since the agent started.
    pub datagrams_refused: u64,
}

/// What waits for a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Operations it has not applied yet.
    pub behind: u64,
    /// Operations waiting here for it.
    pub queued: u64,
}

/// What waits for each site; one without an entry has nothing waiting.
pub type Backlogs = BTreeMap<SiteName, Backlog>;

/// How a site was, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldReport {
    /// What was told.
    pub report: Report,
    /// When it was made: rather too early than too late.
    pub made: Instant,
}

/// One site, as seen from here.
#[derive(Clone, Debug)]
pub struct SiteView {
    /// What it said of itself, if it ever did; perhaps before a restart of this agent.
    pub announcement: Option<Arc<Announcement>>,
    /// What is believed of it: see [`cheops_core::membership::mark`].
    pub mark: Mark,
    /// Since when it has that mark.
    pub since: SystemTime,
    /// The last direct contact of this process with it, either way.
    pub last_heard: Option<Instant>,
    /// As measured from here.
    pub rtt: Option<RoundTrip>,
    /// Where to dial it: the address of our link, else the one announced, else a hearsay.
    pub advertise: Option<String>,
    /// Whether our link to it is up.
    pub linked: bool,
    /// How our own path to it is, as far as datagrams tell.
    pub reach: Reach,
    /// What an operator decided of it.
    pub standing: StandingWord,
    /// Where it lies; moves a little without a new version.
    pub place: Option<Coordinate>,
    /// The sites that it measured as its nearest.
    pub near: Option<Nearest<SiteName>>,
    /// What waits for it.
    pub backlog: Backlog,
    /// How it was, as it last told; for sites below this one.
    pub report: Option<Arc<HeldReport>>,
}
