//! What a client was told to be done, or to be done later, stands in the log of whoever leads in the end; or is
//! parked there as a conflict; or its replicant was deleted.

use std::collections::BTreeSet;

use cheops_core::eventual::Body;
use cheops_core::operation::{Form, Kind};
use cheops_core::{Answer, OperationId};

use super::{Evidence, was_deleted};
use crate::service::Deed;
use crate::world::World;

pub(super) fn check(world: &World, evidence: &Evidence) -> Result<(), String> {
    for (op, request) in &world.history.requests {
        let Some(at_ms) = request.acknowledged_ms() else {
            continue;
        };
        let lost = request
            .hosts
            .iter()
            .any(|host| world.history.lost.contains(&(*host, *op)));
        let asked_ms = request.tries.first().map_or(at_ms, |first| first.at_ms);
        let excused = world.history.is_excused(&request.hosts, asked_ms, at_ms);
        // Handed on since to a disk that was the only one to have it, and was put back.
        if lost || excused || world.history.gone.contains(op) {
            continue;
        }
        let id = request.submission.op.replicant;
        if request.submission.form == Form::Queue {
            queued(world, *op)?;
            continue;
        }
        if accepted_then_told_otherwise(world, *op) {
            continue;
        }
        let Some((_, log)) = evidence.leaders.get(&id) else {
            let stranded = evidence
                .views
                .get(&id)
                .is_some_and(|views| views.values().any(|view| view.stranded));
            if was_deleted(world, id) || stranded || never_made(world, id) {
                continue;
            }
            return Err(format!("{op:?} was acknowledged, and nobody leads {id:?}"));
        };
        let known: BTreeSet<OperationId> = log.values().map(Body::operation).collect();
        let deleted = log
            .values()
            .any(|body| matches!(body, Body::Run(op) if op.kind == Kind::Delete));
        // Folded on both sides of a fork: what it came to, with what stood beside it, is parked under another name.
        let remains = |id: &OperationId| {
            let stands_for = world.history.remains.get(id);
            stands_for.is_some_and(|operations| operations.contains(op))
        };
        if !known.contains(op) && !deleted && !known.iter().any(remains) {
            return Err(format!(
                "{op:?} was acknowledged, and the log of {id:?} does not have it"
            ));
        }
    }
    Ok(())
}

/// Taken with 202: the verdict of the service comes later, and may be no. Then somebody who has to do with it can say
/// so to whoever asks.
fn accepted_then_told_otherwise(world: &World, op: OperationId) -> bool {
    let request = &world.history.requests[&op];
    let succeeded =
        |answer: &Answer| matches!(answer, Answer::Service { status, .. } if *status < 300);
    let told = request.tries.iter().filter_map(|one| one.answer.as_ref());
    let open = |answer: &Answer| {
        matches!(
            answer,
            Answer::Accepted | Answer::OutcomeUnknown | Answer::Unavailable(_)
        )
    };
    let says_no = |host: &usize| {
        let view = world.hosts[*host].core.as_ref()?.operation(op)?;
        Some(
            view.answer
                .is_some_and(|answer| !succeeded(&answer) && !open(&answer)),
        )
    };
    let no = request.hosts.iter().any(|host| says_no(host) == Some(true));
    !told.into_iter().any(|(_, answer)| succeeded(answer)) && no
}

fn did(host: &crate::world::Host, op: OperationId) -> bool {
    host.service
        .done
        .iter()
        .any(|done| done.op.is_some_and(|(did, _)| did == op))
}

/// A create that was taken with 202 and refused later.
fn never_made(world: &World, id: cheops_core::ReplicantId) -> bool {
    let made = |host: &crate::world::Host| {
        host.service
            .done
            .iter()
            .any(|done| done.replicant == id && done.deed == Deed::Made)
    };
    !world.hosts.iter().any(made)
}

/// Queued requests run at their site, unless they were refused, too late, or are shown in doubt.
fn queued(world: &World, op: OperationId) -> Result<(), String> {
    let request = &world.history.requests[&op];
    let ran = world.hosts.iter().any(|host| did(host, op));
    let bad = request
        .submission
        .op
        .fields
        .values()
        .any(|value| value == "bad" || value == "picky");
    let expired = world.history.expired.keys().any(|(_, late)| *late == op);
    let shown = world.history.doubted.contains(&op);
    if ran || bad || expired || shown {
        return Ok(());
    }
    Err(format!("{op:?} was taken into a queue, and never ran"))
}
