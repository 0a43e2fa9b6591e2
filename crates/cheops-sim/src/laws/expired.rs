//! What a site has given up as too late it does not run; and where no clock jumped and nobody stopped, nothing runs
//! later than it may.

use cheops_core::OperationId;
use cheops_core::operation::{Form, Kind};

use super::Evidence;
use crate::history::Try;
use crate::world::World;

/// What messages may take on their way, with all their repetitions.
const SLACK_MS: u64 = 8_000;

pub(super) fn check(world: &World, _: &Evidence) -> Result<(), String> {
    for (host, one) in world.hosts.iter().enumerate() {
        for done in &one.service.done {
            let Some((op, kind)) = done.op else { continue };
            if let Some(given_up_ms) = world.history.expired.get(&(host, op)) {
                // Called for a disk that is no more, and done after this one gave it up: nobody can call it back.
                let orphan = world.history.lost.contains(&(host, op));
                let anew = is_asked_anew(world, op, done.at_ms);
                if done.at_ms > *given_up_ms && !orphan && !anew {
                    return Err(format!(
                        "{} gave {op:?} up at {given_up_ms} ms and ran it at {} ms",
                        one.name, done.at_ms
                    ));
                }
            }
            let Some(request) = world.history.requests.get(&op) else {
                continue;
            };
            let timed = kind == Kind::Action || request.submission.form == Form::Queue;
            let (Some(ttl_ms), true) = (request.submission.op.ttl_ms, timed) else {
                continue;
            };
            let undisturbed = request
                .hosts
                .iter()
                .all(|host| !world.history.disturbed.contains(host));
            let last_try = request.tries.iter().map(|one| one.at_ms).max().unwrap_or(0);
            if undisturbed && done.at_ms > last_try + 5_000 + ttl_ms + SLACK_MS {
                return Err(format!(
                    "{} ran {op:?} at {} ms, long too late",
                    one.name, done.at_ms
                ));
            }
        }
    }
    Ok(())
}

/// True if a client asked again, before it ran, at a site whose disk was put back to before it had asked there first: that
/// site knows of no earlier request, and takes this one with all its time.
pub(super) fn is_asked_anew(world: &World, op: OperationId, ran_ms: u64) -> bool {
    let Some(request) = world.history.requests.get(&op) else {
        return false;
    };
    let first_ms = request.tries.first().map_or(0, |first| first.at_ms);
    let forgot = |one: &Try| {
        let restores = world.history.restores.iter();
        restores
            .filter(|restore| restore.host == one.host && restore.at_ms <= one.at_ms)
            .any(|restore| restore.backup_ms <= first_ms && first_ms <= restore.at_ms)
    };
    let mut before = request.tries.iter().filter(|one| one.at_ms <= ran_ms);
    before.any(forgot)
}
