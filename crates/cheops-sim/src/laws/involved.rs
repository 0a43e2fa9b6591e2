//! A disk holds records of replicants that live on its site, and of no others.

use cheops_core::{ReplicantId, Table};

use super::{Evidence, hosts_of};
use crate::world::World;

pub(super) fn check(world: &World, evidence: &Evidence) -> Result<(), String> {
    if let Some((host, op)) = world.history.strays.first() {
        return Err(format!(
            "{} kept {op:?}, which is for others",
            world.hosts[*host].name
        ));
    }
    for (host, one) in world.hosts.iter().enumerate() {
        for table in [Table::Replicants, Table::Log] {
            for key in one.disk.keys(table) {
                let id = ReplicantId(u128::from_be_bytes(
                    key[..16].try_into().expect("a key has 16 bytes"),
                ));
                let hosts = hosts_of(world, id);
                let queue = hosts.is_empty();
                if !queue && !hosts.contains(&host) {
                    return Err(format!(
                        "{} has records of {id:?}, which lives elsewhere",
                        one.name
                    ));
                }
                if !evidence
                    .views
                    .get(&id)
                    .is_some_and(|views| views.contains_key(&host))
                {
                    return Err(format!(
                        "{} has left-overs of {id:?} in {table:?}",
                        one.name
                    ));
                }
            }
        }
    }
    Ok(())
}
