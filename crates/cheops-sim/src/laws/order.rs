//! A site calls its service for the entries of one epoch in the order of their positions.

use std::collections::BTreeMap;

use super::Evidence;
use crate::world::World;

pub(super) fn check(world: &World, _: &Evidence) -> Result<(), String> {
    let mut last = BTreeMap::new();
    for (host, id, epoch, index) in &world.history.called {
        let before = last.insert((host, id, epoch), *index);
        let restored = world
            .history
            .restores
            .iter()
            .any(|restore| restore.host == *host);
        if before.is_some_and(|before| before > *index) && !restored {
            let (name, before) = (&world.hosts[*host].name, before.unwrap_or_default());
            return Err(format!(
                "{name} called #{index} of {id:?} in {epoch:?} after #{before}"
            ));
        }
    }
    Ok(())
}
