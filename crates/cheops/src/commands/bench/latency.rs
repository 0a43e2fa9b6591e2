//! How long a create takes to be answered, and until it can be read at the other site, by round trip.

use std::time::Duration;

use anyhow::bail;
use cheops_plot::Series;
use tokio::time::{Instant, sleep};

use super::super::stage::{Setting, Stage};
use super::load::{self, Ask, Client};
use super::{draw, percentile_ms, short};
use crate::cli::bench::ReplicationArgs;
use crate::terminal;

const BOTH: &str = "image: site1 & site2";

/// A little apart, so that none waits for another.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(args: &ReplicationArgs) -> anyhow::Result<()> {
    let head = ["round trip", "what", "p50 ms", "p90 ms", "p99 ms"];
    let mut rows = vec![head.map(str::to_owned)];
    let names = ["local create", "answer of a & b", "readable at b"];
    let mut lines = names.map(|name| Series {
        name: name.to_owned(),
        points: Vec::new(),
    });
    for rtt_ms in &args.rtt {
        let seen = at(args, *rtt_ms).await?;
        for (place, (name, latencies_us)) in names.iter().zip(&seen).enumerate() {
            let at = |share| short(percentile_ms(latencies_us, share));
            rows.push([
                format!("{rtt_ms} ms"),
                (*name).to_owned(),
                at(0.5),
                at(0.9),
                at(0.99),
            ]);
            let p50 = percentile_ms(latencies_us, 0.5);
            lines[place].points.push((*rtt_ms as f64, p50));
        }
    }
    terminal::print(&terminal::columns(&rows));
    let title = "A create on two sites, p50";
    draw(args, "bench-latency", title, "round trip, ms", "ms", &lines)
}

/// Of local creates, of answers, and until it is readable at the other site.
async fn at(args: &ReplicationArgs, rtt_ms: u64) -> anyhow::Result<[Vec<u64>; 3]> {
    let stage = Stage::set(Setting {
        sites: 2,
        round_trips_ms: &[rtt_ms],
        verbose: args.verbose,
    })
    .await?;
    let mut here = Client::connect(stage.sites[0].image).await?;
    let mut there = Client::connect(stage.sites[1].image).await?;
    let mut seen: [Vec<u64>; 3] = Default::default();
    for number in 0..args.samples {
        let local = Ask {
            scope: None,
            ..load::create(BOTH, number)
        };
        seen[0].push(here.ask(&local).await?.took.as_micros() as u64);
        let started = Instant::now();
        let answer = here.ask(&load::create(BOTH, number)).await?;
        let Some(id) = answer.resource.filter(|_| answer.status == 201) else {
            bail!("a create was answered {}", answer.status);
        };
        seen[1].push(answer.took.as_micros() as u64);
        until_readable(&mut there, &id).await?;
        seen[2].push(started.elapsed().as_micros() as u64);
        sleep(PAUSE).await;
    }
    // What came first made connections.
    let warm = (args.samples / 10).max(1);
    for latencies_us in &mut seen {
        latencies_us.drain(..warm.min(latencies_us.len() / 2));
    }
    stage.strike().await;
    Ok(seen)
}

async fn until_readable(client: &mut Client, id: &str) -> anyhow::Result<()> {
    let read = Ask {
        method: "GET",
        path: format!("/images/{id}"),
        scope: None,
        body: String::new(),
    };
    let until = Instant::now() + Duration::from_secs(20);
    while client.ask(&read).await?.status != 200 {
        if Instant::now() > until {
            bail!("never readable at the other site");
        }
        sleep(Duration::from_micros(500)).await;
    }
    Ok(())
}
