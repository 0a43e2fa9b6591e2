//! Once a request has succeeded, another one with its key is not taken for it at the same site.

use cheops_core::Answer;
use cheops_core::operation::Form;

use super::Evidence;
use crate::history::Try;
use crate::world::World;

pub(super) fn check(world: &World, _: &Evidence) -> Result<(), String> {
    let good = |one: &Try| matches!(&one.answer, Some((_, Answer::Service { status, .. })) if *status < 300);
    for (op, request) in &world.history.requests {
        // Two sites that could not hear each other may both have made it; what they differ in is a conflict.
        if request.submission.form == Form::Queue
            || world.history.cut.contains_key(op)
            || world.history.offered.contains(op)
            || !world.history.restores.is_empty()
        {
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
            if other.at_ms > first_ms && other.host == first.host {
                return Err(format!(
                    "{op:?} had succeeded, and another request with its key was answered 2xx"
                ));
            }
        }
    }
    Ok(())
}
