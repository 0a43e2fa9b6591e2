//! Once a request has succeeded, another one with its key is not taken for it at the same site.

use cheops_core::Answer;

use super::Evidence;
use crate::history::{Restore, Try};
use crate::world::World;

pub(super) fn check(world: &World, _: &Evidence) -> Result<(), String> {
    let good = |one: &Try| matches!(&one.answer, Some((_, Answer::Service { status, .. })) if *status < 300);
    for (op, request) in &world.history.requests {
        // It lost its position: a leader that had not heard of it takes another body for a new request, and what comes
        // back of the first is the conflict.
        if world.history.cut.contains_key(op) {
            continue;
        }
        let Some(first) = request.tries.iter().find(|one| good(one)) else {
            continue;
        };
        let (first_ms, digest) = (first.answer.as_ref().map_or(0, |(at, _)| *at), first.digest);
        for other in request
            .tries
            .iter()
            .filter(|other| other.digest != digest && good(other))
        {
            // A disk that was put back to before has forgotten what the site had answered.
            let forgot = |restore: &Restore| {
                restore.host == first.host
                    && restore.backup_ms <= first_ms
                    && restore.at_ms >= first_ms
            };
            let forgot = world.history.restores.iter().any(forgot);
            if other.at_ms > first_ms && other.host == first.host && !forgot {
                return Err(format!(
                    "{op:?} had succeeded, and another request with its key was answered 2xx"
                ));
            }
        }
    }
    Ok(())
}
