//! `cheops demo`: sites, sample services and the distance between them, on one machine.

pub(super) mod http;
mod replication;
mod story;

use std::fmt::Write;
use std::process::ExitCode;

use super::stage::{Setting, Stage};
use crate::cli::DemoArgs;
use crate::terminal;

/// Between the sites.
const ROUND_TRIPS_MS: [u64; 3] = [12, 48, 90];

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        terminal::print(&format!(
            "starting {} sites, each an image and a compute service",
            args.sites
        ));
        let stage = Stage::set(Setting {
            sites: args.sites,
            round_trips_ms: &ROUND_TRIPS_MS,
            verbose: args.verbose,
        })
        .await?;
        terminal::print(&stage.describe());
        let outcome = if args.script {
            story::tell(&stage).await
        } else {
            wait(&stage).await
        };
        stage.strike().await;
        outcome
    })
}

/// Until Ctrl-C.
async fn wait(stage: &Stage) -> anyhow::Result<ExitCode> {
    terminal::print(&suggestions(stage));
    tokio::signal::ctrl_c().await?;
    terminal::print("stopping");
    Ok(ExitCode::SUCCESS)
}

fn suggestions(stage: &Stage) -> String {
    let (one, two) = (&stage.sites[0], &stage.sites[1]);
    let mut out = String::from("\ntry, in another terminal:\n\n");
    let mut line = |text: String| {
        let _ = writeln!(out, "  {text}");
    };
    let json = "-H 'Content-Type: application/json'";
    line(format!("export CHEOPS_ADMIN={}", one.admin));
    line("cargo run --release -- status".to_owned());
    line("# an image that only site2 has".to_owned());
    line(format!(
        "curl -s {json} -d '{{\"name\":\"debian\"}}' http://{}/images",
        two.image
    ));
    line("# boot at site1 from the image at site2 (put its id in)".to_owned());
    line(format!(
        "curl -si {json} -H 'X-Scope: compute: site1, image: site2' \\\n    -d '{{\"name\":\"vm\",\"image_id\":\"ID\"}}' http://{}/servers",
        one.compute
    ));
    line("# the first that can be used".to_owned());
    line(format!(
        "curl -si -H 'X-Scope: image: site2; site1' http://{}/images",
        one.image
    ));
    line("# what a scope would do".to_owned());
    line("cargo run --release -- scope explain 'image: around(site1, 20ms)'".to_owned());
    line("# every site, told by any service listener".to_owned());
    line(format!("curl -s http://{}/.cheops/v1/sites", one.image));
    out.push_str("\nCtrl-C stops everything");
    out
}
