//! One replicant that is updated for ever: its log and the agent's memory stay within bounds.

use std::time::Duration;

use anyhow::Context;
use cheops_plot::Series;

use super::super::stage::{Setting, Stage};
use super::load;
use super::{draw, process, settled, short};
use crate::cli::bench::ReplicationArgs;
use crate::terminal;

const BOTH: &str = "image: site1 & site2";
const PATIENCE: Duration = Duration::from_secs(60);
const PARTS: usize = 10;

pub(super) async fn run(args: &ReplicationArgs) -> anyhow::Result<()> {
    let stage = Stage::set(Setting {
        sites: 2,
        round_trips_ms: &[],
        verbose: args.verbose,
    })
    .await?;
    let door = stage.sites[0].image;
    let made = load::closed(door, 1, 1, |number| load::create(BOTH, number)).await?;
    let id = made.resources.first().context("no id")?.clone();
    let mut rows = vec![["updates", "per second", "memory MiB", "disk MiB"].map(str::to_owned)];
    let mut lines = ["memory", "disk"].map(|name| Series {
        name: name.to_owned(),
        points: Vec::new(),
    });
    let count = (args.operations / PARTS).max(1);
    for part in 1..=PARTS {
        let id = id.clone();
        let done = load::closed(door, args.connections.min(32), count, move |number| {
            load::update(&id, part * count + number)
        })
        .await?;
        settled::wait(&stage, PATIENCE).await?;
        let (total, memory_mib) = (part * count, process::memory_mib(&stage.sites[0])?);
        let disk_mib = process::disk_mib(&stage.data(0));
        rows.push([
            total.to_string(),
            short(done.per_second()),
            short(memory_mib),
            short(disk_mib),
        ]);
        lines[0].points.push((total as f64, memory_mib));
        lines[1].points.push((total as f64, disk_mib));
    }
    stage.strike().await;
    terminal::print(&terminal::columns(&rows));
    let title = "One replicant, updated again and again";
    draw(args, "bench-one", title, "updates", "MiB", &lines)
}
