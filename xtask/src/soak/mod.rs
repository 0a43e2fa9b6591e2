//! `cargo xtask soak`: half an hour of mixed traffic while files are reloaded, an agent is drained
//! and links are cut every few seconds.
//!
//! Three sites. Every answer is one of three: right, explained by a fault that was under way, or an
//! error of ours. Memory and descriptors of the two agents that stay are watched all along.

mod clients;
mod faults;
mod plot;
pub(crate) mod service;
mod stage;
mod stalls;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;

use crate::bench::process;
use clients::{Client, Tally};
use faults::Faults;
use plot::Sample;
use stage::Stage;
use stalls::Stalls;

#[derive(Args)]
pub(crate) struct SoakArgs {
    /// How long
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Requests per second, of all clients together
    #[arg(long, default_value_t = 300)]
    rate: u32,
    /// The agent's program; built with `cargo build --profile dist`
    #[arg(long, default_value = "target/dist/cheops")]
    agent: PathBuf,
    /// Where the picture of memory and descriptors goes
    #[arg(long, default_value = "docs/book/src/soak.svg")]
    plot: PathBuf,
}

/// Clients, each with one connection that it keeps.
const CLIENTS: u64 = 12;

/// How often memory and descriptors are looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &SoakArgs) -> anyhow::Result<()> {
    let stage = Arc::new(Stage::start(&args.agent)?);
    let time = Duration::from_secs(args.minutes * 60);
    let stop = Arc::new(AtomicBool::new(false));
    let pause = Duration::from_secs(1) * u32::try_from(CLIENTS)? / args.rate.max(1);
    let stalls = Arc::new(Stalls::default());
    let (watching, until) = (stalls.clone(), stop.clone());
    std::thread::spawn(move || watching.watch(&until));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = Client::new(number, stage.clone(), stalls.clone(), pause);
            let stop = stop.clone();
            std::thread::spawn(move || client.run(&stop))
        })
        .collect();
    let faults = Faults::new(stage.clone());
    let until = stop.clone();
    let faults = std::thread::spawn(move || faults.run(&until));

    let samples = watch(&stage, time);
    stop.store(true, Ordering::SeqCst);
    let mut total = Tally::default();
    for client in clients {
        total.add(
            client
                .join()
                .map_err(|_| anyhow::anyhow!("a client panicked"))?,
        );
    }
    let made = faults
        .join()
        .map_err(|_| anyhow::anyhow!("the faults panicked"))??;
    std::fs::write(&args.plot, plot::draw(&samples))?;
    crate::bench::say(&format!(
        "\n{} reloads, {} cuts, {} drains in {} minutes; picture: {}\n{}",
        made.reloads,
        made.cuts,
        made.drains,
        args.minutes,
        args.plot.display(),
        total.table(),
    ));
    crate::bench::say(&stalls.summary());
    if total.unexplained() > 0 {
        crate::bench::say(&stage.what_links_said());
    }
    let growth = plot::growth(&samples);
    crate::bench::say(&growth.text);
    if total.unexplained() > 0 || growth.grows {
        bail!("the soak is not clean");
    }
    Ok(())
}

/// Looks at the agents that stay, until the time is over.
fn watch(stage: &Stage, time: Duration) -> Vec<Sample> {
    let started = Instant::now();
    let mut samples = Vec::new();
    while started.elapsed() < time {
        std::thread::sleep(SAMPLE_INTERVAL.min(time.saturating_sub(started.elapsed())));
        for site in [1, 2] {
            let pid = stage.pid(site);
            samples.push(Sample {
                seconds: started.elapsed().as_secs_f64(),
                site,
                memory_mb: process::memory_mb(pid).unwrap_or_default(),
                descriptors: process::descriptors(pid),
            });
        }
    }
    samples
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
