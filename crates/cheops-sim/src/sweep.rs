//! One seed, or many on all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cheops_core::eventual::Bug;

use crate::laws::{Evidence, LAWS};
use crate::world::{Counts, Happening, World};

/// How long a healed world may take to come to rest.
const HEAL_MS: u64 = 240_000;

/// A law that did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// In which world.
    pub seed: u64,
    /// Which.
    pub law: &'static str,
    /// How.
    pub what: String,
    /// What happened, if somebody listened.
    pub trace: Vec<String>,
}

/// What a sweep came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Worlds.
    pub worlds: u64,
    /// Added up.
    pub counts: Counts,
    /// In order of their seeds.
    pub failures: Vec<Failure>,
}

/// Runs one world.
pub fn run(seed: u64, bug: Option<Bug>, trace: bool) -> Result<Counts, Failure> {
    let ran = catch_unwind(AssertUnwindSafe(|| live(seed, bug, trace)));
    ran.unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().cloned();
        let what = what
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_default();
        Err(Failure {
            seed,
            law: "the core keeps its own promises",
            what,
            trace: Vec::new(),
        })
    })
}

fn live(seed: u64, bug: Option<Bug>, trace: bool) -> Result<Counts, Failure> {
    let mut world = World::new(seed, bug, trace);
    world.at(1_000, Happening::Client);
    world.at(1_500, Happening::Fault);
    world.at(6_000, Happening::Operator);
    let rough_ms = world.settings.rough_ms;
    world.run_until(rough_ms);
    world.heal();
    world.run_until(rough_ms + HEAL_MS / 4);
    for round in 1..=4 {
        world.operator_looks();
        world.run_until(rough_ms + HEAL_MS / 4 + round * HEAL_MS / 6);
    }
    let evidence = Evidence::gather(&world);
    for (law, check) in LAWS {
        world.counts.laws += 1;
        if let Err(what) = check(&world, &evidence) {
            return Err(Failure {
                seed,
                law,
                what,
                trace: world.trace.take().unwrap_or_default(),
            });
        }
    }
    Ok(world.counts)
}

/// Runs many worlds on all cores. Stops after `enough` failures.
pub fn sweep(seeds: std::ops::Range<u64>, bug: Option<Bug>, enough: usize) -> Summary {
    let (next, summary) = (AtomicU64::new(seeds.start), Mutex::new(Summary::default()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let ran = run(seed, bug, false);
                    let mut summary = summary
                        .lock()
                        .expect("no world panics with the summary in its hands");
                    summary.add(ran);
                    if summary.failures.len() >= enough {
                        break;
                    }
                }
            });
        }
    });
    let mut summary = summary.into_inner().expect("all threads have ended");
    summary.failures.sort_by_key(|failure| failure.seed);
    summary
}

impl Summary {
    fn add(&mut self, ran: Result<Counts, Failure>) {
        self.worlds += 1;
        match ran {
            Ok(counts) => self.counts.add(&counts),
            Err(failure) => self.failures.push(failure),
        }
    }
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.events += other.events;
        self.ms += other.ms;
        self.cuts += other.cuts;
        self.outages += other.outages;
        self.freezes += other.freezes;
        self.promotions += other.promotions;
        self.crashes += other.crashes;
        self.restores += other.restores;
        self.mishaps += other.mishaps;
        self.failures += other.failures;
        self.tries += other.tries;
        self.cancels += other.cancels;
        self.laws += other.laws;
    }
}
