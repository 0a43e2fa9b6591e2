//! Many replicants: what an agent weighs, how long it takes to start, how fast it answers.

use std::time::Duration;

use cheops_plot::Series;

use super::super::stage::{Setting, Stage};
use super::load::{self, Ask};
use super::{draw, percentile_ms, process, settled, short};
use crate::cli::bench::ReplicationArgs;
use crate::terminal;

const BOTH: &str = "image: site1 & site2";
const PATIENCE: Duration = Duration::from_secs(600);

/// The total is reached in so many parts, each measured.
const PARTS: usize = 4;

pub(super) async fn run(args: &ReplicationArgs) -> anyhow::Result<()> {
    let mut stage = Stage::set(Setting {
        sites: 2,
        round_trips_ms: &[],
        verbose: args.verbose,
    })
    .await?;
    let head = [
        "replicants",
        "memory MiB",
        "KiB each",
        "after a start",
        "start s",
        "disk MiB",
        "read p50 ms",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    let empty_mib = process::memory_mib(&stage.sites[0])?;
    let mut lines = ["running", "after a start"].map(|name| Series {
        name: name.to_owned(),
        points: vec![(0.0, empty_mib)],
    });
    let mut total = 0;
    for _ in 0..PARTS {
        let count = (args.replicants / PARTS).max(1);
        let made = load::closed(stage.sites[0].image, args.connections, count, |number| {
            load::create(BOTH, number)
        })
        .await?;
        settled::wait(&stage, PATIENCE).await?;
        total += count;
        let running_mib = process::memory_mib(&stage.sites[0])?;
        let start = stage.restart(0).await?;
        let started_mib = process::memory_mib(&stage.sites[0])?;
        let ids = made.resources;
        let reads = load::closed(stage.sites[0].image, 1, ids.len().min(500), move |number| {
            Ask {
                method: "GET",
                path: format!("/images/{}", ids[number]),
                scope: None,
                body: String::new(),
            }
        })
        .await?;
        settled::wait(&stage, PATIENCE).await?;
        rows.push([
            total.to_string(),
            short(running_mib),
            short((running_mib - empty_mib) * 1024.0 / total as f64),
            short(started_mib),
            short(start.as_secs_f64()),
            short(process::disk_mib(&stage.data(0))),
            short(percentile_ms(&reads.latencies_us, 0.5)),
        ]);
        lines[0].points.push((total as f64, running_mib));
        lines[1].points.push((total as f64, started_mib));
    }
    stage.strike().await;
    terminal::print(&terminal::columns(&rows));
    let title = "Memory of an agent by replicants";
    draw(args, "bench-many", title, "replicants", "MiB", &lines)
}
