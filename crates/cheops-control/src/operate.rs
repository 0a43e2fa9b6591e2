//! `/v1/sites/{name}` and what operators decide of sites: hold, release, detach, attach, remove,
//! fence, fail, move.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use bytes::Bytes;
use cheops_engine::api;
use cheops_engine::mesh::{DecideError, Decision};
use cheops_model::SiteName;
use serde::Deserialize;
use tokio::time::timeout;

use crate::problem::Problem;
use crate::server::Sources;

pub(crate) async fn show(
    State(sources): State<Sources>,
    Path(name): Path<String>,
) -> Result<Json<api::SiteItem>, Problem> {
    let items = sources.replication.sites(&sources.picture()).await.items;
    let found = items.into_iter().find(|item| item.name.as_str() == name);
    found
        .map(Json)
        .ok_or_else(|| Problem::NotFound(format!("no site `{name}` is known")))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remove {
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    parent: Option<SiteName>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// How long an answer may wait until this agent goes by what was decided.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// Answers with the sites as they are then.
pub(crate) async fn decide(
    State(sources): State<Sources>,
    Path((name, verb)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<api::Sites>, Problem> {
    let decision = read(&verb, &body)?;
    let site = SiteName::new(&name).map_err(|fault| Problem::BadRequest(fault.to_string()))?;
    let decided = sources.council.decide(site, decision).await;
    let version = decided.map_err(problem)?;
    let mut pictures = sources.picture.clone();
    let shown = pictures.wait_for(|picture| picture.view.version >= version);
    // It is decided, whether it is seen in time or not.
    let _ = timeout(SHOWN_WITHIN, shown).await;
    Ok(Json(sources.replication.sites(&sources.picture()).await))
}

fn read(verb: &str, body: &[u8]) -> Result<Decision, Problem> {
    let plain = |decision| parse::<Nothing>(body).map(|Nothing {}| decision);
    match verb {
        "hold" => plain(Decision::Hold),
        "release" => plain(Decision::Release),
        "detach" => plain(Decision::Detach),
        "attach" => plain(Decision::Attach),
        "fence" => plain(Decision::Fence),
        "fail" => plain(Decision::Fail),
        "remove" => parse::<Remove>(body).map(|Remove { force }| Decision::Remove { force }),
        "move" => {
            let read: Result<Move, _> = serde_json::from_slice(body);
            let asked = read.map_err(|fault| {
                Problem::BadRequest(format!(
                    "say where: {{\"parent\": \"…\"}}, or null for the top ({fault})"
                ))
            })?;
            Ok(Decision::Move {
                parent: asked.parent,
            })
        }
        _ => Err(Problem::NotFound(format!(
            "sites are told to hold, release, detach, attach, remove, fence, fail or move, not `{verb}`"
        ))),
    }
}

/// No body is an empty one.
fn parse<T: Default + for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|fault| Problem::BadRequest(fault.to_string()))
}

fn problem(fault: DecideError) -> Problem {
    let detail = fault.to_string();
    match fault {
        DecideError::Unknown(_) => Problem::NotFound(detail),
        DecideError::NotHere(_)
        | DecideError::Here(_)
        | DecideError::NoMajority { .. }
        | DecideError::Circle(_) => Problem::Conflict(detail),
        DecideError::Unsaved(_) | DecideError::Stopped => Problem::Unavailable(detail),
    }
}
