//! A site comes back to a long queue: how fast it catches up, and what its own clients feel of that.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cheops_plot::Series;
use tokio::time::{Instant, sleep};

use super::super::stage::{Setting, Stage};
use super::load::{self, Ask, Steady};
use super::{draw, median, percentile_ms, settled, short};
use crate::cli::bench::ReplicationArgs;
use crate::terminal;

const BOTH: &str = "image: site1 & site2";
const PATIENCE: Duration = Duration::from_secs(600);
const LOCAL_PER_SECOND: u32 = 500;
const CALM: Duration = Duration::from_secs(5);

struct Seen {
    per_second: f64,
    calm_p99_ms: f64,
    busy_p99_ms: f64,
    left: Vec<(f64, f64)>,
}

pub(super) async fn run(args: &ReplicationArgs) -> anyhow::Result<()> {
    let stage = Stage::set(Setting {
        sites: 2,
        round_trips_ms: &[2],
        verbose: args.verbose,
    })
    .await?;
    let door = stage.sites[0].image;
    let made = load::closed(door, args.connections, args.replicants, |number| {
        load::create(BOTH, number)
    })
    .await?;
    settled::wait(&stage, PATIENCE).await?;
    let ids: Arc<[String]> = made.resources.into();
    let ordinary = ordinary(&stage).await?;
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        let seen = drained(args, &stage, &ids, &ordinary).await?;
        terminal::print(&format!(
            "round {round} of {}: {} drained/s, local p99 {} ms calm, {} ms meanwhile",
            args.rounds,
            short(seen.per_second),
            short(seen.calm_p99_ms),
            short(seen.busy_p99_ms),
        ));
        rounds.push(seen);
    }
    stage.strike().await;
    let of = |value: fn(&Seen) -> f64| median(rounds.iter().map(value).collect());
    let ratio = median(
        rounds
            .iter()
            .map(|seen| seen.busy_p99_ms / seen.calm_p99_ms)
            .collect(),
    );
    terminal::print(&terminal::columns(&[
        [
            "queued operations",
            "replicants",
            "drained/s",
            "local p99 ms, calm",
            "meanwhile",
            "ratio",
        ]
        .map(str::to_owned),
        [
            args.operations.to_string(),
            args.replicants.to_string(),
            short(of(|seen| seen.per_second)),
            short(of(|seen| seen.calm_p99_ms)),
            short(of(|seen| seen.busy_p99_ms)),
            short(ratio),
        ],
    ]));
    let lines: Vec<Series> = rounds
        .into_iter()
        .enumerate()
        .map(|(round, seen)| Series {
            name: format!("round {}", round + 1),
            points: seen.left,
        })
        .collect();
    let title = "A site comes back: operations it has not applied";
    draw(
        args,
        "bench-drain",
        title,
        "seconds after the heal",
        "operations",
        &lines,
    )
}

/// Reading a resource of the second site's own.
async fn ordinary(stage: &Stage) -> anyhow::Result<Ask> {
    let address = stage.sites[1].image;
    let body = "{\"name\":\"own\"}";
    let made = super::super::demo::http::ask("POST", address, "/images", None, body).await?;
    let id = made.body["id"].as_str().context("no id")?;
    Ok(Ask {
        method: "GET",
        path: format!("/images/{id}"),
        scope: None,
        body: String::new(),
    })
}

async fn drained(
    args: &ReplicationArgs,
    stage: &Stage,
    ids: &Arc<[String]>,
    ordinary: &Ask,
) -> anyhow::Result<Seen> {
    let there = stage.sites[1].image;
    stage.cut(1);
    stage.wait_mark(0, 1, "autonomous").await?;
    let (ids, first) = (ids.clone(), stage.sites[0].image);
    load::closed(first, args.connections, args.operations, move |number| {
        load::update(&ids[number % ids.len()], number)
    })
    .await?;

    let steady = Steady::start(there, LOCAL_PER_SECOND, ordinary.clone())?;
    sleep(CALM).await;
    let calm = steady.stop().await?;

    let queued = settled::behind(stage).await?;
    let steady = Steady::start(there, LOCAL_PER_SECOND, ordinary.clone())?;
    stage.heal(1)?;
    let healed = Instant::now();
    let mut left = Vec::new();
    let mut begun = None;
    loop {
        let now = settled::behind(stage).await?;
        left.push((healed.elapsed().as_secs_f64(), now as f64));
        if now < queued && begun.is_none() {
            begun = Some(Instant::now());
        }
        if now == 0 || healed.elapsed() > PATIENCE {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    let took = begun.unwrap_or(healed).elapsed();
    let busy = steady.stop().await?;
    Ok(Seen {
        per_second: args.operations as f64 / took.as_secs_f64().max(1e-3),
        calm_p99_ms: percentile_ms(&calm, 0.99),
        busy_p99_ms: percentile_ms(&busy, 0.99),
        left,
    })
}
