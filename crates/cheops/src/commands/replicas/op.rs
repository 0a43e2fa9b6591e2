//! `cheops op`.

use std::fmt::Write;
use std::process::ExitCode;

use cheops_engine::replication::api::{List, OperationItem};
use serde_json::{Value, json};

use super::{age_of, clip, escape, get, headers, or_dash, post, show, with_query, with_rest};
use crate::cli::replicas::{ByIdArgs, ListArgs, OpCommand};
use crate::commands::block_on;
use crate::terminal;

pub(crate) fn run(command: OpCommand) -> anyhow::Result<ExitCode> {
    match command {
        OpCommand::Ls { list, resource } => block_on(ls(list, resource)),
        OpCommand::Show(one) => block_on(async {
            let item: OperationItem = get(&one.ask.admin.client(), &path(&one, "")).await?;
            told(&one, &item)
        }),
        OpCommand::Retry { one, rights } => {
            let body = json!({ "headers": headers(&rights)? });
            block_on(change(one, "/retry", body))
        }
        OpCommand::Cancel(one) => block_on(change(one, "/cancel", json!({}))),
    }
}

async fn ls(list: ListArgs, resource: Option<String>) -> anyhow::Result<ExitCode> {
    let limit = list.limit.to_string();
    let path = with_query(
        "/v1/operations",
        &[
            ("service", list.service.as_deref()),
            ("state", list.state.as_deref()),
            ("resource", resource.as_deref()),
            ("limit", Some(&limit)),
        ],
    );
    let found: List<OperationItem> = get(&list.ask.admin.client(), &path).await?;
    show(&list.ask, &found, table)?;
    let stuck = found.items.iter().any(is_stuck);
    Ok(ExitCode::from(u8::from(stuck)))
}

async fn change(one: ByIdArgs, verb: &str, body: Value) -> anyhow::Result<ExitCode> {
    let item: OperationItem = post(&one.ask.admin.client(), &path(&one, verb), &body).await?;
    told(&one, &item)
}

fn path(one: &ByIdArgs, rest: &str) -> String {
    format!("/v1/operations/{}{rest}", escape(&one.id))
}

fn told(one: &ByIdArgs, item: &OperationItem) -> anyhow::Result<ExitCode> {
    show(&one.ask, item, page)?;
    Ok(ExitCode::from(u8::from(is_stuck(item))))
}

/// Worst first: what an operation is called when its sites differ.
const WORST: [&str; 12] = [
    "in-doubt",
    "refused",
    "waiting",
    "held",
    "expired",
    "prepared",
    "queued",
    "sent",
    "cancelled",
    "void",
    "covered",
    "applied",
];

fn is_stuck(item: &OperationItem) -> bool {
    WORST[..4].contains(&word(item))
}

fn word(item: &OperationItem) -> &str {
    let any = |word: &&&str| item.sites.values().any(|step| step.state == ***word);
    WORST.iter().find(any).copied().unwrap_or("finished")
}

fn table(list: &List<OperationItem>) -> String {
    let head = ["ID", "KIND", "RESOURCE", "STATE", "AGE"];
    let mut rows = vec![head.map(str::to_owned)];
    for item in &list.items {
        rows.push([
            item.id.clone(),
            or_dash(item.kind.as_deref()).to_owned(),
            clip(or_dash(item.resource.as_deref()), 36),
            word(item).to_owned(),
            age_of(item.created.as_deref()),
        ]);
    }
    with_rest(terminal::columns(&rows), list.next.as_ref())
}

fn page(item: &OperationItem) -> String {
    let mut text = format!(
        "operation {}: {}\n{} {}\nresource {}, made {} ago\n",
        item.id,
        or_dash(item.kind.as_deref()),
        or_dash(item.method.as_deref()),
        clip(or_dash(item.path.as_deref()), 90),
        or_dash(item.resource.as_deref()),
        age_of(item.created.as_deref()),
    );
    if let Some(content) = &item.content {
        let hash = content.hash.as_deref().map(|hash| clip(hash, 16));
        let _ = match (hash, content.bytes) {
            (Some(hash), Some(bytes)) => writeln!(text, "content {hash}, {}", size(bytes)),
            _ => writeln!(text, "content still coming in"),
        };
    }
    let of = item.content.as_ref().and_then(|content| content.bytes);
    let head = ["SITE", "STATE", "STATUS", "TRIES", "CONTENT", "ERROR"];
    let mut rows = vec![head.map(str::to_owned)];
    let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
    for (site, step) in &item.sites {
        rows.push([
            clip(site.as_str(), 20),
            step.state.clone(),
            number(step.status.map(u32::from)),
            number(step.attempts),
            step.received
                .map_or_else(|| "-".to_owned(), |got| share(got, of)),
            clip(or_dash(step.error.as_deref()), 38),
        ]);
    }
    let _ = write!(text, "{}", terminal::columns(&rows));
    if is_stuck(item) {
        let _ = write!(text, "\ntry again: cheops op retry {}", item.id);
    }
    text
}

/// How much has come: all, a part of it, or so much of who knows what.
fn share(got: u64, of: Option<u64>) -> String {
    match of {
        Some(of) if got >= of => "all".to_owned(),
        Some(of) => format!("{}%", got.saturating_mul(100) / of.max(1)),
        None => size(got),
    }
}

fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    match unit {
        Some((shift, unit)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_is_told_in_short() {
        assert_eq!(share(7, Some(7)), "all");
        assert_eq!(share(5 << 20, Some(20 << 20)), "25%");
        assert_eq!(share(3 << 19, None), "1.5 MiB");
        assert_eq!(
            (size(9), size(10 << 30)),
            ("9 bytes".to_owned(), "10.0 GiB".to_owned())
        );
    }
}
