//! What a deposed leader had accepted comes back only where nothing it touches was changed since; else it is parked.

use cheops_core::eventual::Body;
use cheops_core::operation::{Kind, Mode};

use super::Evidence;
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
            // Asked for once more: by its client, or by the site that took it with 202 and brings it to each leader.
            let again = world.history.requests.get(&op.id).is_some_and(|request| {
                request.tries.len() > 1 || request.submission.mode == Mode::Async
            });
            if before == epoch || op.kind == Kind::Create || again {
                // It has the position it had, or somebody has asked for it once more.
                continue;
            }
            let since = log.range(fork + 1..*index);
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

/// Only what was ordered under later leaders counts: what the deposed one had ordered before is its own past.
fn world_epoch_is_new(chain: &crate::history::Chain, at: u64, before: &cheops_core::Epoch) -> bool {
    chain.get(&at).is_some_and(|(epoch, _)| epoch > before)
}
