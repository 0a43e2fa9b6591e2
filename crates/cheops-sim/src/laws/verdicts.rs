//! What was answered with a refusal of the service, and with nothing else, was done nowhere.

use cheops_core::Answer;
use cheops_core::operation::Form;

use super::Evidence;
use crate::history::Try;
use crate::world::World;

pub(super) fn check(world: &World, _: &Evidence) -> Result<(), String> {
    let refused = |one: &Try| matches!(&one.answer, Some((_, Answer::Service { status, .. })) if *status >= 400);
    for (op, request) in &world.history.requests {
        let replicated = request.submission.form == Form::Replica;
        if !replicated || !request.tries.iter().all(refused) {
            continue;
        }
        for (host, one) in world.hosts.iter().enumerate() {
            // Done for a disk that is no more: whoever refused it could not know.
            let orphan = world.history.lost.contains(&(host, *op));
            if !orphan
                && one
                    .service
                    .done
                    .iter()
                    .any(|done| done.op.is_some_and(|(did, _)| did == *op))
            {
                return Err(format!("{op:?} was refused, and {} did it", one.name));
            }
        }
    }
    Ok(())
}
