//! `cheops rtt A B`: how far two sites are apart.

use std::process::ExitCode;

use anyhow::Context;
use cheops_engine::api::RoundTrip;
use cheops_model::SiteName;
use http::StatusCode;

use super::site::{problem_of, segment};
use crate::cli::{AdminArgs, Format, FormatArgs};
use crate::terminal;

/// Exit 0 if it is known, 1 if nothing is known of it yet.
pub(crate) fn run(
    from: &SiteName,
    to: &SiteName,
    admin: &AdminArgs,
    format: &FormatArgs,
) -> anyhow::Result<ExitCode> {
    let query = format!("/v1/rtt?from={}&to={}", segment(from), segment(to));
    let client = admin.client();
    let (status, body) = super::block_on(async { Ok(client.get(&query).await?) })?;
    if status != StatusCode::OK {
        return Err(problem_of(&body));
    }
    let found: RoundTrip = serde_json::from_slice(&body).context("the agent's answer")?;
    match format.format {
        Format::Json => terminal::print(&serde_json::to_string_pretty(&found)?),
        Format::Text => terminal::print(&text(&found)),
    }
    Ok(match found.ms {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(1),
    })
}

fn text(found: &RoundTrip) -> String {
    let how = if found.measured {
        "measured"
    } else {
        "estimated"
    };
    match (found.ms, found.error_ms) {
        (Some(ms), Some(error)) => format!("{ms:.1} ± {error:.1} ms, {how}"),
        _ => "not known yet".to_owned(),
    }
}
