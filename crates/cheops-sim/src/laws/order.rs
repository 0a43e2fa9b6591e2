//! A site calls its service for the entries of one epoch in the order of their positions. A disk that was put back
//! begins again from where it stood, which is another beginning and not another order.

use std::collections::BTreeMap;

use super::Evidence;
use crate::world::World;

pub(super) fn check(world: &World, _: &Evidence) -> Result<(), String> {
    let mut last = BTreeMap::new();
    for (host, disk, id, epoch, index) in &world.history.called {
        let before = last.insert((host, disk, id, epoch), *index);
        if let Some(before) = before.filter(|before| before > index) {
            let name = &world.hosts[*host].name;
            return Err(format!(
                "{name} called #{index} of {id:?} in {epoch:?} after #{before}"
            ));
        }
    }
    Ok(())
}
