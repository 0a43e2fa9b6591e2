//! What is told of sites, to operators (`/v1/sites`) and to whoever made a request.

use std::fmt::Write;
use std::time::{Instant, SystemTime};

use cheops_core::membership::{Reach, Report};
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
    /// How our own path to it is: `direct`, `one-way`, `indirect`, `none`, `untried`.
    #[serde(default)]
    pub reach: String,
    /// What an operator decided of it: `attached`, `detached`, `fenced`, `failed`.
    #[serde(default)]
    pub standing: String,
    /// Whether it refuses mutations from elsewhere.
    #[serde(default)]
    pub held: bool,
    /// How it was when it last told, if it is below this site.
    #[serde(default)]
    pub report: Option<ReportItem>,
}

/// How a site was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReportItem {
    /// How long ago.
    pub age_ms: u64,
    /// What it told.
    #[serde(flatten)]
    pub report: Report,
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
    let trip = picture.round_trip(&picture.here, name);
    let ago = |at: Instant| now.saturating_duration_since(at).as_millis() as u64;
    SiteItem {
        name: name.clone(),
        mark: if here { Mark::Connected } else { view.mark }
            .word()
            .to_owned(),
        since: rfc3339(view.since),
        last_heard_ms: view.last_heard.map(ago),
        rtt_ms: trip.map(|trip| thousandths(trip.ms)),
        rtt_error_ms: trip
            .filter(|_| !here)
            .map(|trip| thousandths(trip.error_ms)),
        behind: view.backlog.behind,
        queued: view.backlog.queued,
        labels: said.map(|said| said.labels.clone()).unwrap_or_default(),
        services: said
            .map(|said| said.services.iter().map(|s| s.name.to_string()).collect())
            .unwrap_or_default(),
        parent: said.and_then(|said| said.parent.clone()),
        reach: if view.linked {
            Reach::Direct
        } else {
            view.reach
        }
        .word()
        .to_owned(),
        standing: view.standing.word().to_owned(),
        held: said.is_some_and(|said| said.held),
        report: view.report.as_ref().map(|held| ReportItem {
            age_ms: ago(held.made),
            report: held.report.clone(),
        }),
    }
}

/// Milliseconds to the microsecond.
fn thousandths(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

/// `GET /v1/rtt`. Unknown is null.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoundTrip {
    /// The round trip.
    pub ms: Option<f64>,
    /// How far off that may be.
    pub error_ms: Option<f64>,
    /// Measured by one of the two; else estimated from where they lie.
    pub measured: bool,
}

/// The round trip between any two sites.
pub fn round_trip(picture: &Picture, from: &SiteName, to: &SiteName) -> RoundTrip {
    let found = picture.round_trip(from, to);
    RoundTrip {
        ms: found.map(|found| thousandths(found.ms)),
        error_ms: found.map(|found| thousandths(found.error_ms)),
        measured: found.is_some_and(|found| found.measured),
    }
}

/// Sites in numbers, as Prometheus text.
pub fn metrics(picture: &Picture) -> String {
    let view = &picture.view;
    let mut text = String::from(
        "# HELP cheops_sites Known sites, by mark, this one included.\n# TYPE cheops_sites gauge\n",
    );
    for mark in [
        Mark::Unknown,
        Mark::Connected,
        Mark::Synchronizing,
        Mark::Autonomous,
        Mark::Failed,
        Mark::Disconnected,
        Mark::Fenced,
    ] {
        let count = view.sites.values().filter(|seen| seen.mark == mark).count();
        let _ = writeln!(text, "cheops_sites{{mark=\"{}\"}} {count}", mark.word());
    }
    let links = view.sites.values().filter(|seen| seen.linked).count();
    let _ = writeln!(
        text,
        "# HELP cheops_links Links to other sites that are up.\n# TYPE cheops_links gauge\ncheops_links {links}\n\
         # HELP cheops_datagrams_refused_total Datagrams that were not taken: forged, replayed, of no use.\n\
         # TYPE cheops_datagrams_refused_total counter\ncheops_datagrams_refused_total {}",
        view.datagrams_refused
    );
    text
}

/// A time as the contract writes it, in whole seconds.
pub fn rfc3339(time: SystemTime) -> Option<String> {
    let whole = OffsetDateTime::from(time).replace_nanosecond(0).ok()?;
    whole.format(&Rfc3339).ok()
}
