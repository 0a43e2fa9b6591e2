//! `cheops site …`: list, show and operate sites.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cheops_engine::api::{SiteItem, Sites};
use cheops_model::SiteName;
use http::StatusCode;
use serde_json::{Value, json};

use super::status::{fetch, rtt, table};
use crate::cli::{AskArgs, Format, SiteArgs, SiteCommand};
use crate::terminal::{self, age, since};

pub(crate) fn run(command: &SiteCommand) -> anyhow::Result<ExitCode> {
    match command {
        SiteCommand::Ls { tree, ask } => list(ask, if *tree { draw } else { table }),
        SiteCommand::Show(args) => show(args),
        SiteCommand::Hold(args) => decide(args, "hold", &json!({})),
        SiteCommand::Release(args) => decide(args, "release", &json!({})),
        SiteCommand::Detach(args) => decide(args, "detach", &json!({})),
        SiteCommand::Attach(args) => decide(args, "attach", &json!({})),
        SiteCommand::Fence(args) => decide(args, "fence", &json!({})),
        SiteCommand::Fail(args) => decide(args, "fail", &json!({})),
        SiteCommand::Remove { force, site } => decide(site, "remove", &json!({ "force": force })),
        SiteCommand::Move { parent, site, .. } => {
            decide(site, "move", &json!({ "parent": parent }))
        }
    }
}

fn list(ask: &AskArgs, form: fn(&Sites) -> String) -> anyhow::Result<ExitCode> {
    let sites = super::block_on(fetch(&ask.admin.client()))?;
    match ask.format.format {
        Format::Json => terminal::print(&serde_json::to_string_pretty(&sites)?),
        Format::Text => terminal::print(&form(&sites)),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &SiteArgs) -> anyhow::Result<ExitCode> {
    let client = args.ask.admin.client();
    let path = format!("/v1/sites/{}", segment(&args.site));
    let (status, body) = super::block_on(async { Ok(client.get(&path).await?) })?;
    if status != StatusCode::OK {
        return Err(problem_of(&body));
    }
    let site: SiteItem = serde_json::from_slice(&body).context("the agent's answer")?;
    match args.ask.format.format {
        Format::Json => terminal::print(&serde_json::to_string_pretty(&site)?),
        Format::Text => terminal::print(&describe(&site)),
    }
    Ok(ExitCode::SUCCESS)
}

fn decide(args: &SiteArgs, verb: &str, body: &Value) -> anyhow::Result<ExitCode> {
    let client = args.ask.admin.client();
    let path = format!("/v1/sites/{}/{verb}", segment(&args.site));
    let body = body.to_string().into_bytes();
    let (status, body) = super::block_on(async { Ok(client.post(&path, body).await?) })?;
    if status != StatusCode::OK {
        return Err(problem_of(&body));
    }
    match args.ask.format.format {
        Format::Json => terminal::print(&String::from_utf8_lossy(&body)),
        Format::Text => terminal::print(&format!("{}: {verb} done", args.site)),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a problem says, for a person.
pub(super) fn problem_of(body: &[u8]) -> anyhow::Error {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    match problem["detail"].as_str() {
        Some(detail) => anyhow!("{detail}"),
        None => anyhow!("the agent refused, and did not say why"),
    }
}

/// A name in a path or query: of its characters, only blanks need it.
pub(super) fn segment(site: &SiteName) -> String {
    site.as_str().replace(' ', "%20")
}

/// Sites below their parents; one whose parent is not known, and circles, at the top.
fn draw(sites: &Sites) -> String {
    let mut text = String::new();
    let mut drawn = BTreeSet::new();
    let known = |name: &SiteName| sites.items.iter().any(|site| site.name == *name);
    let is_top = |site: &&SiteItem| site.parent.as_ref().is_none_or(|parent| !known(parent));
    for top in sites.items.iter().filter(is_top) {
        branch(sites, top, 0, &mut drawn, &mut text);
    }
    for rest in &sites.items {
        branch(sites, rest, 0, &mut drawn, &mut text);
    }
    text
}

fn branch(
    sites: &Sites,
    site: &SiteItem,
    depth: usize,
    drawn: &mut BTreeSet<SiteName>,
    text: &mut String,
) {
    if !drawn.insert(site.name.clone()) {
        return;
    }
    let told = site.report.as_ref();
    let told = told.map_or_else(String::new, |report| {
        format!("  told {} ago", age(Duration::from_millis(report.age_ms)))
    });
    let _ = writeln!(
        text,
        "{}{}  {}  {}{told}",
        "  ".repeat(depth),
        site.name,
        site.mark,
        rtt(site)
    );
    let below = |other: &&SiteItem| other.parent.as_ref() == Some(&site.name);
    for child in sites.items.iter().filter(below) {
        branch(sites, child, depth + 1, drawn, text);
    }
}

fn describe(site: &SiteItem) -> String {
    let ago = |ms: u64| format!("{} ago", age(Duration::from_millis(ms)));
    let none = || "-".to_owned();
    let mut rows = vec![
        ["site".to_owned(), site.name.to_string()],
        ["mark".to_owned(), site.mark.clone()],
        [
            "for".to_owned(),
            site.since.as_deref().and_then(since).map_or_else(none, age),
        ],
        [
            "heard".to_owned(),
            site.last_heard_ms.map_or_else(none, ago),
        ],
        ["path".to_owned(), site.reach.clone()],
        ["round trip".to_owned(), rtt(site)],
        ["standing".to_owned(), site.standing.clone()],
        [
            "held".to_owned(),
            if site.held { "yes" } else { "no" }.to_owned(),
        ],
        ["behind".to_owned(), site.behind.to_string()],
        ["queued".to_owned(), site.queued.to_string()],
        [
            "parent".to_owned(),
            site.parent.as_ref().map_or_else(none, SiteName::to_string),
        ],
        ["labels".to_owned(), labels(site)],
        ["services".to_owned(), site.services.join(", ")],
    ];
    if let Some(told) = &site.report {
        let report = &told.report;
        let well = |(name, well): (&cheops_model::ServiceName, &bool)| {
            format!("{name} {}", if *well { "well" } else { "unwell" })
        };
        let health: Vec<_> = report.services.iter().map(well).collect();
        let tenths = |value: u64| format!("{:.1}/s", value as f64 / 10.0);
        rows.extend([
            ["told".to_owned(), ago(told.age_ms)],
            [
                "load".to_owned(),
                format!("{:.2}", f64::from(report.load_percent) / 100.0),
            ],
            ["memory".to_owned(), format!("{} %", report.memory_percent)],
            ["disk".to_owned(), format!("{} %", report.disk_percent)],
            ["requests".to_owned(), tenths(report.requests_tenths)],
            ["errors".to_owned(), tenths(report.errors_tenths)],
            ["waiting".to_owned(), report.queued.to_string()],
            ["health".to_owned(), health.join(", ")],
        ]);
    }
    terminal::columns(&rows)
}

fn labels(site: &SiteItem) -> String {
    let pairs = site.labels.0.iter();
    let pairs: Vec<_> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(", ")
}
