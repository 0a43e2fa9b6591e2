//! What it costs to tell how sites are, up a tree.

use cheops_core::membership::limits::REPORT_EVERY_MS;
use cheops_core::membership::{Chance, Ledger, Moment, Report};
use cheops_model::ServiceName;

use crate::site::Site;

/// Sites below each parent.
const FAN_OUT: usize = 20;

/// What a message over a link costs besides its content, both ways: request and answer as HTTP/2
/// frames (66), two TLS records (44), four packets of TCP and IP (160).
const LINK_BYTES: usize = 270;

/// Until every site was told of once.
const WARM_UP_ROUNDS: u64 = 13;

/// Bytes of one site in a second, on average over all sites.
pub fn report_bytes(sites: u16, loss_permille: u64, seed: u64, seconds: u64) -> f64 {
    let sites = usize::from(sites);
    let mut chance = Chance::new(seed);
    let mut ledgers: Vec<Ledger<Site>> = vec![Ledger::default(); sites];
    let mut reports: Vec<Report> = (0..sites).map(|_| first(&mut chance)).collect();
    let rounds = seconds * 1000 / REPORT_EVERY_MS;
    let mut bytes = 0;
    for round in 0..WARM_UP_ROUNDS + rounds {
        let now = Moment::from_ms(1 + round * REPORT_EVERY_MS);
        // The lowest first: a site's parent has a smaller number.
        for site in (0..sites).rev() {
            wander(&mut reports[site], &mut chance);
            ledgers[site].put(now, Site(site as u16), reports[site].clone());
            let Some(above) = site.checked_sub(1).map(|place| place / FAN_OUT) else {
                continue;
            };
            let told = ledgers[site].tell(now);
            let content = serde_json::to_vec(&told).map_or(0, |text| text.len());
            bytes += content + LINK_BYTES;
            ledgers[above].take(now, &Site(site as u16), told, |_| true);
        }
        if round < WARM_UP_ROUNDS {
            bytes = 0;
        }
    }
    // What is lost is sent again.
    let again = 1000.0 / (1000 - loss_permille) as f64;
    bytes as f64 * again / sites as f64 / (rounds * REPORT_EVERY_MS / 1000) as f64
}

fn first(chance: &mut Chance) -> Report {
    let services = ["compute", "identity", "image", "network"];
    let service = |name: &str| Some((ServiceName::new(name).ok()?, true));
    Report {
        load_percent: 50 + chance.below(200) as u32,
        memory_percent: 20 + chance.below(60) as u32,
        disk_percent: 20 + chance.below(60) as u32,
        requests_tenths: chance.below(2_000) as u64,
        errors_tenths: 0,
        queued: 0,
        services: services.into_iter().filter_map(service).collect(),
    }
}

/// A busy site: load and requests vary by a tenth each time, memory by a point, and now and then
/// something waits.
fn wander(report: &mut Report, chance: &mut Chance) {
    let vary = |value: u64, chance: &mut Chance| {
        let step = (value / 10).max(5);
        (value + chance.below(2 * step as usize + 1) as u64).saturating_sub(step)
    };
    report.load_percent = vary(u64::from(report.load_percent), chance) as u32;
    report.requests_tenths = vary(report.requests_tenths, chance);
    report.memory_percent = (report.memory_percent + chance.below(3) as u32).clamp(2, 96) - 1;
    report.queued = u64::from(chance.below(100) == 0);
}
