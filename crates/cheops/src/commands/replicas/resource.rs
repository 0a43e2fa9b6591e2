//! `cheops resource`.

use std::fmt::Write;
use std::process::ExitCode;

use cheops_engine::replication::api::{AdoptionPlan, Diff, List, Move, Resource};
use cheops_model::SiteName;
use serde_json::{Value, json};

use super::{age_of, clip, escape, get, headers, or_dash, post, show, with_query, with_rest};
use crate::cli::AskArgs;
use crate::cli::replicas::{How, ListArgs, OneArgs, ResourceCommand};
use crate::commands::block_on;
use crate::terminal;

pub(crate) fn run(command: ResourceCommand) -> anyhow::Result<ExitCode> {
    match command {
        ResourceCommand::Ls(list) => block_on(ls(list)),
        ResourceCommand::Show(one) => block_on(async {
            let resource: Resource = get(&one.ask.admin.client(), &path(&one, "")).await?;
            told(&one.ask, &resource)
        }),
        ResourceCommand::Diff(one) => block_on(async {
            let found: Diff = get(&one.ask.admin.client(), &path(&one, "/diff")).await?;
            show(&one.ask, &found, differences)?;
            Ok(ExitCode::from(u8::from(found.same != Some(true))))
        }),
        ResourceCommand::Repair { one, site, how } => block_on(async {
            let how = match how {
                How::Retry => "retry",
                How::Skip => "skip",
                How::Settle => "settle",
            };
            let body = json!({ "site": site, "how": how });
            let resource: Resource =
                post(&one.ask.admin.client(), &path(&one, "/repair"), &body).await?;
            told(&one.ask, &resource)
        }),
        ResourceCommand::Promote { one, site } => block_on(async {
            let body = json!({ "site": site });
            let resource: Resource =
                post(&one.ask.admin.client(), &path(&one, "/promote"), &body).await?;
            told(&one.ask, &resource)
        }),
        ResourceCommand::Adopt {
            id,
            service,
            scope,
            path,
            without,
            rights,
            plan,
            ask,
        } => {
            let body = json!({
                "service": service, "local_id": id, "scope": scope, "path": path, "without": without,
                "headers": headers(&rights)?, "plan": plan,
            });
            block_on(adopt(ask, body, plan))
        }
        ResourceCommand::Rescope { one, scope, plan } => block_on(rescope(one, &scope, plan)),
    }
}

async fn adopt(ask: AskArgs, body: Value, only_plan: bool) -> anyhow::Result<ExitCode> {
    let client = ask.admin.client();
    if only_plan {
        let plan: AdoptionPlan = post(&client, "/v1/resources/adopt", &body).await?;
        show(&ask, &plan, adoption)?;
        return Ok(ExitCode::SUCCESS);
    }
    let made: Resource = post(&client, "/v1/resources/adopt", &body).await?;
    told(&ask, &made)
}

/// What would be done comes first, on standard error, whatever is asked for.
async fn rescope(one: OneArgs, scope: &str, only_plan: bool) -> anyhow::Result<ExitCode> {
    let (client, path) = (one.ask.admin.client(), path(&one, "/rescope"));
    let plan = json!({ "scope": scope, "plan": true });
    let plan: Move = post(&client, &path, &plan).await?;
    if only_plan {
        show(&one.ask, &plan, movement)?;
        return Ok(exit(plan.blocked.is_some()));
    }
    terminal::error(&movement(&plan));
    let moved: Resource = post(&client, &path, &json!({ "scope": scope })).await?;
    told(&one.ask, &moved)
}

fn movement(plan: &Move) -> String {
    let mut text = format!("{} of {}, led by {}", plan.id, plan.service, plan.leader);
    if plan.steps.is_empty() {
        text.push_str("\nlives there already");
    }
    for step in &plan.steps {
        let _ = write!(text, "\n{step}");
    }
    if let Some(why) = &plan.blocked {
        let _ = write!(text, "\nnot now: {why}");
    }
    text
}

fn adoption(plan: &AdoptionPlan) -> String {
    let joining: Vec<&str> = plan.joining.iter().map(SiteName::as_str).collect();
    format!(
        "{} at {}, led by {}\n{} will make it, with: {}\nwhat lies below it is not taken along",
        plan.kind,
        plan.path,
        plan.leader,
        joining.join(", "),
        plan.fields.join(", "),
    )
}

async fn ls(list: ListArgs) -> anyhow::Result<ExitCode> {
    let limit = list.limit.to_string();
    let path = with_query(
        "/v1/resources",
        &[
            ("service", list.service.as_deref()),
            ("state", list.state.as_deref()),
            ("limit", Some(&limit)),
        ],
    );
    let found: List<Resource> = get(&list.ask.admin.client(), &path).await?;
    show(&list.ask, &found, table)?;
    Ok(exit(found.items.iter().any(needs_attention)))
}

fn path(one: &OneArgs, rest: &str) -> String {
    let path = format!("/v1/resources/{}{rest}", escape(&one.id));
    with_query(&path, &[("service", one.service.as_deref())])
}

pub(super) fn told(ask: &AskArgs, resource: &Resource) -> anyhow::Result<ExitCode> {
    show(ask, resource, page)?;
    Ok(exit(needs_attention(resource)))
}

fn exit(attention: bool) -> ExitCode {
    ExitCode::from(u8::from(attention))
}

fn needs_attention(resource: &Resource) -> bool {
    let stuck = |state: &str| matches!(state, "diverged" | "in-doubt");
    resource.conflicts > 0 || resource.replicas.values().any(|r| stuck(&r.state))
}

/// In one word: the worst that is known of it.
fn word(resource: &Resource) -> &str {
    let any = |state: &str| resource.replicas.values().any(|r| r.state == state);
    match () {
        () if any("in-doubt") => "in-doubt",
        () if any("diverged") => "diverged",
        () if resource.conflicts > 0 => "conflict",
        () if !resource.converged => "behind",
        () if resource.deleted => "deleted",
        () => "same",
    }
}

fn table(list: &List<Resource>) -> String {
    let head = ["ID", "SERVICE", "KIND", "LEADER", "STATE", "AGE"];
    let mut rows = vec![head.map(str::to_owned)];
    for resource in &list.items {
        rows.push([
            resource.id.clone(),
            clip(&resource.service, 12),
            clip(&resource.kind, 12),
            clip(resource.leader.as_str(), 12),
            word(resource).to_owned(),
            age_of(resource.created.as_deref()),
        ]);
    }
    with_rest(terminal::columns(&rows), list.next.as_ref())
}

fn page(resource: &Resource) -> String {
    let guarantee = resource.guarantee["kind"].as_str().unwrap_or("-");
    let mut text = format!(
        "{} {} of {}\n{guarantee}, led by {} (epoch {}), made {} ago, scope `{}`\n{}\n",
        resource.kind,
        resource.id,
        resource.service,
        resource.leader,
        resource.epoch,
        age_of(resource.created.as_deref()),
        clip(or_dash(resource.scope.as_deref()), 40),
        word(resource),
    );
    let head = ["SITE", "LOCAL ID", "STATE", "POSITION", "WAITING"];
    let mut rows = vec![head.map(str::to_owned)];
    for (site, replica) in &resource.replicas {
        rows.push([
            clip(site.as_str(), 14),
            clip(or_dash(replica.local_id.as_deref()), 36),
            replica.state.clone(),
            format!("{} of {}", replica.position, resource.position),
            clip(or_dash(replica.waiting.as_deref()), 22),
        ]);
    }
    let _ = write!(text, "{}", terminal::columns(&rows));
    for (site, replica) in &resource.replicas {
        if let Some(why) = &replica.waiting {
            let _ = write!(text, "\n{site}: {why}");
        }
        if matches!(replica.state.as_str(), "diverged" | "in-doubt") {
            let _ = write!(
                text,
                "\nmend it: cheops resource repair ID --site {site} --how retry|skip|settle"
            );
        }
    }
    text
}

fn differences(diff: &Diff) -> String {
    let mut text = match diff.same {
        Some(true) => "the same everywhere".to_owned(),
        Some(false) => "not the same everywhere".to_owned(),
        None => "the same where it could be asked".to_owned(),
    };
    for found in &diff.differences {
        let _ = write!(text, "\n{}", clip(&found.field, 80));
        for (site, value) in &found.values {
            let _ = write!(text, "\n  {site}: {}", clip(&value.to_string(), 80));
        }
    }
    for (site, shown) in &diff.sites {
        match (&shown.error, shown.status) {
            (Some(why), _) => _ = write!(text, "\n{site} was not compared: {why}"),
            (None, Some(404 | 410)) => _ = write!(text, "\n{site} does not have it"),
            (None, _) => (),
        }
    }
    if diff.same == Some(false) {
        text.push_str(
            "\nto put it right, `cheops resource repair ID --site SITE --how settle` where it is wrong",
        );
    }
    text
}
