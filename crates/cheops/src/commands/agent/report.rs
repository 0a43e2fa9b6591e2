//! How it is at this site: gathered every few seconds for the sites above.

use std::path::PathBuf;
use std::sync::Arc;

use cheops_engine::Picture;
use cheops_engine::limits::REPORT_INTERVAL;
use cheops_engine::mesh::{Council, Report};
use cheops_model::ServiceName;
use cheops_proxy::Metrics;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::config::{Backend, Config};

/// A service that does not take a connection within this is not well.
const PROBE_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// Gathers reports.
pub(super) struct Reporter {
    metrics: Metrics,
    picture: watch::Receiver<Arc<Picture>>,
    data: PathBuf,
    /// Each service and where it listens: `host:port`, any of which may answer.
    services: Vec<(ServiceName, Vec<String>)>,
    /// Answers so far, and of them those with 5xx, when last looked.
    before: (u64, u64),
}

impl Reporter {
    pub(super) fn new(
        metrics: Metrics,
        picture: watch::Receiver<Arc<Picture>>,
        config: &Config,
    ) -> Reporter {
        let service = |service: &crate::config::ServiceSettings| {
            let places = match &service.backend {
                Backend::Addresses(addresses) => {
                    addresses.iter().map(ToString::to_string).collect()
                }
                Backend::Names(names) => names.iter().map(ToString::to_string).collect(),
            };
            (service.name.clone(), places)
        };
        Reporter {
            metrics,
            picture,
            data: config.data.clone(),
            services: config.services.iter().map(service).collect(),
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
        for (name, places) in &self.services {
            report.services.insert(name.clone(), is_well(places).await);
        }
        report
    }
}

async fn is_well(places: &[String]) -> bool {
    for place in places {
        let connected = timeout(PROBE_TIME_MAX, TcpStream::connect(place)).await;
        if connected.is_ok_and(|connected| connected.is_ok()) {
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
