//! `cheops-sim`: runs worlds. `--seed N` replays one and tells what happened; `--seeds A..B` runs many;
//! `--bugs` looks how soon each known bug is found.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::time::Instant;

use cheops_sim::{Bug, Failure, Summary, run, sweep};

const USAGE: &str = "cheops-sim --seed N [--bug NAME] | --seeds A..B [--bug NAME] | --bugs [SEEDS]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.first() != Some(&"--seed") {
        std::panic::set_hook(Box::new(|_| ()));
    }
    match words.as_slice() {
        ["--seed", seed, rest @ ..] => match (seed.parse(), bug(rest)) {
            (Ok(seed), Ok(bug)) => replay(seed, bug),
            _ => usage(),
        },
        ["--seeds", range, rest @ ..] => match (parse_range(range), bug(rest)) {
            (Some(range), Ok(bug)) => many(range, bug),
            _ => usage(),
        },
        ["--bugs"] => bugs(3_000),
        ["--bugs", seeds] => seeds.parse().map_or_else(|_| usage(), bugs),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn bug(words: &[&str]) -> Result<Option<Bug>, ()> {
    match words {
        [] => Ok(None),
        ["--bug", name] => Bug::ALL
            .iter()
            .find(|bug| format!("{bug:?}") == *name)
            .map(|bug| Some(*bug))
            .ok_or(()),
        _ => Err(()),
    }
}

fn parse_range(text: &str) -> Option<std::ops::Range<u64>> {
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

fn replay(seed: u64, bug: Option<Bug>) -> ExitCode {
    match run(seed, bug, true) {
        Ok(counts) => {
            println!("seed {seed}: every law holds. {counts:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            failure.trace.iter().for_each(|line| println!("{line}"));
            tell(&failure, bug);
            ExitCode::FAILURE
        }
    }
}

fn tell(failure: &Failure, bug: Option<Bug>) {
    println!(
        "seed {}: broken: {}\n    {}",
        failure.seed, failure.law, failure.what
    );
    let bug = bug.map_or(String::new(), |bug| format!(" --bug {bug:?}"));
    println!(
        "    replay: cargo run --profile sim -p cheops-sim -- --seed {}{bug}",
        failure.seed
    );
}

fn many(range: std::ops::Range<u64>, bug: Option<Bug>) -> ExitCode {
    let started = Instant::now();
    let summary: Summary = sweep(range, bug, 20);
    let seconds = started.elapsed().as_secs_f64();
    let counts = summary.counts;
    println!(
        "{} worlds in {seconds:.1} s ({:.0} per second), {} h simulated, {} events, {} requests, {} given up",
        summary.worlds,
        summary.worlds as f64 / seconds,
        counts.ms / 3_600_000,
        counts.events,
        counts.tries,
        counts.cancels
    );
    println!(
        "faults: {} crashes, {} freezes, {} disks put back, {} networks cut, {} outages of services, {} promotions, {} messages lost, repeated or cut off, {} failed calls; {} laws checked",
        counts.crashes,
        counts.freezes,
        counts.restores,
        counts.cuts,
        counts.outages,
        counts.promotions,
        counts.mishaps,
        counts.failures,
        counts.laws
    );
    summary
        .failures
        .iter()
        .for_each(|failure| tell(failure, bug));
    if summary.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn bugs(seeds: u64) -> ExitCode {
    println!("| bug | law that finds it | mean seeds to find |\n| --- | --- | --- |");
    let mut all = true;
    for bug in Bug::ALL {
        let summary = sweep(0..seeds, Some(*bug), 10);
        let found = summary.failures.len() as f64;
        all &= found > 0.0;
        let mut laws: Vec<&str> = summary.failures.iter().map(|failure| failure.law).collect();
        laws.sort();
        laws.dedup();
        let mean = if found > 0.0 {
            format!("{:.0}", summary.worlds as f64 / found)
        } else {
            "not found".into()
        };
        println!("| {bug:?} | {} | {mean} |", laws.join("; "));
    }
    if all {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
