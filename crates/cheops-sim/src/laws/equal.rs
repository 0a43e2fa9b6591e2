//! Every replica that calls itself live has the fields that clients wrote, in the leader's order; nothing more.

use std::collections::BTreeSet;

use cheops_core::OperationId;
use cheops_core::eventual::{Body, ReplicaState};
use cheops_core::operation::{Fields, Form, Kind};

use super::Evidence;
use crate::world::World;

pub(super) fn check(world: &World, evidence: &Evidence) -> Result<(), String> {
    for (id, (leader, log)) in &evidence.leaders {
        let views = &evidence.views[id];
        if views[leader].form == Form::Queue || views[leader].deleted {
            continue;
        }
        let desired = fold(log.values());
        let whole =
            (1..=log.keys().max().copied().unwrap_or(0)).all(|index| log.contains_key(&index));
        if whole && desired != views[leader].desired {
            return Err(format!(
                "{id:?}: its log says {desired:?}, its leader {:?}",
                views[leader].desired
            ));
        }
        for (host, view) in views {
            let one = &world.hosts[*host];
            let row = &view.rows[&one.name];
            if row.state != ReplicaState::Live || view.stranded {
                continue;
            }
            let local = row.local.as_deref().unwrap_or_default();
            let Some(thing) = one.service.things.get(local) else {
                return Err(format!("{id:?}: {} is live and has nothing", one.name));
            };
            let mut has = thing.fields.clone();
            // What a lost disk had written and nobody else knows of stays where it is.
            let orphans = orphans(world, *host, *id);
            let known = &views[leader].desired;
            has.retain(|field, _| known.contains_key(field) || !orphans.contains(field));
            if has != views[leader].desired {
                let (has, should) = (&thing.fields, &views[leader].desired);
                return Err(format!(
                    "{id:?}: {} is live with {has:?}, should have {should:?}",
                    one.name
                ));
            }
        }
    }
    Ok(())
}

/// Fields that a site wrote for a disk that is no more.
fn orphans(world: &World, host: usize, id: cheops_core::ReplicantId) -> BTreeSet<String> {
    let lost = world.history.lost.iter().filter(|(at, _)| *at == host);
    let requests = lost.filter_map(|(_, op)| world.history.requests.get(op));
    let about = requests.filter(|request| request.submission.op.replicant == id);
    about
        .flat_map(|request| request.submission.op.fields.keys().cloned())
        .collect()
}

fn fold<'a>(log: impl Iterator<Item = &'a Body> + Clone) -> Fields {
    let void = |body: &Body| match body {
        Body::Void(id) => Some(*id),
        Body::Run(_) | Body::Park(_) => None,
    };
    let voided: BTreeSet<OperationId> = log.clone().filter_map(void).collect();
    let mut fields = Fields::new();
    for body in log {
        if let Body::Run(op) = body
            && !voided.contains(&op.id)
            && matches!(op.kind, Kind::Create | Kind::Update)
        {
            fields.extend(op.fields.clone());
        }
    }
    fields
}
