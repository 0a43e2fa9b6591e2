//! Replication in numbers, as Prometheus text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use cheops_core::operation::Form;
use cheops_core::{Answer, Site};

use super::super::Replication;
use super::super::shard::NotTaken;

/// What clients were told, in the order of [`ANSWERS`].
#[derive(Default)]
pub(in super::super) struct Counters([AtomicU64; ANSWERS.len()]);

const ANSWERS: [&str; 6] = [
    "answered",
    "accepted",
    "unavailable",
    "unknown",
    "refused",
    "not-taken",
];

impl Counters {
    pub(in super::super) fn count(&self, answer: &Result<Answer, NotTaken>) {
        let place = match answer {
            Ok(Answer::Service { .. }) => 0,
            Ok(Answer::Accepted) => 1,
            Ok(Answer::Unavailable(_)) => 2,
            Ok(Answer::OutcomeUnknown) => 3,
            Ok(
                Answer::Gone
                | Answer::UnknownReplicant
                | Answer::Conflict
                | Answer::PreconditionFailed
                | Answer::KeyReused
                | Answer::Cancelled
                | Answer::IdTaken,
            ) => 4,
            Err(NotTaken::Busy | NotTaken::NoRoom | NotTaken::Stopped) => 5,
        };
        self.0[place].fetch_add(1, Ordering::Relaxed);
    }
}

/// What one shard holds.
#[derive(Default)]
struct Sums {
    replicants: BTreeMap<(String, &'static str), u64>,
    at_gates: u64,
    outbox: u64,
    conflicts: u64,
}

impl Replication {
    /// Counters, and sums over everything as it is now.
    pub async fn metrics(&self) -> String {
        let mut all = Sums::default();
        for part in self.look_everywhere(sums).await {
            for (key, count) in part.replicants {
                *all.replicants.entry(key).or_default() += count;
            }
            all.at_gates += part.at_gates;
            all.outbox += part.outbox;
            all.conflicts += part.conflicts;
        }
        let mut text = String::new();
        head(
            &mut text,
            "operations_total",
            "counter",
            "Operations, by what their clients were told.",
        );
        for (answer, count) in ANSWERS.iter().zip(&self.0.counters.0) {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(
                text,
                "cheops_operations_total{{answer=\"{answer}\"}} {count}"
            );
        }
        head(
            &mut text,
            "replicants",
            "gauge",
            "Resources with a replica here, by its state.",
        );
        for ((service, state), count) in &all.replicants {
            let _ = writeln!(
                text,
                "cheops_replicants{{service=\"{service}\",state=\"{state}\"}} {count}"
            );
        }
        for (name, help, value) in [
            (
                "gate_waiting",
                "Operations that wait for a service of this site to decide.",
                all.at_gates,
            ),
            (
                "outbox",
                "Operations taken here that nobody has ordered yet.",
                all.outbox,
            ),
            (
                "conflicts",
                "Operations that somebody has to decide about.",
                all.conflicts,
            ),
        ] {
            head(&mut text, name, "gauge", help);
            let _ = writeln!(text, "cheops_{name} {value}");
        }
        let backlogs = self.backlogs().await;
        head(
            &mut text,
            "behind",
            "gauge",
            "Operations that a site has not applied, as known here.",
        );
        for (site, backlog) in &backlogs {
            let _ = writeln!(text, "cheops_behind{{site=\"{site}\"}} {}", backlog.behind);
        }
        head(
            &mut text,
            "queued",
            "gauge",
            "Operations waiting here to be brought to a site.",
        );
        for (site, backlog) in &backlogs {
            let _ = writeln!(text, "cheops_queued{{site=\"{site}\"}} {}", backlog.queued);
        }
        self.0.blobs.metrics(&mut text);
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(
        text,
        "# HELP cheops_{name} {help}\n# TYPE cheops_{name} {kind}"
    );
}

fn sums(site: &Site) -> Sums {
    let mut sums = Sums::default();
    for glance in site.awake().filter(|glance| glance.form() == Form::Replica) {
        let state = glance
            .rows()
            .get(site.name())
            .map(super::resources::state_word);
        if let Some(state) = state {
            let key = (glance.service().to_owned(), state);
            *sums.replicants.entry(key).or_default() += 1;
        }
        sums.at_gates += glance.at_gate() as u64;
        sums.conflicts += glance.parked().count() as u64;
    }
    for (_, kin) in site.resting() {
        let key = (kin.service.clone(), super::resources::LIVE);
        *sums.replicants.entry(key).or_default() += 1;
    }
    sums.outbox = site.outbox().count() as u64;
    sums
}
