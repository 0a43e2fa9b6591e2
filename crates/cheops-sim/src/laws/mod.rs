//! What must hold, whatever happened. One file each; every one has been seen to fail (docs/book/src/replication.md).

use std::collections::{BTreeMap, BTreeSet};

use cheops_core::eventual::{Body, ReplicantView};
use cheops_core::operation::{Form, Kind};
use cheops_core::{Answer, OperationId, ReplicantId};

use crate::world::{Host, World};

mod acknowledged;
mod bounded;
mod cancelled;
mod conflicts;
mod drained;
mod equal;
mod expired;
mod involved;
mod keys;
mod order;
mod strangers;
mod twice;
mod unavailable;
mod verdicts;

/// A law: its name, and how to see whether it holds.
pub type Law = (&'static str, fn(&World, &Evidence) -> Result<(), String>);

/// All of them.
pub const LAWS: &[Law] = &[
    ("nothing acknowledged is lost", acknowledged::check),
    ("nothing is applied twice", twice::check),
    (
        "live replicas end equal or are shown diverged",
        equal::check,
    ),
    ("order per replicant is its epochs' order", order::check),
    (
        "no delete nobody asked for, nothing of a stranger touched",
        strangers::check,
    ),
    ("503 never happened", unavailable::check),
    ("what the gate refused happened nowhere", verdicts::check),
    ("expired actions never run", expired::check),
    ("what was cancelled never ran", cancelled::check),
    ("queues drain after heal", drained::check),
    ("records only where involved", involved::check),
    ("memory and log are bounded", bounded::check),
    (
        "what was changed since is not overwritten",
        conflicts::check,
    ),
    ("a key stands for one request", keys::check),
];

/// What the end of a world shows, gathered once for all laws.
pub struct Evidence {
    /// By replicant and host.
    pub views: BTreeMap<ReplicantId, BTreeMap<usize, ReplicantView>>,
    /// By replicant: who leads, and its whole log.
    pub leaders: BTreeMap<ReplicantId, (usize, BTreeMap<u64, Body>)>,
}

impl Evidence {
    /// Looks at every site.
    pub fn gather(world: &World) -> Evidence {
        let mut views: BTreeMap<ReplicantId, BTreeMap<usize, ReplicantView>> = BTreeMap::new();
        for (host, one) in world.hosts.iter().enumerate() {
            for view in one.core.iter().flat_map(|core| core.replicants()) {
                views.entry(view.id).or_default().insert(host, view);
            }
        }
        let mut leaders = BTreeMap::new();
        for (id, hosts) in &views {
            let leading = hosts.iter().filter(|(_, view)| view.leads);
            let Some((host, _)) = leading.max_by(|a, b| a.1.epoch.cmp(&b.1.epoch)) else {
                continue;
            };
            leaders.insert(*id, (*host, whole_log(world, *id, *host, &hosts[host])));
        }
        Evidence { views, leaders }
    }
}

/// The log of the leader from the beginning: what it has folded is in its history, or in another's. Two logs with the
/// same reign at an index are the same up to there.
fn whole_log(
    world: &World,
    id: ReplicantId,
    host: usize,
    view: &ReplicantView,
) -> BTreeMap<u64, Body> {
    let mut log = BTreeMap::new();
    let chains = world.history.chains.iter();
    for ((of, _), chain) in chains.filter(|((_, other), _)| *other == id) {
        for (index, (epoch, body)) in chain {
            // What a site had folded of a log that was lost is in its history for ever.
            let stands = view.runs.epoch_at(*index) == Some(epoch);
            if stands && (*of == host || *index <= view.base) {
                log.insert(*index, body.clone());
            }
        }
    }
    log
}

/// True if somebody has asked to delete it.
fn was_deleted(world: &World, id: ReplicantId) -> bool {
    world
        .history
        .about(id)
        .any(|request| request.submission.op.kind == Kind::Delete)
}

/// True if somebody has asked for it to live elsewhere.
fn was_moved_from(world: &World, id: ReplicantId, host: usize) -> bool {
    let without = |op: &cheops_core::Operation| {
        op.kind == Kind::Rescope && !op.sites.contains(&world.hosts[host].name)
    };
    world
        .history
        .about(id)
        .any(|request| without(&request.submission.op))
}

/// True if whoever asks for its create is told that every site has refused it: nothing of it may stay.
fn was_refused(world: &World, id: ReplicantId) -> bool {
    let told = |host: &Host| host.core.as_ref()?.operation(OperationId(id.0))?.answer;
    let no = |answer| matches!(answer, Answer::Service { status, .. } if status >= 400);
    world.hosts.iter().filter_map(told).any(no)
}

/// The hosts a replicant was meant for.
fn hosts_of(world: &World, id: ReplicantId) -> BTreeSet<usize> {
    let made = world
        .history
        .about(id)
        .filter(|request| request.submission.form == Form::Replica);
    made.flat_map(|request| request.hosts.iter().copied())
        .collect()
}
