//! A site that was away for longer than its queue is kept: it is settled, and nothing is lost or destroyed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cheops_control::client::Client;
use cheops_plot::Series;
use serde_json::Value;
use tokio::time::{Instant, interval};

use super::super::demo::http;
use super::super::stage::{Setting, Stage};
use super::{draw, load, settled};
use crate::cli::bench::ReplicationArgs;
use crate::terminal;

const BOTH: &str = "image: site1 & site2";
const PATIENCE: Duration = Duration::from_secs(120);
const REPLICANTS: usize = 20;

/// How often it is looked how far the site is behind.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// More than is kept for a site that is away.
const UPDATES_EACH: usize = 400;

pub(super) async fn run(args: &ReplicationArgs) -> anyhow::Result<()> {
    let stage = Stage::set(Setting {
        sites: 2,
        round_trips_ms: &[2],
        verbose: args.verbose,
    })
    .await?;
    let door = stage.sites[0].image;
    let made = load::closed(door, 4, REPLICANTS, |number| load::create(BOTH, number)).await?;
    let ids: Arc<[String]> = made.resources.into();
    let own = http::ask(
        "POST",
        stage.sites[1].image,
        "/images",
        None,
        "{\"name\":\"own\"}",
    )
    .await?;
    settled::wait(&stage, PATIENCE).await?;
    stage.cut(1);
    stage.wait_mark(0, 1, "autonomous").await?;
    let total = REPLICANTS * UPDATES_EACH;
    let written = ids.clone();
    let mut behind = Behind::default();
    let load = load::closed(door, args.connections, total, move |number| {
        load::update(&written[number % REPLICANTS], number)
    });
    let changed = behind.watch(&stage, load).await?;
    stage.heal(1)?;
    let healed = Instant::now();
    behind
        .watch(&stage, settled::wait(&stage, PATIENCE))
        .await?;
    let took = healed.elapsed();

    let (mut same, mut newest) = (0, 0);
    let admin = Client::new(&stage.sites[0].admin.to_string());
    for id in ids.iter() {
        let (_, body) = admin.get(&format!("/v1/resources/{id}/diff")).await?;
        let diff: Value = serde_json::from_slice(&body)?;
        same += usize::from(diff["same"] == true);
        let path = format!("/images/{id}");
        let one = http::ask("GET", door, &path, None, "").await?;
        let two = http::ask("GET", stage.sites[1].image, &path, None, "").await?;
        newest += usize::from(one.body["description"] == two.body["description"]);
    }
    let path = format!("/images/{}", own.body["id"].as_str().context("no id")?);
    let kept = http::ask("GET", stage.sites[1].image, &path, None, "").await?;
    terminal::print(&terminal::columns(&[
        [
            "updates while away",
            "refused",
            "settled in ms",
            "same by diff",
            "newest at both",
            "its own is kept",
        ]
        .map(str::to_owned),
        [
            total.to_string(),
            changed.failed.to_string(),
            took.as_millis().to_string(),
            format!("{same} of {REPLICANTS}"),
            format!("{newest} of {REPLICANTS}"),
            if kept.status == 200 { "yes" } else { "no" }.to_owned(),
        ],
    ]));
    stage.strike().await;
    if same < REPLICANTS || newest < REPLICANTS || kept.status != 200 {
        bail!("the site that was away is not as it should be");
    }
    let lines = [Series {
        name: "not applied there".to_owned(),
        points: behind.seen,
    }];
    let title = "A site away past what is kept for it, and back";
    draw(
        args,
        "bench-absence",
        title,
        "seconds",
        "operations",
        &lines,
    )
}

/// How far the site is behind, again and again.
struct Behind {
    since: Instant,
    seen: Vec<(f64, f64)>,
}

impl Default for Behind {
    fn default() -> Behind {
        Behind {
            since: Instant::now(),
            seen: Vec::new(),
        }
    }
}

impl Behind {
    /// Looks for as long as something is being done.
    async fn watch<T>(
        &mut self,
        stage: &Stage,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let mut work = std::pin::pin!(work);
        let mut beat = interval(LOOK_EVERY);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = beat.tick() => {
                    let left = settled::behind(stage).await?;
                    self.seen.push((self.since.elapsed().as_secs_f64(), left as f64));
                }
            }
        }
    }
}
