//! Creates and changes: handed to the log, answered as soon as the first site has done it.

use std::time::Instant;

use bytes::Bytes;
use cheops_core::operation::{Fields, Kind, Repeat};
use cheops_core::{OperationId, ReplicantId, Submission};
use cheops_engine::replication::{BODY_BYTES_MAX, Content, Known};
use cheops_model::SiteName;
use cheops_rest::Meaning;
use http::Response;

use super::Spread;
use super::answer;
use super::body::{Read, beginning};
use super::content;
use super::submission::Draft;
use crate::body::Body;
use crate::here::Call;
use crate::passage;
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
    let (call, body) = match read(journey, call).await? {
        (call, Read::Whole(body)) => (call, body),
        (call, Read::Long(long)) => return content::create(journey, spread, call, long).await,
    };
    let draft = draft(journey, &call, body, None);
    submit(journey, draft.create(spread)?).await
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
    let (call, body) = match read(journey, call).await? {
        (call, Read::Whole(body)) => (call, body),
        (call, Read::Long(long)) => {
            return content::change(journey, known, wanted, call, long).await;
        }
    };
    let desired = desired(journey, known).await;
    let draft = draft(journey, &call, body, None);
    let mut submission = draft.change(known, &wanted, &desired)?;
    submission.op.expects = draft.expects(known).await?;
    submit(journey, submission).await
}

/// What clients have written so far.
pub(super) async fn desired(journey: &Journey<'_>, known: &Known) -> Fields {
    let engine = &journey.service.replicas.engine;
    let id = known.id;
    let desired = engine.look(id, move |site| site.replicant(id).map(|view| view.desired));
    desired.await.flatten().unwrap_or_default()
}

impl HandedIn {
    pub(super) fn of(submission: &Submission) -> HandedIn {
        HandedIn {
            op: submission.op.id,
            replicant: submission.op.replicant,
            sites: submission.sites.clone(),
        }
    }
}

async fn submit(journey: &Journey<'_>, submission: Submission) -> Result<Response<Body>, Problem> {
    let handed_in = HandedIn::of(&submission);
    let engine = &journey.service.replicas.engine;
    let answer = engine.submit(submission).await;
    answer::respond(journey, &handed_in, answer).await
}

/// Takes the body out of a request.
async fn read(journey: &Journey<'_>, mut call: Call) -> Result<(Call, Read), Problem> {
    let body = std::mem::replace(&mut call.body, Body::empty());
    let read = beginning(journey.worker, &journey.patience, body, BODY_BYTES_MAX).await?;
    Ok((call, read))
}

/// What is known of a request, with its body or the content in place of it.
pub(super) fn draft<'a>(
    journey: &'a Journey<'a>,
    call: &'a Call,
    body: Bytes,
    content: Option<Content>,
) -> Draft<'a> {
    let now = Instant::now();
    let scope = journey.trail.map(|trail| &trail.scope);
    let homes = journey.worker.homes();
    Draft {
        homes: homes
            .iter()
            .flat_map(|homes| homes.logged(&call.head.headers, now))
            .collect(),
        replicas: &journey.service.replicas,
        call,
        body,
        scope: scope.and_then(|scope| Some(scope.to_str().ok()?.to_owned())),
        entry: journey.trail.map(passage::write_entry),
        patience_ms: journey.patience.time_left(now).as_millis() as u64,
        content,
    }
}
