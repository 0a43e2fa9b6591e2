//! What this agent knows of the mesh, as one value that does not change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

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
    /// Every known site, this one included.
    pub sites: BTreeMap<SiteName, SiteView>,
}

/// One site, as seen from here.
#[derive(Clone, Debug)]
pub struct SiteView {
    /// What it said of itself, if it ever did; perhaps before a restart of this agent.
    pub announcement: Option<Arc<Announcement>>,
    /// `Connected` if our link to it is up, else `Autonomous` if it was ever heard, else `Unknown`.
    pub mark: Mark,
    /// Since when it has that mark.
    pub since: SystemTime,
    /// The last direct contact of this process with it, either way.
    pub last_heard: Option<Instant>,
    /// As measured on our link to it.
    pub rtt: Option<RoundTrip>,
    /// Where to dial it: the address of our link, else the one announced, else a hearsay.
    pub advertise: Option<String>,
}
