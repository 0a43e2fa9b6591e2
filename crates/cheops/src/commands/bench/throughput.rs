//! Creates and updates per second, over several numbers of sites, beside etcd in the same run.

use std::sync::Arc;
use std::time::Duration;

use super::super::stage::{Setting, Stage};
use super::etcd::{self, Etcd};
use super::load::{self, Outcome};
use super::{median, percentile_ms, settled, short};
use crate::cli::bench::ReplicationArgs;
use crate::terminal;

const PATIENCE: Duration = Duration::from_secs(300);

const SCOPES: [&str; 5] = [
    "image: site1",
    "image: site1 & site2",
    "image: site1 & site2 & site3",
    "image: site1 & site2 & site3 & site4",
    "image: site1 & site2 & site3 & site4 & site5",
];

/// Three kinds of work.
const WORK: [&str; 3] = ["creates", "updates, many", "updates, one"];

/// What was seen of one kind of work in one round.
struct Seen {
    answered: f64,
    settled: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// One row of each kind of work.
struct Subject {
    name: String,
    rounds: [Vec<Seen>; 3],
}

pub(super) async fn run(args: &ReplicationArgs) -> anyhow::Result<()> {
    let mut subjects: Vec<Subject> = args
        .sites
        .iter()
        .map(|sites| format!("cheops, {sites} sites"))
        .chain(["etcd, 3 members".to_owned()])
        .map(|name| Subject {
            name,
            rounds: Default::default(),
        })
        .collect();
    let program = etcd::program(args.etcd.as_deref())?;
    for round in 1..=args.rounds {
        for (place, sites) in args.sites.iter().enumerate() {
            let seen = replicated(args, *sites).await?;
            subjects[place].add(seen);
        }
        match Etcd::start(&program).await? {
            Some(etcd) => subjects[args.sites.len()].add(compared(args, &etcd).await?),
            None if round == 1 => {
                terminal::print("skipped: no etcd here (Debian: etcd-server); name it by --etcd")
            }
            None => (),
        }
        terminal::print(&format!("round {round} of {} done", args.rounds));
    }
    print(&subjects);
    Ok(())
}

impl Subject {
    fn add(&mut self, seen: [Seen; 3]) {
        for (rounds, seen) in self.rounds.iter_mut().zip(seen) {
            rounds.push(seen);
        }
    }

    fn median(&self, work: usize, value: impl Fn(&Seen) -> f64) -> f64 {
        median(self.rounds[work].iter().map(value).collect())
    }
}

async fn replicated(args: &ReplicationArgs, sites: u8) -> anyhow::Result<[Seen; 3]> {
    let stage = Stage::set(Setting {
        sites,
        round_trips_ms: &[],
        verbose: args.verbose,
    })
    .await?;
    let scope = SCOPES[usize::from(sites).clamp(1, SCOPES.len()) - 1];
    let (door, count, connections) = (stage.sites[0].image, args.operations, args.connections);
    // The first requests make connections, and pages of memory.
    load::closed(door, connections, connections, move |number| {
        load::create(scope, number)
    })
    .await?;
    settled::wait(&stage, PATIENCE).await?;

    let made = load::closed(door, connections, count, move |number| {
        load::create(scope, number)
    })
    .await?;
    let creates = seen(&stage, &made).await?;
    let ids: Arc<[String]> = made.resources.clone().into();
    let many = ids.clone();
    let changed = load::closed(door, connections, count, move |number| {
        load::update(&many[number % many.len()], number)
    })
    .await?;
    let many = seen(&stage, &changed).await?;
    // One replicant takes one operation at a time: as many as its gate lets wait.
    let changed = load::closed(door, connections.min(32), count / 4, move |number| {
        load::update(&ids[0], number)
    })
    .await?;
    let one = seen(&stage, &changed).await?;
    stage.strike().await;
    Ok([creates, many, one])
}

async fn seen(stage: &Stage, outcome: &Outcome) -> anyhow::Result<Seen> {
    let started = tokio::time::Instant::now();
    settled::wait(stage, PATIENCE).await?;
    let whole = outcome.took + started.elapsed();
    Ok(Seen {
        settled: outcome.latencies_us.len() as f64 / whole.as_secs_f64(),
        ..Seen::of(outcome)
    })
}

impl Seen {
    /// Where an answer says that a majority has it, there is nothing more to wait for.
    fn of(outcome: &Outcome) -> Seen {
        Seen {
            answered: outcome.per_second(),
            settled: outcome.per_second(),
            p50_ms: percentile_ms(&outcome.latencies_us, 0.5),
            p99_ms: percentile_ms(&outcome.latencies_us, 0.99),
        }
    }
}

async fn compared(args: &ReplicationArgs, etcd: &Etcd) -> anyhow::Result<[Seen; 3]> {
    let (door, count, connections) = (etcd.address, args.operations, args.connections);
    let value = |number: usize| load::create("", number).body;
    load::closed(door, connections, connections, move |number| {
        etcd::put(&format!("w{number}"), "x")
    })
    .await?;
    let creates = load::closed(door, connections, count, move |number| {
        etcd::put(&format!("image-{number}"), &value(number))
    })
    .await?;
    let many = load::closed(door, connections, count, move |number| {
        etcd::put(&format!("image-{number}"), &value(number + 1))
    })
    .await?;
    let one = load::closed(door, connections.min(32), count / 4, move |number| {
        etcd::put("image-0", &value(number))
    })
    .await?;
    Ok([Seen::of(&creates), Seen::of(&many), Seen::of(&one)])
}

fn print(subjects: &[Subject]) {
    let base = subjects.last().filter(|base| !base.rounds[0].is_empty());
    let head = [
        "",
        "work",
        "answered/s",
        "everywhere/s",
        "p50 ms",
        "p99 ms",
        "of etcd",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for (work, name) in WORK.iter().enumerate() {
        for subject in subjects.iter().filter(|it| !it.rounds[work].is_empty()) {
            let answered = subject.median(work, |seen| seen.answered);
            let ratio = base.map(|base| answered / base.median(work, |seen| seen.answered));
            rows.push([
                subject.name.clone(),
                (*name).to_owned(),
                short(answered),
                short(subject.median(work, |seen| seen.settled)),
                short(subject.median(work, |seen| seen.p50_ms)),
                short(subject.median(work, |seen| seen.p99_ms)),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            ]);
        }
    }
    terminal::print(&terminal::columns(&rows));
}
