//! How it is at this site: gathered every few seconds for the sites above.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cheops_core::membership::Report;
use cheops_core::membership::limits::REPORT_EVERY_MS;
use cheops_engine::Picture;
use cheops_engine::mesh::Council;
use cheops_proxy::Metrics;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::backends::Watched;

/// How often a report is made.
const REPORT_INTERVAL: Duration = Duration::from_millis(REPORT_EVERY_MS);

/// Instances of one service that are asked, one after the other, for at most a second each.
const PROBED_MAX: usize = 3;

/// Gathers reports.
pub(super) struct Reporter {
    metrics: Metrics,
    picture: watch::Receiver<Arc<Picture>>,
    data: PathBuf,
    /// As they are configured now.
    services: watch::Receiver<Vec<Watched>>,
    /// Answers so far, and of them those with 5xx, when last looked.
    before: (u64, u64),
}

impl Reporter {
    pub(super) fn new(
        metrics: Metrics,
        picture: watch::Receiver<Arc<Picture>>,
        services: watch::Receiver<Vec<Watched>>,
        data: PathBuf,
    ) -> Reporter {
        Reporter {
            metrics,
            picture,
            data,
            services,
            before: (0, 0),
        }
    }

    /// Reports until the agent stops.
    pub(super) async fn run(mut self, council: Council, mut stop: watch::Receiver<bool>) {
        let mut ticks = interval(REPORT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => council.report(self.gather().await).await,
                // It changes once, when the agent stops.
                _ = stop.changed() => return,
            }
        }
    }

    async fn gather(&mut self) -> Report {
        let answered = self.metrics.answered();
        let before = std::mem::replace(&mut self.before, answered);
        let tenths = |now: u64, before: u64| {
            now.saturating_sub(before) * 10 / REPORT_INTERVAL.as_secs().max(1)
        };
        let queued = |picture: &Picture| {
            let sites = picture.view.sites.values();
            sites.map(|site| site.backlog.queued).sum()
        };
        let mut report = Report {
            load_percent: load_percent().unwrap_or_default(),
            memory_percent: memory_percent().unwrap_or_default(),
            disk_percent: disk_percent(&self.data).unwrap_or_default(),
            requests_tenths: tenths(answered.0, before.0),
            errors_tenths: tenths(answered.1, before.1),
            queued: queued(&self.picture.borrow()),
            ..Report::default()
        };
        let services = self.services.borrow().clone();
        for watched in services {
            let well = is_well(&watched).await;
            report.services.insert(watched.service, well);
        }
        report
    }
}

/// Any instance that answers will do.
async fn is_well(watched: &Watched) -> bool {
    let addresses = watched.endpoints.borrow().addresses.clone();
    for address in addresses.iter().take(PROBED_MAX) {
        if watched.health.answers(*address).await {
            return true;
        }
    }
    false
}

fn load_percent() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((load * 100.0) as u32)
}

fn memory_percent() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    let (total, free) = (kib("MemTotal:")?, kib("MemAvailable:")?);
    Some((total.saturating_sub(free) * 100 / total.max(1)) as u32)
}

fn disk_percent(folder: &std::path::Path) -> Option<u32> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let used = disk.f_blocks.saturating_sub(disk.f_bfree);
    let usable = used + disk.f_bavail;
    Some((used * 100 / usable.max(1)) as u32)
}
