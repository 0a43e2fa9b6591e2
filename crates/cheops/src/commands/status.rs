//! `cheops status`: one screen of all sites.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use cheops_control::client::Client;
use cheops_engine::api::{SiteItem, Sites};

use crate::cli::{AdminArgs, Format, FormatArgs};
use crate::terminal::{self, age, since};

pub(crate) fn run(admin: &AdminArgs, format: &FormatArgs) -> anyhow::Result<ExitCode> {
    let sites = super::block_on(fetch(&admin.client()))?;
    match format.format {
        Format::Json => terminal::print(&serde_json::to_string_pretty(&sites)?),
        Format::Text => terminal::print(&table(&sites)),
    }
    let well = sites.items.iter().all(|site| site.mark == "connected");
    Ok(if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

pub(super) async fn fetch(client: &Client) -> anyhow::Result<Sites> {
    let (_, body) = client.get("/v1/sites").await?;
    serde_json::from_slice(&body).context("the agent's answer is not a list of sites")
}

pub(super) fn table(sites: &Sites) -> String {
    let head = [
        "SITE", "MARK", "FOR", "HEARD", "RTT", "BEHIND", "QUEUED", "SERVICES",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(sites.items.iter().map(row));
    terminal::columns(&rows)
}

fn row(site: &SiteItem) -> [String; 8] {
    let unknown = || "-".to_owned();
    [
        site.name.to_string(),
        site.mark.clone(),
        site.since
            .as_deref()
            .and_then(since)
            .map_or_else(unknown, age),
        site.last_heard_ms
            .map_or_else(unknown, |ms| age(Duration::from_millis(ms))),
        rtt(site),
        site.behind.to_string(),
        site.queued.to_string(),
        site.services.join(", "),
    ]
}

pub(super) fn rtt(site: &SiteItem) -> String {
    match (site.rtt_ms, site.rtt_error_ms) {
        (Some(ms), Some(error)) => format!("{ms:.1} ± {error:.1} ms"),
        (Some(0.0), None) => "here".to_owned(),
        (Some(ms), None) => format!("{ms:.1} ms"),
        (None, _) => "-".to_owned(),
    }
}
