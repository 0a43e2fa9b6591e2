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
        // What was folded may have stood on a disk alone that was put back since: then nobody can say what it came to,
        // and that holds for the end of a log as it does for the middle.
        let whole = (1..=views[leader].runs.last).all(|index| log.contains_key(&index));
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
            let restored = world.history.restores.iter();
            if restored.clone().any(|restore| restore.host == *host) {
                // What a lost disk had written, or had begun to write, and nobody else knows of stays where it is:
                // settle unsets only what this agent knows to have written.
                has.retain(|field, _| views[leader].desired.contains_key(field));
            }
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
