//! Logs are folded once everybody has applied them; memory was never out of proportion to what was asked.

use cheops_core::eventual::ReplicaState;
use cheops_core::limits::COMPACT_EVERY;

use super::Evidence;
use crate::world::World;

pub(super) fn check(world: &World, evidence: &Evidence) -> Result<(), String> {
    let most = world.settings.requests as usize * 12 + 200;
    if world.history.peak_weight > most {
        return Err(format!(
            "a site held {} things in memory",
            world.history.peak_weight
        ));
    }
    for (id, (leader, _)) in &evidence.leaders {
        let view = &evidence.views[id][leader];
        let settled = view
            .rows
            .values()
            .all(|row| matches!(row.state, ReplicaState::Live | ReplicaState::Carrier));
        if settled && view.log.len() > COMPACT_EVERY {
            return Err(format!(
                "{id:?}: {} entries are kept though everybody has them",
                view.log.len()
            ));
        }
    }
    for one in &world.hosts {
        let weight = one.core.as_ref().map_or(0, |core| core.weight());
        let logged: usize = evidence
            .views
            .values()
            .flatten()
            .map(|(_, view)| view.log.len())
            .sum();
        if weight > logged + 8 {
            return Err(format!(
                "{} holds {weight} things after everything has ended",
                one.name
            ));
        }
    }
    Ok(())
}
