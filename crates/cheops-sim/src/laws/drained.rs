//! After the heal nothing waits: every log is on every site and applied, or its replica is shown as diverged or in
//! doubt; everybody knows how everybody is; nothing taken is left with its taker; tombstones are gone.

use cheops_core::eventual::ReplicaState;
use cheops_core::operation::Form;

use super::Evidence;
use crate::world::World;

pub(super) fn check(world: &World, evidence: &Evidence) -> Result<(), String> {
    for one in &world.hosts {
        let Some(core) = &one.core else {
            return Err(format!("{} does not run", one.name));
        };
        if let Some(op) = core.outbox().next() {
            let views = evidence.views.get(&op.replicant);
            let stranded = views.is_none_or(|views| views.values().any(|view| view.stranded));
            if !stranded {
                return Err(format!("{} still has {:?} to hand over", one.name, op.id));
            }
        }
    }
    for (id, views) in &evidence.views {
        if views.values().any(|view| view.stranded) {
            continue;
        }
        let Some((leader, _)) = evidence.leaders.get(id) else {
            let who: Vec<_> = views
                .iter()
                .map(|(host, view)| (host + 1, &view.epoch, &view.runs))
                .collect();
            return Err(format!("{id:?} has no leader: {who:?}"));
        };
        let led = &views[leader];
        for (site, row) in &led.rows {
            let host = world
                .hosts
                .iter()
                .position(|host| host.name == *site)
                .unwrap_or(usize::MAX);
            let Some(view) = views.get(&host) else {
                if led.deleted {
                    // It has forgotten the tombstone already, or never had anything.
                    continue;
                }
                return Err(format!("{id:?}: {site} has no record"));
            };
            if view.epoch != led.epoch || view.rows != led.rows {
                return Err(format!(
                    "{id:?}: {site} and {} differ: {:?} {:?} and {:?} {:?}",
                    world.hosts[*leader].name, view.epoch, view.rows, led.epoch, led.rows
                ));
            }
            let last = led.base + led.log.len() as u64;
            if view.base + view.log.len() as u64 != last {
                return Err(format!(
                    "{id:?}: {site} has {} entries, the leader {last}",
                    view.log.len()
                ));
            }
            let shown = matches!(row.state, ReplicaState::Diverged | ReplicaState::InDoubt);
            if !shown && (row.applied != last || !view.idle) {
                return Err(format!(
                    "{id:?}: {site} has applied {} of {last}, idle: {}",
                    row.applied, view.idle
                ));
            }
        }
        let dead = led
            .rows
            .values()
            .all(|row| row.state == ReplicaState::Deleted);
        if dead && led.form == Form::Replica {
            return Err(format!(
                "{id:?} is deleted everywhere and its tombstone is still there"
            ));
        }
    }
    Ok(())
}
