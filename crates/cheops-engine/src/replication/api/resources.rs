//! Replicants as they are told, and what may be decided about them.

use std::sync::Arc;

use cheops_core::eventual::{Glance, Kin, Repair, ReplicaState, Row};
use cheops_core::operation::{Fields, Form, Handover};
use cheops_core::{Event, Wait};
use cheops_model::{Failover, Guarantee, SiteName};
use serde_json::Value;

use super::super::Replication;
use super::super::index::Known;
use super::super::shard::NotTaken;
use super::{
    CURRENT, Conflict, ConflictVersion, List, Page, Replica, Resource, asked, rfc3339, word,
};

/// Which resources are wanted. Empty is all.
#[derive(Clone, Debug, Default)]
pub struct ResourceFilter {
    /// Of this API.
    pub service: Option<String>,
    /// With a replica in this state.
    pub state: Option<String>,
    /// Only those that are, or are not, the same everywhere.
    pub converged: Option<bool>,
}

/// Why an id names no one resource.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// This site has no record of it.
    Unknown,
    /// Say which service is meant.
    Several(Vec<Arc<Known>>),
}

/// Why nothing was mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMended {
    /// There is no record any more.
    Gone,
    /// The service is being called for it: ask again.
    Busy,
    /// The agent stops.
    Stopped,
}

/// How a replica is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How(Repair);

impl How {
    /// `retry`, `skip`, `settle`.
    pub fn of(word: &str) -> Option<How> {
        match word {
            "retry" => Some(How::RETRY),
            "skip" => Some(How(Repair::Skip)),
            "settle" => Some(How(Repair::Settle)),
            _ => None,
        }
    }

    /// Call again.
    pub const RETRY: How = How(Repair::Retry);
}

impl Replication {
    /// A page of what this site has records of, in the order of services and ids.
    pub async fn resources(&self, filter: ResourceFilter, page: Page) -> List<Resource> {
        let (wanted, index) = (page.clone(), self.index().clone());
        let parts = self.look_everywhere(move |site| {
            let fits = |glance: &Glance<'_>| {
                let service = filter.service.as_deref();
                service.is_none_or(|service| service == glance.service())
                    && filter.converged.is_none_or(|is| is == converged(glance))
                    && filter.state.as_deref().is_none_or(|state| {
                        glance.rows().values().any(|row| state_word(row) == state)
                    })
            };
            let awake = site.awake().filter(fits);
            let awake = awake.filter_map(|glance| Some((key(&glance)?, glance.id())));
            let rests = |kin: &Kin| {
                let service = filter.service.as_ref();
                service.is_none_or(|service| *service == kin.service)
                    && filter.converged != Some(false)
                    && filter.state.as_deref().is_none_or(|state| state == LIVE)
            };
            let resting = site.resting().filter(|(_, kin)| rests(kin));
            let resting = resting
                .filter_map(|(id, kin)| Some((joined(&kin.service, &index.meta_of(id)?), id)));
            // Only what is shown is read from the disk.
            let cut = wanted.cut(awake.chain(resting)).into_iter();
            cut.filter_map(|(key, id)| Some((key, resource(&site.glance(id)?, site.name())?)))
                .collect::<Vec<_>>()
        });
        page.list(parts.await)
    }

    /// The replicant that an id names: the one clients see, or the one of this site's service.
    pub fn find(&self, id: &str, service: Option<&str>) -> Result<Arc<Known>, Lookup> {
        let found = match service {
            Some(service) => Vec::from_iter(self.index().find(service, id)),
            None => self.index().find_anywhere(id),
        };
        match found.len() {
            0 => Err(Lookup::Unknown),
            1 => Ok(found[0].clone()),
            _ => Err(Lookup::Several(found)),
        }
    }

    /// One resource. None if it has gone meanwhile.
    pub async fn resource(&self, known: &Known) -> Option<Resource> {
        let id = known.id;
        let seen = self.look(id, move |site| {
            let glance = site.glance(id)?;
            resource(&glance, site.name())
        });
        seen.await.flatten()
    }

    /// Mends this site's replica.
    pub async fn repair(&self, known: &Known, how: How) -> Result<(), NotMended> {
        let id = known.id;
        let busy = self.look(id, move |site| site.glance(id).map(|g| g.is_busy()));
        match busy.await.flatten() {
            None => return Err(NotMended::Gone),
            Some(true) => return Err(NotMended::Busy),
            Some(false) => (),
        }
        let event = Event::Repair {
            replicant: id,
            how: how.0,
        };
        self.tell(id, event)
            .map_err(|_: NotTaken| NotMended::Stopped)
    }

    /// Makes this site the one that orders its operations.
    pub fn promote(&self, known: &Known) -> Result<(), NotMended> {
        self.tell(known.id, Event::Promote(known.id))
            .map_err(|_: NotTaken| NotMended::Stopped)
    }

    /// A page of what nobody has resolved.
    pub async fn conflicts(&self, page: Page) -> List<Conflict> {
        let wanted = page.clone();
        let parts = self.look_everywhere(move |site| {
            // What has a conflict does not rest.
            let keyed = site.awake().flat_map(|glance| {
                let key = |op: &cheops_core::Operation| op.id.0.to_be_bytes().to_vec();
                let parked = glance.parked().map(|op| (key(op), conflict(&glance, op)));
                parked.collect::<Vec<_>>()
            });
            wanted.cut(keyed)
        });
        page.list(parts.await)
    }

    /// One conflict, by the id of its operation.
    pub async fn conflict(&self, id: &str) -> Option<Conflict> {
        let wanted = super::operations::operation_id(id)?;
        let found = self.look_everywhere(move |site| {
            site.awake().find_map(|glance| {
                let op = glance.parked().find(|op| op.id == wanted)?;
                Some(conflict(&glance, op))
            })
        });
        found.await.into_iter().flatten().next()
    }
}

/// What pages are ordered by.
fn key(glance: &Glance<'_>) -> Option<Vec<u8>> {
    if glance.form() != Form::Replica {
        return None;
    }
    Some(joined(glance.service(), glance.meta()?))
}

fn joined(service: &str, meta: &str) -> Vec<u8> {
    [service.as_bytes(), b"/", meta.as_bytes()].concat()
}

/// None while it has no name: nobody has made it yet.
fn resource(glance: &Glance<'_>, here: &SiteName) -> Option<Resource> {
    key(glance)?;
    let create = glance.create();
    let made = create.and_then(asked);
    let guarantee = Guarantee::Eventual {
        ttl: create
            .and_then(|op| op.ttl_ms)
            .map(std::time::Duration::from_millis),
        failover: match glance.handover() {
            Handover::Auto => Some(Failover::Auto),
            Handover::ByHand => None,
        },
    };
    let replica = |(site, row): (&SiteName, &Row)| {
        let mut replica = replica(row);
        if site == here && glance.is_stranded() {
            replica.waiting = Some(
                "stranded: this site was removed, or no other has a record of it; somebody decides"
                    .to_owned(),
            );
        }
        (site.clone(), replica)
    };
    Some(Resource {
        id: glance.meta()?.to_owned(),
        service: glance.service().to_owned(),
        kind: made.as_ref().map_or_else(String::new, |m| m.kind.clone()),
        form: "replica".to_owned(),
        guarantee: serde_json::to_value(&guarantee).unwrap_or_default(),
        leader: glance.epoch().site.clone(),
        epoch: glance.epoch().counter,
        created: made.as_ref().and_then(|made| rfc3339(made.created_ms)),
        scope: scope(glance).or_else(|| made.and_then(|made| made.scope)),
        position: glance.last(),
        converged: converged(glance),
        deleted: glance.is_deleted(),
        conflicts: glance.parked().count(),
        replicas: glance.rows().iter().map(replica).collect(),
    })
}

/// Where it was told to live, if ever.
fn scope(glance: &Glance<'_>) -> Option<String> {
    let members = glance.members()?;
    let names: Vec<&str> = members.iter().map(SiteName::as_str).collect();
    Some(format!("{}: {}", glance.service(), names.join(" & ")))
}

fn replica(row: &Row) -> Replica {
    let waiting = row.note.map(|(position, status)| match row.state {
        ReplicaState::InDoubt => format!("position {position} may have been done"),
        ReplicaState::Diverged => format!("position {position} was refused with {status}"),
        _ if status == Wait::Credentials.status() => format!("credentials for position {position}"),
        _ if status == Wait::Dependency.status() => {
            format!("what position {position} names is not here yet")
        }
        _ if status == Wait::Held.status() => {
            format!("position {position} waits: the site takes no changes from elsewhere")
        }
        _ if status == Wait::Blob.status() => {
            format!("position {position} waits for its content")
        }
        _ => format!("position {position} was answered {status}, and is tried again"),
    });
    Replica {
        local_id: row.local.clone(),
        state: state_word(row).to_owned(),
        position: row.applied,
        waiting,
    }
}

/// How every replica is of a replicant that rests.
pub(super) const LIVE: &str = "live";

pub(super) fn state_word(row: &Row) -> &'static str {
    match row.state {
        ReplicaState::Pending | ReplicaState::Carrier => "pending",
        ReplicaState::Live => LIVE,
        ReplicaState::Diverged => "diverged",
        ReplicaState::InDoubt => "in-doubt",
        ReplicaState::Deleted => "deleted",
    }
}

fn converged(glance: &Glance<'_>) -> bool {
    let last = glance.last();
    let settled = |row: &Row| {
        let well = matches!(row.state, ReplicaState::Live | ReplicaState::Deleted);
        well && row.applied >= last
    };
    glance.at_gate() == 0 && !glance.is_patched() && glance.rows().values().all(settled)
}

fn conflict(glance: &Glance<'_>, op: &cheops_core::Operation) -> Conflict {
    let made = asked(op);
    let (id, desired) = (format!("{:032x}", op.id.0), glance.desired());
    let version = |version: &str, site: &SiteName, values: &Fields| ConflictVersion {
        version: version.to_owned(),
        site: site.clone(),
        values: op.fields.keys().map(|name| shown(name, values)).collect(),
    };
    let versions = vec![
        version(CURRENT, &glance.epoch().site, &desired),
        version(&id, &op.origin, &op.fields),
    ];
    Conflict {
        resource: glance.meta().map(str::to_owned),
        service: glance.service().to_owned(),
        kind: word(op.kind).to_owned(),
        created: made.as_ref().and_then(|made| rfc3339(made.created_ms)),
        method: made.as_ref().map(|made| made.method.clone()),
        path: made.map(|made| made.path),
        origin: op.origin.clone(),
        fields: op.fields.keys().cloned().collect(),
        id,
        versions,
    }
}

/// A field with its value; one that is not JSON is only told to be there.
fn shown(name: &str, values: &Fields) -> (String, Value) {
    let value = values.get(name).filter(|value| !value.is_empty());
    let read = |raw: &String| serde_json::from_str(raw).unwrap_or_else(|_| raw.as_str().into());
    (name.to_owned(), value.map_or(Value::Null, read))
}
