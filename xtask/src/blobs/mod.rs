//! `cargo xtask blobs`: one long content to two sites over a link that is cut on the way.
//!
//! Two agents, a link with a delay and perhaps a bandwidth between them, services that hash and discard.
//! Told: whether it arrived whole, what went over the link, the most memory of each agent, and how
//! small requests over the same link fared meanwhile against an idle one.

mod client;
mod stage;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cheops_plot::{Across, Scale, Series, chart};
use clap::Args;

use crate::bench::{process, say};
use client::{Content, Latencies};
use stage::Stage;

#[derive(Args)]
pub(crate) struct BlobsArgs {
    /// How long the content is
    #[arg(long, default_value_t = 10 << 10)]
    mib: u64,
    /// How often the link is cut while it is on its way
    #[arg(long, default_value_t = 3)]
    cuts: u64,
    /// From one site to the other, one way
    #[arg(long, default_value_t = 10)]
    delay_ms: u64,
    /// The bandwidth of the link; without a bound if 0
    #[arg(long, default_value_t = 0)]
    link_mib_per_s: u64,
    /// `blobs.rate` of both agents; none if 0
    #[arg(long, default_value_t = 0)]
    rate_mib_per_s: u64,
    /// How long the idle link is looked at
    #[arg(long, default_value_t = 20)]
    idle_s: u64,
    /// The agent's program; built with `cargo build --profile dist`
    #[arg(long, default_value = "target/dist/cheops")]
    agent: PathBuf,
    /// Where to put a picture of how much had come when
    #[arg(long)]
    plot: Option<PathBuf>,
}

/// How long a cut lasts: longer than it takes both sides to notice it.
const CUT_TIME: Duration = Duration::from_secs(4);

/// What the contents of ten hours would take.
const PATIENCE: Duration = Duration::from_secs(36_000);

pub(crate) fn run(args: &BlobsArgs) -> anyhow::Result<()> {
    let stage = Arc::new(Stage::start(args)?);
    let image = stage.create("long")?;
    say(&format!(
        "{} MiB over a link of {} ms",
        args.mib, args.delay_ms
    ));
    std::thread::sleep(Duration::from_secs(2));
    let idle = measure(&stage, |_| {
        std::thread::sleep(Duration::from_secs(args.idle_s));
        Ok(())
    })?;
    let before = stage.carried();
    let started = Instant::now();
    let mut content = Content::new(args.mib << 20);
    let mut uploaded = Duration::ZERO;
    let mut came = Vec::new();
    let busy = measure(&stage, |stage| {
        let operation = stage.upload(&image, &mut content)?;
        uploaded = started.elapsed();
        let brought;
        (came, brought) = stage.watch(&operation, started, || {
            for number in 1..=args.cuts {
                // The last stretch is not cut: it would be waited for.
                let upto = (args.mib << 20) * number / (args.cuts + 1);
                stage.wait_received(&operation, upto, PATIENCE)?;
                stage.cut_for(CUT_TIME)?;
                say(&format!("cut {number} after {} MiB", upto >> 20));
            }
            stage.wait_applied(&operation, PATIENCE)
        });
        brought
    })?;
    let took = started.elapsed();
    let bytes = content.bytes();
    let carried = stage.carried() - before;
    let sums = [stage.checksum(1, "long")?, stage.checksum(2, "long")?];
    let peaks = [1, 2].map(|site| process::memory_peak_mb(stage.pid(site)));
    let [first, second] = peaks;
    let (first, second) = (first?, second?);
    let ratio = carried as f64 / bytes as f64;
    let rate = bytes as f64 / took.as_secs_f64() / 1e6;
    say(&format!(
        "\n| | |\n| --- | --- |\n\
         | content | {} MiB, {} cuts of {} s |\n\
         | taken in by site 1 after | {:.1} s |\n\
         | applied at site 2 after | {:.1} s ({rate:.0} MB/s) |\n\
         | bytes on the link per byte | {ratio:.4} |\n\
         | most memory, site 1 | {first:.1} MB |\n\
         | most memory, site 2 | {second:.1} MB |\n\
         | requests over the idle link | {idle} |\n\
         | requests over it meanwhile | {busy} |",
        args.mib,
        args.cuts,
        CUT_TIME.as_secs(),
        uploaded.as_secs_f64(),
        took.as_secs_f64(),
    ));
    if sums.iter().any(|sum| *sum != content.checksum()) {
        bail!(
            "it is not the same everywhere: {sums:?}, sent {}",
            content.checksum()
        );
    }
    say("whole on both sites, by their own checksums");
    match &args.plot {
        Some(file) => Ok(std::fs::write(file, draw(came, args.mib))?),
        None => Ok(()),
    }
}

fn draw(came: Vec<(f64, f64)>, mib: u64) -> String {
    let lines = [Series {
        name: "at site 2".to_owned(),
        points: came,
    }];
    let across = Across {
        name: "seconds",
        scale: Scale::Linear,
    };
    let title = "A content on its way over a link that is cut";
    chart(title, across, "MiB", mib as f64 * 1.1, &lines)
}

/// Asks small things over the link while `work` is done.
fn measure(
    stage: &Arc<Stage>,
    work: impl FnOnce(&Stage) -> anyhow::Result<()>,
) -> anyhow::Result<Latencies> {
    let stop = Arc::new(AtomicBool::new(false));
    let (asking, until) = (stage.clone(), stop.clone());
    let asker = std::thread::spawn(move || client::ask_until(asking.entry(), &until));
    let worked = work(stage);
    stop.store(true, Ordering::Relaxed);
    let seen = asker.join().ok().context("whoever asked has panicked")?;
    worked?;
    Ok(seen)
}
