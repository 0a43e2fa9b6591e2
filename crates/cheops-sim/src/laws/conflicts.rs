//! What a deposed leader had accepted comes back only where nothing it touches was changed since; else it is parked.

use cheops_core::eventual::Body;
use cheops_core::operation::Kind;
use cheops_core::{Epoch, Operation};

use super::Evidence;
use crate::history::Try;
use crate::world::World;

pub(super) fn check(world: &World, evidence: &Evidence) -> Result<(), String> {
    for (id, (host, log)) in &evidence.leaders {
        let Some(chain) = world.history.chains.get(&(*host, *id)) else {
            continue;
        };
        for (index, (epoch, body)) in chain {
            let Body::Run(op) = body else { continue };
            let Some((fork, before)) = world.history.cut.get(&op.id) else {
                continue;
            };
            if before == epoch || op.kind == Kind::Create || was_asked_again(world, op, epoch) {
                // It has the position it had, or somebody has asked that very leader for it.
                continue;
            }
            // A log that parted earlier may hold it before that: then it came over nothing.
            let since = log.range((fork + 1).min(*index)..*index);
            for (at, other) in since.filter(|(at, _)| world_epoch_is_new(chain, **at, before)) {
                let Body::Run(other) = other else { continue };
                let touched = op
                    .fields
                    .keys()
                    .any(|field| other.fields.contains_key(field));
                if touched || op.kind == Kind::Delete {
                    return Err(format!(
                        "{id:?}: {:?} came back at #{index} over #{at}",
                        op.id
                    ));
                }
            }
        }
    }
    Ok(())
}

/// True if whoever led that reign was asked for it: by a client, or by a site that had taken it with 202 and knew of no
/// position. That is a request like any other, and is ordered where it comes. What a deposed leader offers again is not
/// among these, whoever had taken it at first.
fn was_asked_again(world: &World, op: &Operation, epoch: &Epoch) -> bool {
    let history = &world.history;
    let Some(leader) = world.hosts.iter().position(|host| host.name == epoch.site) else {
        return false;
    };
    let reign = history.reigns.get(&(op.replicant, epoch.clone()));
    // The first reign begins with the request that makes it, before anybody is told.
    let began_ms = match epoch.counter {
        1 => 0,
        _ => reign.copied().unwrap_or(u64::MAX),
    };
    let brought = history.brought.get(&(leader, op.id));
    let here = |one: &Try| {
        let waits = one
            .answer
            .as_ref()
            .is_none_or(|(at_ms, _)| *at_ms >= began_ms);
        one.host == leader && waits
    };
    let request = history.requests.get(&op.id);
    history.asked.contains(&(op.id, epoch.clone()))
        || brought.is_some_and(|at_ms| *at_ms >= began_ms)
        || request.is_some_and(|request| request.tries.iter().any(here))
}

/// Only what was ordered under later leaders counts: what the deposed one had ordered before is its own past.
fn world_epoch_is_new(chain: &crate::history::Chain, at: u64, before: &cheops_core::Epoch) -> bool {
    chain.get(&at).is_some_and(|(epoch, _)| epoch > before)
}
