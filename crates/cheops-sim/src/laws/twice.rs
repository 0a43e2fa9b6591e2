//! An operation that is not idempotent runs at most once on a site's resource; a site has at most one resource per replicant.

use std::collections::BTreeMap;

use cheops_core::OperationId;
use cheops_core::operation::Repeat;

use super::Evidence;
use crate::service::Deed;
use crate::world::World;

pub(super) fn check(world: &World, _: &Evidence) -> Result<(), String> {
    for (host, one) in world.hosts.iter().enumerate() {
        // A site that left and was brought back has another resource, on which the log runs anew.
        let (mut ran, mut alive, mut lives) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for done in &one.service.done {
            match (done.deed, done.op) {
                (Deed::Made, _) => *alive.entry(done.replicant).or_insert(0) += 1,
                (Deed::Removed, _) => {
                    *alive.entry(done.replicant).or_insert(0) -= 1;
                    *lives.entry(done.replicant).or_insert(0) += 1;
                }
                (Deed::Ran, Some((op, _))) => {
                    let life: u32 = lives.get(&done.replicant).copied().unwrap_or(0);
                    *ran.entry((op, done.replicant, life)).or_insert(0) += 1;
                }
                (Deed::Ran, None) | (Deed::Settled, _) => (),
            }
            // What was made is known by its looks; a change that only a lost disk knew of has altered them.
            let about = |op: &OperationId| {
                world
                    .history
                    .requests
                    .get(op)
                    .map(|r| r.submission.op.replicant)
            };
            let lost = world
                .history
                .lost
                .iter()
                .any(|(at, op)| *at == host && about(op) == Some(done.replicant));
            let asked = world.history.retried.contains(&(host, done.replicant)) || lost;
            if alive.get(&done.replicant).is_some_and(|count| *count > 1) && !asked {
                let (name, id, at_ms) = (&one.name, done.replicant, done.at_ms);
                return Err(format!("{name} has two resources for {id:?} at {at_ms} ms"));
            }
        }
        for ((op, replicant, _), count) in ran {
            let once = world
                .history
                .requests
                .get(&op)
                .is_some_and(|r| r.submission.op.repeat == Repeat::Never);
            let lost = world.history.lost.contains(&(host, op));
            let asked = world.history.retried.contains(&(host, replicant)) || lost;
            if once && count > 1 && !asked {
                return Err(format!("{} ran {op:?} {count} times", one.name));
            }
        }
    }
    Ok(())
}
