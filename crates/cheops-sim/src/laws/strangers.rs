//! What was there before stays as it was; what was made is removed only if somebody asked for it, or was told that it was refused.

use super::{Evidence, was_deleted, was_moved_from, was_refused};
use crate::service::Deed;
use crate::world::World;

pub(super) fn check(world: &World, _: &Evidence) -> Result<(), String> {
    for (host, one) in world.hosts.iter().enumerate() {
        for (local, thing) in &one.service.strangers {
            if one.service.things.get(local) != Some(thing) {
                return Err(format!(
                    "{}: {local}, which is nobody's replica, was touched",
                    one.name
                ));
            }
        }
        for done in one
            .service
            .done
            .iter()
            .filter(|done| done.deed == Deed::Removed)
        {
            let asked = was_deleted(world, done.replicant)
                || was_moved_from(world, done.replicant, host)
                || was_refused(world, done.replicant);
            if !asked {
                return Err(format!(
                    "{} removed {:?}, and nobody asked for it",
                    one.name, done.replicant
                ));
            }
        }
        for done in one
            .service
            .done
            .iter()
            .filter(|done| done.deed != Deed::Ran)
        {
            let thing = one.service.things.get(&done.local);
            if thing.is_some_and(|thing| thing.made_for != Some(done.replicant)) {
                return Err(format!(
                    "{}: {:?} touched {}, which is another's",
                    one.name, done.replicant, done.local
                ));
            }
        }
    }
    Ok(())
}
