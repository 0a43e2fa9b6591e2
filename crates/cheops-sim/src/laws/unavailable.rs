//! A request whose every try was answered 503 did not happen anywhere, and will not.

use super::Evidence;
use crate::world::World;

pub(super) fn check(world: &World, evidence: &Evidence) -> Result<(), String> {
    for (op, request) in &world.history.requests {
        if !request.is_unavailable() {
            continue;
        }
        for one in &world.hosts {
            if one
                .service
                .done
                .iter()
                .any(|done| done.op.is_some_and(|(did, _)| did == *op))
            {
                return Err(format!("{op:?} was answered 503, and {} did it", one.name));
            }
        }
        for (id, (_, log)) in &evidence.leaders {
            if log.values().any(|body| body.operation() == *op) {
                return Err(format!(
                    "{op:?} was answered 503, and stands in the log of {id:?}"
                ));
            }
        }
    }
    Ok(())
}
