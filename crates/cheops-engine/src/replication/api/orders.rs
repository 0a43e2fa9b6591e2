//! What somebody decides about where a resource lives, and about conflicts: an operation like any
//! other, ordered by the leader.

use cheops_core::operation::{Kind, Mode, Problem};
use cheops_core::{Answer, Event, Operation, Submission};
use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use super::super::index::Known;
use super::super::limits::ORDER_TIME_MAX;
use super::super::shard::NotTaken;
use super::super::wire::{self, Asked};
use super::super::{Replication, lasting_id, unix_ms};
use super::operations::operation_id;
use super::{Resource, asked};

/// The version of a conflict that stands: what was parked is dropped.
pub const CURRENT: &str = "current";

/// Why something that was decided is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// There is no record of it.
    Gone,
    /// It cannot be, as it is asked for or as things are.
    Refused(String),
    /// Nothing happened; later it may.
    NotNow(String),
    /// It may still happen.
    Unknown(String),
}

/// What changing the sites of a resource comes to, shown before it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// What clients call it.
    pub id: String,
    /// Which API.
    pub service: String,
    /// Who orders it.
    pub leader: SiteName,
    /// Where it lives.
    pub from: Vec<SiteName>,
    /// Where it is to live.
    pub to: Vec<SiteName>,
    /// Who makes it.
    pub joining: Vec<SiteName>,
    /// Who deletes it, after another replica covers it.
    pub leaving: Vec<SiteName>,
    /// What happens, in order, for a person.
    pub steps: Vec<String>,
    /// Why it cannot be done now.
    pub blocked: Option<String>,
}

impl Replication {
    /// What living on `sites` would take. `lacking` is why some site could not hold it.
    pub fn plan_move(&self, known: &Known, sites: &[SiteName], lacking: Option<String>) -> Move {
        let (from, to) = (known.sites.to_vec(), sites.to_vec());
        let joining: Vec<SiteName> = without(&to, &from);
        let leaving: Vec<SiteName> = without(&from, &to);
        let mut steps = Vec::new();
        for site in &joining {
            steps.push(format!("{site} makes it with what clients have written"));
        }
        for site in &leaving {
            steps.push(format!(
                "{site} runs what it still has to, is covered by another replica, and deletes its own"
            ));
        }
        let leader = &known.leader;
        let blocked = match to.contains(leader) {
            false => Some(format!(
                "{leader} leads it and would leave; first `cheops resource promote` a site that stays"
            )),
            true => lacking,
        };
        Move {
            id: known.meta.to_string(),
            service: known.service.to_string(),
            leader: leader.clone(),
            from,
            to,
            joining,
            leaving,
            steps,
            blocked,
        }
    }

    /// What a resource is made of that some of these sites do not have.
    pub async fn lacking(&self, known: &Known, sites: &[SiteName]) -> Option<String> {
        let id = known.id;
        let create = self.look(id, move |site| {
            let glance = site.glance(id)?;
            glance.create().and_then(asked)
        });
        let create = create.await.flatten()?;
        let api = self.0.caller.api(&known.service)?;
        let (needed, site) = self
            .index()
            .lacking(&known.service, &api, &create, sites)
            .filter(|(needed, _)| needed.id != id)?;
        Some(format!(
            "{site} does not have {}, which it is made of; bring that there first",
            needed.meta
        ))
    }

    /// Orders that a resource lives on these sites.
    pub async fn rescope(
        &self,
        known: &Known,
        sites: Vec<SiteName>,
        scope: &str,
    ) -> Result<Resource, NotDone> {
        let id = known.id;
        let latest = self.look(id, move |site| site.latest(id).and_then(asked));
        let latest = latest.await.flatten().ok_or(NotDone::Gone)?;
        let asked = Asked {
            method: "RESCOPE".to_owned(),
            path: format!("{}/{}", latest.collection, known.meta),
            // New replicas are made in the name of whoever wrote last.
            headers: latest.rights(),
            body: Vec::new(),
            scope: Some(scope.to_owned()),
            created_ms: unix_ms(),
            content: None,
            ..latest
        };
        let op = Operation {
            sites,
            rest: wire::encode(&asked),
            ..Operation::new(lasting_id(), id, Kind::Rescope, self.0.here.clone())
        };
        self.order(known, op).await?;
        self.resource(known).await.ok_or(NotDone::Gone)
    }

    /// Ends a conflict: `take` is the id of its operation, which is then done after all, or [`CURRENT`].
    /// Only whoever leads the resource can.
    pub async fn resolve(
        &self,
        known: &Known,
        conflict: &str,
        take: &str,
    ) -> Result<Resource, NotDone> {
        let unknown = || NotDone::Refused(format!("no conflict {conflict} is known here"));
        let wanted = operation_id(conflict).ok_or_else(unknown)?;
        let id = known.id;
        let parked = self.look(id, move |site| {
            let glance = site.glance(id)?;
            let op = glance.parked().find(|op| op.id == wanted)?.clone();
            Some((op, glance.leads()))
        });
        let (op, leads) = parked.await.flatten().ok_or_else(unknown)?;
        if !leads {
            return Err(NotDone::NotNow(format!("{} leads it", known.leader)));
        }
        match take {
            CURRENT => (),
            take if operation_id(take) == Some(wanted) => self.do_after_all(known, op).await?,
            _ => {
                return Err(NotDone::Refused(format!(
                    "take: {CURRENT}, or {conflict} itself"
                )));
            }
        }
        let resolve = Event::Resolve {
            replicant: id,
            op: wanted,
        };
        let stops = |_: NotTaken| NotDone::NotNow("the agent stops".to_owned());
        self.tell(id, resolve).map_err(stops)?;
        let left = self.look(id, move |site| {
            let glance = site.glance(id)?;
            Some(glance.parked().any(|op| op.id == wanted))
        });
        match left.await.flatten() {
            Some(false) => self.resource(known).await.ok_or(NotDone::Gone),
            Some(true) => Err(NotDone::NotNow(
                "its leader hears no majority of its sites".to_owned(),
            )),
            None => Err(NotDone::Gone),
        }
    }

    /// The same request under a name of its own, which follows from the first: asked twice, it is done once.
    async fn do_after_all(&self, known: &Known, parked: Operation) -> Result<(), NotDone> {
        if parked.kind == Kind::Create {
            return Err(NotDone::Refused(
                "it is there already; take `current`".to_owned(),
            ));
        }
        let name = format!("{:032x}", parked.id.0);
        let id = self.key().operation_of("resolve", &known.service, &name);
        let op = Operation {
            id,
            expects: None,
            ttl_ms: None,
            ..parked
        };
        self.order(known, op).await
    }

    /// Hands an operation in, and tells what came of it.
    async fn order(&self, known: &Known, op: Operation) -> Result<(), NotDone> {
        let url = format!("ask for operation {:032x}", op.id.0);
        let submission = Submission {
            attempt: rand::random(),
            mode: Mode::Wait(ORDER_TIME_MAX.as_millis() as u64),
            ..Submission::new(op, known.sites.to_vec(), &known.service, 0)
        };
        done(self.submit(submission).await, &url)
    }
}

/// What an answer means for whoever decided.
pub(super) fn done(answer: Result<Answer, NotTaken>, url: &str) -> Result<(), NotDone> {
    let refused = |why: &str| Err(NotDone::Refused(why.to_owned()));
    let not_now = |why: &str| Err(NotDone::NotNow(why.to_owned()));
    match answer {
        Ok(Answer::Service { status, .. }) if (200..300).contains(&status) => Ok(()),
        Ok(Answer::Service { status, .. }) => Err(NotDone::Refused(format!(
            "the service of the site that leads it answered {status}"
        ))),
        Ok(Answer::Accepted) => Ok(()),
        Ok(Answer::OutcomeUnknown) => Err(NotDone::Unknown(format!("it may still happen; {url}"))),
        Ok(Answer::Gone | Answer::UnknownReplicant) => Err(NotDone::Gone),
        Ok(Answer::Conflict) => refused("whoever leads it now will not order that; look again"),
        Ok(Answer::IdTaken) => refused("the id is taken"),
        Ok(Answer::PreconditionFailed) => refused("it has changed since"),
        Ok(Answer::KeyReused) => refused("it was decided otherwise before"),
        Ok(Answer::Cancelled) => refused("it was cancelled"),
        Ok(Answer::Unavailable(Problem::NotLeader(leader))) => {
            Err(NotDone::NotNow(format!("{leader} leads it and is cut off")))
        }
        Ok(Answer::Unavailable(_)) => not_now("its leader cannot order anything now"),
        Err(NotTaken::NoRoom) => not_now("there is no room on disk"),
        Err(NotTaken::Busy | NotTaken::Stopped) => not_now("the agent has too much to do"),
    }
}

fn without(these: &[SiteName], those: &[SiteName]) -> Vec<SiteName> {
    let left = these.iter().filter(|site| !those.contains(site));
    left.cloned().collect()
}
