//! What came of an operation, as its client hears it.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cheops_core::Answer;
use cheops_core::eventual::ReplicantView;
use cheops_core::operation::Problem as CoreProblem;
use cheops_engine::replication::{Asked, NotTaken, Replied, decode};
use cheops_model::SiteName;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use tokio::time::{Instant, timeout_at};

use super::write::HandedIn;
use crate::body::Body;
use crate::headers;
use crate::problem::Problem;
use crate::route::Journey;

/// How long an entry site with a replica waits for its own apply.
const OWN_APPLY_TIME_MAX: Duration = Duration::from_millis(250);

pub(super) async fn respond(
    journey: &Journey<'_>,
    handed_in: &HandedIn,
    answer: Result<Answer, NotTaken>,
) -> Result<Response<Body>, Problem> {
    let operation = format!("{:032x}", handed_in.op.0);
    let answer = match answer {
        Ok(answer) => answer,
        Err(NotTaken::NoRoom) => return Err(Problem::NoRoom),
        Err(NotTaken::Busy | NotTaken::Stopped) => {
            return Err(Problem::NotNow("this agent has too much to do".to_owned()));
        }
    };
    match answer {
        Answer::Service { status, body, meta } => {
            let here = &journey.worker.here;
            let mut response = match said(status, &body, here) {
                Some(response) => response,
                None => shown(journey, handed_in, status).await,
            };
            let pending = pending(journey, handed_in).await;
            let out = response.headers_mut();
            headers::put(out, headers::OPERATION, &operation);
            if let Some(meta) = &meta {
                headers::put(out, headers::RESOURCE, meta);
            }
            if !pending.is_empty() && (200..300).contains(&status) {
                let names: Vec<&str> = pending.iter().map(SiteName::as_str).collect();
                headers::put(out, headers::PENDING, &names.join(", "));
            }
            Ok(response)
        }
        Answer::Accepted => Ok(accepted(&operation, &handed_in.sites)),
        Answer::OutcomeUnknown => Err(Problem::OperationUnknown { operation }),
        Answer::Unavailable(why) => Err(unavailable(why, &handed_in.sites)),
        Answer::Gone => Err(Problem::Gone { id: String::new() }),
        Answer::UnknownReplicant => Err(Problem::UnknownReplicant { id: String::new() }),
        Answer::Conflict => Err(Problem::Conflict(
            "what it changes was changed under another leader; see `cheops conflict ls`".to_owned(),
        )),
        Answer::PreconditionFailed => Err(Problem::PreconditionFailed),
        Answer::KeyReused => Err(Problem::KeyReused),
        Answer::IdTaken => Err(Problem::IdTaken),
        Answer::Cancelled => Err(Problem::Conflict("the operation was cancelled".to_owned())),
    }
}

fn unavailable(why: CoreProblem, sites: &[SiteName]) -> Problem {
    match why {
        CoreProblem::NotLeader(leader) => Problem::NotLeader(leader),
        CoreProblem::SiteUnreachable => Problem::NoUsableSite(sites.to_vec()),
        CoreProblem::NoLease => Problem::NotNow(
            "its leader hears no majority of its sites; nothing is written until it does"
                .to_owned(),
        ),
        CoreProblem::Recovering => Problem::NotNow(
            "this site's disk is older than what it said; it asks the others first".to_owned(),
        ),
        CoreProblem::Busy => Problem::NotNow("too many operations wait for it".to_owned()),
        CoreProblem::TooLate => Problem::NotNow("it was not its turn in time".to_owned()),
    }
}

/// The first service's answer; none if only its status is known.
fn said(status: u16, body: &[u8], here: &SiteName) -> Option<Response<Body>> {
    let replied = decode::<Replied>(body)?;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let out = response.headers_mut();
    for (name, value) in &replied.headers {
        let pair = HeaderName::try_from(name.as_str())
            .ok()
            .zip(HeaderValue::from_bytes(value).ok());
        // A version of another site's replica says nothing of this one's.
        let foreign = replied.site != here.as_str();
        let version = |name: &HeaderName| *name == header::ETAG || *name == header::LAST_MODIFIED;
        if let Some((name, value)) = pair.filter(|(name, _)| !(foreign && version(name))) {
            out.append(name, value);
        }
    }
    headers::put(out, headers::SERVED_BY, &replied.site);
    let empty = status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    if !empty {
        out.insert(
            header::CONTENT_LENGTH,
            HeaderValue::from(replied.body.len()),
        );
        *response.body_mut() = Body::full(Bytes::from(replied.body));
    }
    Some(response)
}

/// An answer of which only the status is known: with the resource as this site's service shows it, if it does.
async fn shown(journey: &Journey<'_>, handed_in: &HandedIn, status: u16) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let empty = !(200..300).contains(&status) || status == StatusCode::NO_CONTENT.as_u16();
    let engine = &journey.service.replicas.engine;
    let (id, op) = (handed_in.replicant, handed_in.op);
    let asked = engine.look(id, move |site| {
        let op = site.operation(op)?.op?;
        decode::<Asked>(&op.rest)
    });
    let (Some(asked), Some(known)) = (asked.await.flatten(), engine.index().get(id)) else {
        return response;
    };
    if empty || asked.method == "DELETE" {
        return response;
    }
    let Some(answer) = engine.read_local(&known, &asked).await else {
        return response;
    };
    if !(200..300).contains(&answer.status) {
        return response;
    }
    let out = response.headers_mut();
    out.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers::put(out, headers::SERVED_BY, journey.worker.here.as_str());
    if status == StatusCode::CREATED.as_u16() {
        let place = format!("{}/{}", asked.collection.trim_end_matches('/'), known.meta);
        headers::put(out, header::LOCATION, &place);
    }
    *response.body_mut() = Body::full(Bytes::from(answer.body));
    response
}

fn accepted(operation: &str, sites: &[SiteName]) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    let url = operation_url(operation);
    let out = response.headers_mut();
    headers::put(out, header::LOCATION, &url);
    headers::put(out, headers::OPERATION, operation);
    headers::put(out, headers::OPERATION_URL, &url);
    let pending: BTreeSet<&str> = sites.iter().map(SiteName::as_str).collect();
    let pending: Vec<&str> = pending.into_iter().collect();
    headers::put(out, headers::PENDING, &pending.join(", "));
    response
}

/// Where an operation can be asked for, on every service listener.
pub(crate) fn operation_url(operation: &str) -> String {
    format!("/.cheops/v1/operations/{operation}")
}

/// Sites that had not applied it yet, after this one was given a moment to.
async fn pending(journey: &Journey<'_>, handed_in: &HandedIn) -> BTreeSet<SiteName> {
    let engine = &journey.service.replicas.engine;
    let here = &journey.worker.here;
    let (id, op) = (handed_in.replicant, handed_in.op);
    let until = Instant::now() + OWN_APPLY_TIME_MAX;
    loop {
        let changed = engine.index().changed();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        let seen = engine.look(id, move |site| {
            let view = site.replicant(id)?;
            Some(behind(&view, op))
        });
        let Some(pending) = seen.await.flatten() else {
            // Not one of this site's: what the others had done is not known.
            return handed_in.sites.iter().cloned().collect();
        };
        if !pending.contains(here) || timeout_at(until, changed).await.is_err() {
            return pending;
        }
    }
}

/// Who has not applied that operation. One that is folded was applied everywhere.
fn behind(view: &ReplicantView, op: cheops_core::OperationId) -> BTreeSet<SiteName> {
    let index = view
        .log
        .iter()
        .find(|entry| entry.2 == op)
        .map(|entry| entry.0);
    let Some(index) = index else {
        return BTreeSet::new();
    };
    let late = view.rows.iter().filter(|(_, row)| row.applied < index);
    late.map(|(site, _)| site.clone()).collect()
}
