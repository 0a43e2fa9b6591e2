//! Carrying a request on to a site further down the tree, for a site above that has no link to it.
//!
//! Nothing of it is changed but its envelope: who it came through, and the time left.

use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use cheops_engine::Picture;
use cheops_model::{Mark, SiteName};
use http::request::Parts;
use http::{Response, header};
use hyper::body::Incoming;

use crate::backend::Fault;
use crate::body::Body;
use crate::envelope::Envelope;
use crate::headers;
use crate::limits;
use crate::problem::Problem;
use crate::pulse::{Patience, Pulse};
use crate::worker::Worker;

/// Whether a request may go from where it began to its target, and from `peer` here.
pub(crate) fn check(
    picture: &Picture,
    peer: &SiteName,
    envelope: &Envelope,
) -> Result<(), Problem> {
    if let Some(standing) = picture.out(peer) {
        let detail = format!(
            "{peer} was {}; it takes no part until it is attached again",
            standing.word()
        );
        return Err(Problem::ForbiddenByPolicy(detail));
    }
    let origin = envelope.visited.first().unwrap_or(peer);
    let allowed = picture.allows(origin, &envelope.target);
    allowed.map_err(|against| Problem::ForbiddenByTopology(against.to_string()))
}

/// Refuses a change from elsewhere while this site is held.
pub(crate) fn check_hold(picture: &Picture, head: &Parts) -> Result<(), Problem> {
    if picture.view.held && !head.method.is_safe() {
        let detail = format!(
            "{} is held: its operator lets no other site change anything there",
            picture.here
        );
        return Err(Problem::ForbiddenByPolicy(detail));
    }
    Ok(())
}

/// Sends the request to the next site on its way.
pub(crate) async fn carry(
    worker: &Rc<Worker>,
    mut envelope: Envelope,
    mut head: Parts,
    body: Incoming,
    started: Instant,
) -> Result<Response<Body>, Problem> {
    let picture = worker.picture();
    let target = envelope.target.clone();
    // Only a site above its target carries for others: it stands in for nobody else.
    let above = picture.view.tree.above(&target).any(|s| *s == worker.here);
    if !above {
        let detail = format!("{} carries no requests to {target}", worker.here);
        return Err(Problem::ForbiddenByPolicy(detail));
    }
    if picture.mark(&target) != Mark::Connected {
        return Err(Problem::SiteUnreachable(target));
    }
    if envelope.visited.len() >= limits::VISITED_MAX {
        return Err(Problem::Loop("it came through too many sites".to_owned()));
    }
    let pulse = Pulse::new(started);
    let patience = Patience {
        pulse: pulse.clone(),
        limit: envelope.deadline,
    };
    envelope.visited.push(worker.here.clone());
    envelope.deadline = patience.time_left(Instant::now());
    head.headers.append(header::VIA, worker.stamps.via.clone());
    head.headers.insert(headers::ENVELOPE, envelope.to_header());
    let safe = head.method.is_safe();
    let request = http::Request::from_parts(head, Body::Request(body, pulse));
    let hop = picture.next_hop(&target);
    let sent = worker.peers.send(&hop, request);
    match worker.sweep.within(&patience, pin!(sent)).await {
        Some(Ok(response)) => Ok(response.map(|body| Body::answer(body, None))),
        Some(Err(Fault::NotSent(_))) => Err(Problem::SiteUnreachable(target)),
        Some(Err(Fault::Sent(_))) if safe => Err(Problem::SiteUnreachable(target)),
        Some(Err(Fault::Sent(_))) => Err(Problem::OutcomeUnknown {
            detail: format!("the link to {hop} was lost before the answer came"),
            site: target,
        }),
        None => Err(Problem::OutcomeUnknown {
            detail: format!("no answer from {target} in the time that was left"),
            site: target,
        }),
    }
}
