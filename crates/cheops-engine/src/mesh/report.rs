//! How a site is, as it tells the sites above it: bounded, and only what changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use cheops_model::{ServiceName, SiteName};
use serde::{Deserialize, Serialize};

use crate::limits::{REPORT_SERVICES_MAX, REPORTS_MAX};

/// How a site is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Processes that want to run, as the system averages them over a minute, in hundredths.
    pub load_percent: u32,
    /// Memory in use.
    pub memory_percent: u32,
    /// The disk of the agent's data in use.
    pub disk_percent: u32,
    /// Requests a second, in tenths, over the last report's time.
    pub requests_tenths: u64,
    /// Of them, answered with 5xx.
    pub errors_tenths: u64,
    /// Operations waiting to be sent or applied.
    pub queued: u64,
    /// Its services, by name: whether any backend is well.
    pub services: BTreeMap<ServiceName, bool>,
}

/// A report and when it was made, by this site's count.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldReport {
    /// What was told.
    pub report: Report,
    /// When it was made: now less the age it came with.
    pub made: Instant,
}

/// What one site tells its parent: its own report if it changed, and those from below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Reports {
    pub(super) items: Vec<ReportItem>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ReportItem {
    pub(super) site: SiteName,
    /// How long ago it was made.
    pub(super) age_ms: u64,
    /// Absent if it is what was told last, and only its age is news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) report: Option<Report>,
}

impl Report {
    /// Cut to what may be told.
    pub(super) fn bounded(mut self) -> Report {
        while self.services.len() > REPORT_SERVICES_MAX {
            self.services.pop_last();
        }
        self
    }
}

impl Reports {
    /// What of `held` is to be told, given what was told before.
    pub(super) fn since(
        held: &BTreeMap<SiteName, Arc<HeldReport>>,
        told: &BTreeMap<SiteName, Arc<HeldReport>>,
        now: Instant,
    ) -> Reports {
        let item = |(site, held): (&SiteName, &Arc<HeldReport>)| {
            let same = told
                .get(site)
                .is_some_and(|told| told.report == held.report);
            ReportItem {
                site: site.clone(),
                age_ms: now.saturating_duration_since(held.made).as_millis() as u64,
                report: (!same).then(|| held.report.clone()),
            }
        };
        Reports {
            items: held.iter().take(REPORTS_MAX).map(item).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_did_not_change_is_told_by_its_age_alone() {
        let site = SiteName::new("site1").unwrap();
        let now = Instant::now();
        let held = |queued, made| {
            let report = Report {
                queued,
                ..Report::default()
            };
            BTreeMap::from([(site.clone(), Arc::new(HeldReport { report, made }))])
        };
        let first = held(3, now);
        let told = Reports::since(&first, &BTreeMap::new(), now);
        assert_eq!(told.items[0].report.as_ref().unwrap().queued, 3);
        let later = now + Duration::from_secs(5);
        let again = Reports::since(&held(3, later), &first, later + Duration::from_millis(7));
        assert_eq!((again.items[0].age_ms, &again.items[0].report), (7, &None));
        let changed = Reports::since(&held(4, later), &first, later);
        assert!(changed.items[0].report.is_some());
    }
}
