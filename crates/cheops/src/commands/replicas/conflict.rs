//! `cheops conflict`.

use std::fmt::Write;
use std::process::ExitCode;

use cheops_engine::replication::api::{Conflict, List, Resource};
use serde_json::json;

use super::{age_of, clip, escape, get, or_dash, post, resource, show, with_rest};
use crate::cli::replicas::ConflictCommand;
use crate::commands::block_on;
use crate::terminal;

pub(crate) fn run(command: ConflictCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConflictCommand::Ls(ask) => block_on(async {
            let found: List<Conflict> =
                get(&ask.admin.client(), "/v1/conflicts?limit=1000").await?;
            show(&ask, &found, table)?;
            Ok(ExitCode::from(u8::from(!found.items.is_empty())))
        }),
        ConflictCommand::Show(one) => block_on(async {
            let path = format!("/v1/conflicts/{}", escape(&one.id));
            let found: Conflict = get(&one.ask.admin.client(), &path).await?;
            show(&one.ask, &found, page)?;
            Ok(ExitCode::from(1))
        }),
        ConflictCommand::Resolve { one, take } => block_on(async {
            let path = format!("/v1/conflicts/{}/resolve", escape(&one.id));
            let body = json!({ "take": take });
            let resource: Resource = post(&one.ask.admin.client(), &path, &body).await?;
            resource::told(&one.ask, &resource)
        }),
    }
}

fn table(list: &List<Conflict>) -> String {
    let head = ["ID", "KIND", "RESOURCE", "FROM", "AGE"];
    let mut rows = vec![head.map(str::to_owned)];
    for conflict in &list.items {
        rows.push([
            conflict.id.clone(),
            conflict.kind.clone(),
            clip(or_dash(conflict.resource.as_deref()), 36),
            clip(conflict.origin.as_str(), 10),
            age_of(conflict.created.as_deref()),
        ]);
    }
    with_rest(terminal::columns(&rows), list.next.as_ref())
}

fn page(conflict: &Conflict) -> String {
    let mut text = format!(
        "{} of {} {}\n{} {}\nentered at {} {} ago; what it writes was changed since under another leader:\n",
        conflict.kind,
        conflict.service,
        or_dash(conflict.resource.as_deref()),
        or_dash(conflict.method.as_deref()),
        clip(or_dash(conflict.path.as_deref()), 90),
        conflict.origin,
        age_of(conflict.created.as_deref()),
    );
    for version in &conflict.versions {
        let _ = writeln!(text, "{} by {}", version.version, version.site);
        for (field, value) in &version.values {
            let (field, value) = (clip(field, 40), clip(&value.to_string(), 50));
            let _ = writeln!(text, "  {field}: {value}");
        }
    }
    let _ = write!(
        text,
        "decide it: cheops conflict resolve {} --take VERSION",
        conflict.id
    );
    text
}
