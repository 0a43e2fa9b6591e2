//! A great many replicants that nothing is under way with: what they cost an agent.
//!
//! They are written beforehand, by the protocol and in the format of an agent: to make a million of them by requests would
//! take longer than anybody waits.

use std::time::Instant;

use anyhow::{Context, anyhow};
use cheops_control::client::Client;
use cheops_engine::identity::Identity;
use cheops_engine::replication::populate::{Population, look_up, populate};
use cheops_plot::Series;

use super::super::stage::{Setting, Stage};
use super::{draw, percentile_ms, process, short};
use crate::cli::bench::ReplicationArgs;
use crate::terminal;

/// The total is reached in so many parts, each measured.
const PARTS: usize = 4;

/// Reads of single resources.
const READS: usize = 500;

pub(super) async fn run(args: &ReplicationArgs) -> anyhow::Result<()> {
    let mut stage = Stage::set(Setting {
        sites: 2,
        round_trips_ms: &[],
        verbose: args.verbose,
    })
    .await?;
    let identity = Identity::load(&stage.identity(0)).context("who this site is")?;
    let head = [
        "replicants",
        "memory MiB",
        "bytes each",
        "start s",
        "disk MiB",
        "lookup ns",
        "ordinary id ns",
        "/v1 read p50 ms",
        "made/s",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    let empty_mib = process::memory_mib(&stage.sites[0])?;
    let (mut memory, mut starts) = (vec![(0.0, empty_mib)], Vec::new());
    let mut names = Vec::new();
    for part in 1..=PARTS {
        let total = args.replicants * part / PARTS;
        stage.stop(0).await?;
        let mut wanted = Population {
            here: stage.sites[0].name.clone(),
            other: stage.sites[1].name.clone(),
            secret: identity.secret().clone(),
            service: "image".to_owned(),
            count: total - names.len(),
        };
        let (began, count, data) = (Instant::now(), wanted.count, stage.data(0));
        let made = tokio::task::spawn_blocking(move || (populate(&data, &wanted), wanted));
        let made_here;
        (made_here, wanted) = made.await?;
        names.extend(made_here.map_err(|why| anyhow!(why))?);
        let per_second = count as f64 / began.elapsed().as_secs_f64();
        let start = stage.start(0).await?;
        let memory_mib = process::memory_mib(&stage.sites[0])?;
        let reads_us = read(&stage, &names).await?;
        wanted.count = total;
        let lookups = tokio::task::spawn_blocking(move || look_up(&wanted)).await?;
        let grown = (memory_mib - empty_mib) * f64::from(1 << 20);
        rows.push([
            total.to_string(),
            short(memory_mib),
            short(grown / total as f64),
            short(start.as_secs_f64()),
            short(process::disk_mib(&stage.data(0))),
            lookups.hit.as_nanos().to_string(),
            lookups.miss.as_nanos().to_string(),
            short(percentile_ms(&reads_us, 0.5)),
            short(per_second),
        ]);
        memory.push((total as f64, memory_mib));
        starts.push((total as f64, start.as_secs_f64()));
        terminal::print(&terminal::columns(&rows));
    }
    stage.strike().await;
    let line = |name: &str, points| Series {
        name: name.to_owned(),
        points,
    };
    let title = "Memory of an agent by replicants at rest";
    let lines = [line("resident", memory)];
    draw(
        args,
        "bench-shelf-memory",
        title,
        "replicants",
        "MiB",
        &lines,
    )?;
    let title = "Start of an agent by replicants at rest";
    let lines = [line("until ready", starts)];
    draw(args, "bench-shelf-start", title, "replicants", "s", &lines)
}

/// Single resources by the id that clients see, in microseconds each.
async fn read(stage: &Stage, names: &[String]) -> anyhow::Result<Vec<u64>> {
    let client = Client::new(&stage.sites[0].admin.to_string());
    let mut took_us = Vec::new();
    for number in 0..READS {
        let name = &names[number * 7_919 % names.len()];
        let began = Instant::now();
        let (status, _) = client.get(&format!("/v1/resources/{name}")).await?;
        anyhow::ensure!(status == 200, "{name} is answered {status}");
        took_us.push(began.elapsed().as_micros() as u64);
    }
    Ok(took_us)
}
