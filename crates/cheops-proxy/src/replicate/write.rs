//! Creates and changes: handed to the log, answered as soon as the first site has done it.

use std::time::Instant;

use cheops_core::operation::{Kind, Repeat};
use cheops_core::{OperationId, ReplicantId, Submission};
use cheops_engine::replication::{BODY_BYTES_MAX, Known};
use cheops_model::SiteName;
use cheops_rest::Meaning;
use http::Response;

use super::Spread;
use super::answer;
use super::body::of_request;
use super::submission::Draft;
use crate::body::Body;
use crate::here::Call;
use crate::problem::Problem;
use crate::route::Journey;

/// What is to be done to a replicant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) kind: Kind,
    pub(super) repeat: Repeat,
}

impl Wanted {
    /// None if the request changes nothing.
    pub(super) fn of(meaning: &Meaning<'_>) -> Option<Wanted> {
        let (kind, item) = match meaning {
            Meaning::Other | Meaning::List(_) | Meaning::Read(_) | Meaning::Create { .. } => {
                return None;
            }
            Meaning::Update { item, .. } => (Kind::Update, item),
            Meaning::Delete(item) => (Kind::Delete, item),
            Meaning::Action(item) => (Kind::Action, item),
        };
        let repeat = match item.repeatable {
            true => Repeat::Safe,
            false => Repeat::Never,
        };
        Some(Wanted { kind, repeat })
    }
}

/// What was handed in, for the answer to tell.
pub(super) struct HandedIn {
    pub(super) op: OperationId,
    pub(super) replicant: ReplicantId,
    pub(super) sites: Vec<SiteName>,
}

/// Makes a resource on these sites.
pub(super) async fn create(
    journey: &Journey<'_>,
    spread: &Spread,
    call: Call,
) -> Result<Response<Body>, Problem> {
    let name = &journey.service.config.name;
    let picture = journey.worker.picture();
    let lacks = |site: &&SiteName| **site != picture.here && !picture.may_run(site, name);
    if let Some(site) = spread.sites.iter().find(lacks) {
        return Err(Problem::ServiceNotAtSite {
            service: name.to_string(),
            site: site.clone(),
        });
    }
    picture
        .same_version(&spread.sites, name)
        .map_err(Problem::VersionMismatch)?;
    let draft = draft(journey, call).await?;
    submit(journey, draft.as_ref().create(spread)?).await
}

/// Changes one.
pub(super) async fn change(
    journey: &Journey<'_>,
    known: &Known,
    wanted: Wanted,
    call: Call,
) -> Result<Response<Body>, Problem> {
    if known.deleted {
        return Err(Problem::Gone {
            id: known.meta.to_string(),
        });
    }
    let draft = draft(journey, call).await?;
    let engine = &journey.service.replicas.engine;
    let id = known.id;
    let desired = engine.look(id, move |site| site.replicant(id).map(|view| view.desired));
    let desired = desired.await.flatten().unwrap_or_default();
    let draft = draft.as_ref();
    let mut submission = draft.change(known, &wanted, &desired)?;
    submission.op.expects = draft.expects(known).await?;
    submit(journey, submission).await
}

async fn submit(journey: &Journey<'_>, submission: Submission) -> Result<Response<Body>, Problem> {
    let handed_in = HandedIn {
        op: submission.op.id,
        replicant: submission.op.replicant,
        sites: submission.sites.clone(),
    };
    let engine = &journey.service.replicas.engine;
    let answer = engine.submit(submission).await;
    answer::respond(journey, &handed_in, answer).await
}

/// A request with its body, and what it came with.
pub(super) struct Whole<'a> {
    journey: &'a Journey<'a>,
    call: Call,
    body: bytes::Bytes,
}

pub(super) async fn draft<'a>(
    journey: &'a Journey<'a>,
    mut call: Call,
) -> Result<Whole<'a>, Problem> {
    let body = std::mem::replace(&mut call.body, Body::empty());
    let body = of_request(journey.worker, &journey.patience, body, BODY_BYTES_MAX).await?;
    Ok(Whole {
        journey,
        call,
        body,
    })
}

impl Whole<'_> {
    pub(super) fn as_ref(&self) -> Draft<'_> {
        let left = self.journey.patience.time_left(Instant::now());
        let scope = self.journey.trail.map(|trail| &trail.scope);
        let (headers, now) = (&self.call.head.headers, Instant::now());
        let homes = self.journey.worker.homes();
        Draft {
            homes: homes
                .iter()
                .flat_map(|homes| homes.logged(headers, now))
                .collect(),
            replicas: &self.journey.service.replicas,
            call: &self.call,
            body: self.body.clone(),
            scope: scope.and_then(|scope| Some(scope.to_str().ok()?.to_owned())),
            patience_ms: left.as_millis() as u64,
        }
    }
}
