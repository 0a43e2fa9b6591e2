//! How sites below are: told up a tree, only what changed, and never younger than it is.

use std::collections::{BTreeMap, BTreeSet};

use cheops_model::ServiceName;
use serde::{Deserialize, Serialize};

use super::key::Key;
use super::limits::{
    REPORT_AGAIN_MS, REPORT_SERVICES_MAX, REPORT_SILENT_MS, REPORTS_BYTES_MAX, REPORTS_MAX,
};
use super::moment::Moment;

/// How a site is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

impl Report {
    /// Cut to what may be told.
    fn bounded(mut self) -> Report {
        while self.services.len() > REPORT_SERVICES_MAX {
            self.services.pop_last();
        }
        self
    }

    /// Bytes it takes in a message, at most.
    fn wire_bytes(&self) -> usize {
        // The names of the members and the longest numbers.
        let service = |name: &ServiceName| name.as_str().len() + 9;
        280 + self.services.keys().map(service).sum::<usize>()
    }

    /// Whether it is worth telling whoever knows the other: a service came or went, a share moved by
    /// 3 points, a rate, the load or a queue by a fifth, or errors or a queue began or ended.
    pub fn is_news_to(&self, known: &Report) -> bool {
        let shares = [
            (self.memory_percent, known.memory_percent),
            (self.disk_percent, known.disk_percent),
        ];
        let rates = [
            (u64::from(self.load_percent), u64::from(known.load_percent)),
            (self.requests_tenths, known.requests_tenths),
            (self.errors_tenths, known.errors_tenths),
            (self.queued, known.queued),
        ];
        let began = |now: u64, before: u64| (now == 0) != (before == 0);
        let moved = |(now, before): (u64, u64)| now.abs_diff(before) > 20.max(before / 5);
        self.services != known.services
            || shares
                .into_iter()
                .any(|(now, before)| now.abs_diff(before) >= 3)
            || began(self.errors_tenths, known.errors_tenths)
            || began(self.queued, known.queued)
            || rates.into_iter().any(moved)
    }
}

/// What one site tells its parent of itself and of what is below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports<K> {
    /// No report of a site that is not named and was not silent is older than this.
    pub oldest_ms: u64,
    /// What changed.
    pub items: Vec<ReportItem<K>>,
}

/// What changed of one site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportItem<K> {
    /// Who.
    pub site: K,
    /// How long ago its report was made.
    pub age_ms: u64,
    /// Nothing was heard of it for a while: until it is named again, its report only gets older.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// How it was.
    pub report: Report,
}

/// What a site holds of itself and of those below, and what of it its parent was told.
#[derive(Clone, Debug)]
pub struct Ledger<K> {
    held: BTreeMap<K, Held<K>>,
    told: BTreeMap<K, Told>,
}

/// One report.
#[derive(Clone, Debug)]
pub struct Held<K> {
    /// What it says.
    pub report: Report,
    /// When it was made, by this site's clock; rather too early than too late.
    pub made: Moment,
    /// Which child told it; none if it is this site's own.
    by: Option<K>,
    silent: bool,
}

impl<K> Held<K> {
    fn age_ms(&self, now: Moment) -> u64 {
        now.ms().saturating_sub(self.made.ms())
    }

    fn is_silent(&self, now: Moment) -> bool {
        self.silent || self.age_ms(now) > REPORT_SILENT_MS
    }

    fn as_told(&self, now: Moment) -> Told {
        Told {
            report: self.report.clone(),
            silent: self.is_silent(now),
            made_ms: self.made.ms(),
            at_ms: now.ms(),
        }
    }
}

#[derive(Clone, Debug)]
struct Told {
    report: Report,
    silent: bool,
    made_ms: u64,
    at_ms: u64,
}

impl Told {
    /// Whether it is time to tell of the site again.
    fn is_due<K>(&self, now: Moment, held: &Held<K>) -> bool {
        let silent = held.is_silent(now);
        self.silent != silent
            || now.ms() >= self.at_ms + REPORT_AGAIN_MS
            || (!silent && held.report.is_news_to(&self.report))
    }
}

impl<K: Key> Default for Ledger<K> {
    fn default() -> Ledger<K> {
        Ledger {
            held: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }
}

impl<K: Key> Ledger<K> {
    /// Every report.
    pub fn held(&self) -> impl Iterator<Item = (&K, &Held<K>)> {
        self.held.iter()
    }

    /// How this site is now.
    pub fn put(&mut self, now: Moment, here: K, report: Report) {
        let held = Held {
            report: report.bounded(),
            made: now,
            by: None,
            silent: false,
        };
        self.held.insert(here, held);
    }

    /// Takes what a child tells. Only what lies `below` it is taken, and no more than there is room for.
    pub fn take(&mut self, now: Moment, from: &K, reports: Reports<K>, below: impl Fn(&K) -> bool) {
        let made = |age_ms: u64| Moment(now.0.saturating_sub(age_ms.saturating_mul(1000)));
        let mut named = BTreeSet::new();
        for item in reports.items.into_iter().take(REPORTS_MAX) {
            let room = self.held.len() < REPORTS_MAX || self.held.contains_key(&item.site);
            if !below(&item.site) || !room {
                continue;
            }
            named.insert(item.site.clone());
            let held = Held {
                report: item.report.bounded(),
                made: made(item.age_ms),
                by: Some(from.clone()),
                silent: item.silent,
            };
            self.held.insert(item.site, held);
        }
        for (site, held) in &mut self.held {
            if held.by.as_ref() == Some(from) && !held.silent && !named.contains(site) {
                held.made = held.made.max(made(reports.oldest_ms));
            }
        }
    }

    /// What the parent is to be told now: of what is due, as much as fits, the longest untold first.
    pub fn tell(&mut self, now: Moment) -> Reports<K> {
        let mut reports = Reports {
            oldest_ms: 0,
            items: Vec::new(),
        };
        let mut due = Vec::new();
        for (site, held) in &self.held {
            let silent = held.is_silent(now);
            match self.told.get(site) {
                Some(told) if !told.is_due(now, held) => {
                    let age_ms = if silent { 0 } else { held.age_ms(now) };
                    reports.oldest_ms = reports.oldest_ms.max(age_ms);
                }
                told => due.push((told.map(|told| told.at_ms), site.clone())),
            }
        }
        due.sort_unstable();
        let mut room = REPORTS_BYTES_MAX;
        for (_, site) in due {
            let held = &self.held[&site];
            let bytes = site.wire_bytes() + held.report.wire_bytes();
            if bytes > room {
                room = 0;
                if let Some(told) = self.told.get(&site).filter(|told| !told.silent) {
                    // What the parent has of it is as old as it is, until it is named.
                    let age_ms = now.ms().saturating_sub(told.made_ms);
                    reports.oldest_ms = reports.oldest_ms.max(age_ms);
                }
                continue;
            }
            room -= bytes;
            reports.items.push(ReportItem {
                site: site.clone(),
                age_ms: held.age_ms(now),
                silent: held.is_silent(now),
                report: held.report.clone(),
            });
            self.told.insert(site, held.as_told(now));
        }
        reports
    }

    /// Forgets the sites that are not below any more.
    pub fn keep(&mut self, below: impl Fn(&K) -> bool) {
        self.held.retain(|site, _| below(site));
        self.told.retain(|site, _| below(site));
    }

    /// The parent may not know any more what it was told: it hears everything again.
    pub fn forget_told(&mut self) {
        self.told.clear();
    }
}

#[cfg(test)]
mod tests {
    use cheops_model::SiteName;

    use super::*;

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    fn report(memory_percent: u32) -> Report {
        Report {
            memory_percent,
            ..Report::default()
        }
    }

    fn seconds(s: u64) -> Moment {
        Moment::from_ms(s * 1000)
    }

    fn age_ms(ledger: &Ledger<SiteName>, of: &str, now: Moment) -> u64 {
        let (_, held) = ledger.held().find(|(name, _)| **name == site(of)).unwrap();
        now.ms() - held.made.ms()
    }

    #[test]
    fn only_what_changed_is_told_and_nothing_looks_younger_than_it_is() {
        let (mut leaf, mut middle, mut top) =
            (Ledger::default(), Ledger::default(), Ledger::default());
        let mut bytes_of_items = Vec::new();
        for s in 0..12 {
            let now = seconds(s * 5);
            leaf.put(now, site("leaf"), report(40 + u32::from(s == 6) * 10));
            middle.take(now, &site("leaf"), leaf.tell(now), |_| true);
            let told = middle.tell(now);
            bytes_of_items.push(told.items.len());
            top.take(now, &site("middle"), told, |_| true);
            assert_eq!(age_ms(&top, "leaf", now), 0, "after {s}");
        }
        assert_eq!(bytes_of_items, [1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]);
        // The leaf falls silent: the top is told once, and counts by itself.
        let mut named = 0;
        for s in 12..24 {
            let now = seconds(s * 5);
            let told = middle.tell(now);
            named += told.items.len();
            top.take(now, &site("middle"), told, |_| true);
            assert!(age_ms(&top, "leaf", now) >= (s - 11) * 5000, "after {s}");
        }
        assert!(named <= 2, "{named}");
    }

    #[test]
    fn a_message_is_bounded_and_what_did_not_fit_follows_and_does_not_look_young() {
        let (mut hub, mut top) = (Ledger::default(), Ledger::default());
        let sites: Vec<_> = (0..2700).map(|n| site(&format!("site{n}"))).collect();
        let mut rounds = Vec::new();
        for round in 0..6 {
            let now = seconds(round * 5);
            for site in &sites {
                hub.put(now, site.clone(), report(40 + 10 * u32::from(round >= 3)));
            }
            let told = hub.tell(now);
            let bytes = serde_json::to_vec(&told).unwrap().len();
            assert!(bytes < REPORTS_BYTES_MAX + 100, "{bytes}");
            rounds.push(told.items.len());
            top.take(now, &site("hub"), told, |_| true);
            let young = |(_, held): &(_, &Held<_>)| held.made == now;
            for (_, held) in top.held().filter(young) {
                assert_eq!(held.report.memory_percent, if round >= 3 { 50 } else { 40 });
            }
        }
        assert_eq!(top.held().count(), 2700);
        assert!(rounds[..3].iter().sum::<usize>() == 2700, "{rounds:?}");
        assert!(rounds[3..].iter().sum::<usize>() == 2700, "{rounds:?}");
        hub.keep(|name| *name == sites[0]);
        assert_eq!(hub.held().count(), 1);
    }

    #[test]
    fn what_is_not_below_is_not_taken() {
        let mut ledger = Ledger::default();
        let reports = Reports {
            oldest_ms: 0,
            items: vec![ReportItem {
                site: site("other"),
                age_ms: u64::MAX,
                silent: false,
                report: report(1),
            }],
        };
        ledger.take(seconds(9), &site("child"), reports.clone(), |_| false);
        assert_eq!(ledger.held().count(), 0);
        ledger.take(seconds(9), &site("child"), reports, |_| true);
        assert_eq!(
            age_ms(&ledger, "other", seconds(9)),
            9000,
            "an age has an end"
        );
    }

    #[test]
    fn noise_is_no_news() {
        let mut changed = report(40);
        assert!(!changed.is_news_to(&report(40)));
        changed.load_percent = 15;
        changed.requests_tenths = 12;
        assert!(!changed.is_news_to(&report(40)));
        changed.queued = 1;
        assert!(changed.is_news_to(&report(40)));
    }
}
