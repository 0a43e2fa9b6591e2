//! What is told of sites, to operators (`/v1/sites`) and to whoever made a request.

use std::time::{Duration, Instant, SystemTime};

use cheops_model::{Labels, Mark, SiteName};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::mesh::SiteView;
use crate::picture::Picture;

/// `GET /v1/sites`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sites {
    /// Every known site and this one, in name order.
    pub items: Vec<SiteItem>,
}

/// One site. Unknown is null.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SiteItem {
    /// Its name.
    pub name: SiteName,
    /// `connected`, `autonomous`, …
    pub mark: String,
    /// Since when it has that mark.
    pub since: Option<String>,
    /// How long ago it was last heard directly.
    pub last_heard_ms: Option<u64>,
    /// The round trip from here.
    pub rtt_ms: Option<f64>,
    /// How far off that may be.
    pub rtt_error_ms: Option<f64>,
    /// Operations it has not applied yet.
    pub behind: u64,
    /// Operations waiting here for it.
    pub queued: u64,
    /// Its labels.
    pub labels: Labels,
    /// The services it runs, by registered name.
    pub services: Vec<String>,
    /// The site above it, in a tree.
    pub parent: Option<SiteName>,
}

/// Every known site, as seen from here.
pub fn sites(picture: &Picture) -> Sites {
    let now = Instant::now();
    let item = |(name, view)| site_item(name, view, picture, now);
    Sites {
        items: picture.view.sites.iter().map(item).collect(),
    }
}

fn site_item(name: &SiteName, view: &SiteView, picture: &Picture, now: Instant) -> SiteItem {
    let here = *name == picture.here;
    let said = view.announcement.as_deref();
    let ago = |at: Instant| now.saturating_duration_since(at).as_millis() as u64;
    SiteItem {
        name: name.clone(),
        mark: if here { Mark::Connected } else { view.mark }
            .word()
            .to_owned(),
        since: rfc3339(view.since),
        last_heard_ms: view.last_heard.map(ago),
        rtt_ms: if here {
            Some(0.0)
        } else {
            view.rtt.as_ref().map(|rtt| milliseconds(rtt.value))
        },
        rtt_error_ms: view.rtt.as_ref().map(|rtt| milliseconds(rtt.error)),
        behind: 0,
        queued: 0,
        labels: said.map(|said| said.labels.clone()).unwrap_or_default(),
        services: said
            .map(|said| said.services.iter().map(|s| s.name.to_string()).collect())
            .unwrap_or_default(),
        parent: said.and_then(|said| said.parent.clone()),
    }
}

fn milliseconds(value: Duration) -> f64 {
    (value.as_secs_f64() * 1e6).round() / 1e3
}

/// A time as the contract writes it, in whole seconds.
pub fn rfc3339(time: SystemTime) -> Option<String> {
    let whole = OffsetDateTime::from(time).replace_nanosecond(0).ok()?;
    whole.format(&Rfc3339).ok()
}
