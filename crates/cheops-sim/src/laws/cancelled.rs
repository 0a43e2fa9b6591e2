//! What somebody was told to be given up ran nowhere, and will not.

use super::Evidence;
use super::expired::is_asked_anew;
use crate::history::Restore;
use crate::world::World;

pub(super) fn check(world: &World, _: &Evidence) -> Result<(), String> {
    for (op, (holder, at_ms)) in &world.history.cancelled {
        let timed = world.history.requests[op].submission.op.ttl_ms.is_some();
        // Put back to before, a disk has what nobody wants any more; it gives up only what was to be done in time.
        let forgot = |restore: &Restore| {
            let within = restore.backup_ms <= *at_ms && *at_ms <= restore.at_ms;
            restore.host == *holder && within && !timed
        };
        if world.history.restores.iter().any(forgot) {
            continue;
        }
        for one in &world.hosts {
            let done = one.service.done.iter();
            let mut ran = done.filter(|done| done.op.is_some_and(|(did, _)| did == *op));
            if let Some(ran) = ran.find(|done| !is_asked_anew(world, *op, done.at_ms)) {
                return Err(format!(
                    "{op:?} was cancelled at {at_ms} ms, and {} ran it at {} ms",
                    one.name, ran.at_ms
                ));
            }
        }
    }
    Ok(())
}
