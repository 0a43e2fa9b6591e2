//! What a site can tell of its replicants, for people and for the simulator. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use cheops_model::SiteName;

use super::log::{Body, Runs, Stage};
use super::message::Row;
use super::replicant::{Mend, Recovery, Replicant};
use super::shelf::Held;
use super::site::Site;
use crate::ids::{Boot, Epoch, OperationId, Position, ReplicantId};
use crate::operation::{Fields, Form, Handover, Operation};

/// One replicant as this site knows it.
#[derive(Clone, Debug)]
pub struct ReplicantView {
    /// Which.
    pub id: ReplicantId,
    /// What for.
    pub form: Form,
    /// Which API.
    pub service: String,
    /// How it was made.
    pub create: Option<Operation>,
    /// The id that clients see.
    pub meta: Option<String>,
    /// What it lies below.
    pub parent: Option<ReplicantId>,
    /// What is shown of it, as it was handed in.
    pub about: Vec<u8>,
    /// Who takes over.
    pub handover: Handover,
    /// The local resource was found by its looks, not by proof.
    pub matched: bool,
    /// Sites that are away for so long that they lost their queue: they will be settled. Known to the leader.
    pub needs_settle: BTreeSet<SiteName>,
    /// Whom this site follows.
    pub epoch: Epoch,
    /// True if this site orders it.
    pub leads: bool,
    /// All replicas.
    pub rows: BTreeMap<SiteName, Row>,
    /// What clients have written.
    pub desired: Fields,
    /// True if they have deleted it.
    pub deleted: bool,
    /// Entries not folded, with their stage here.
    pub log: Vec<(u64, Epoch, OperationId, Stage)>,
    /// What was folded.
    pub base: u64,
    /// Under whom each entry was ordered, also those that were folded.
    pub runs: Runs,
    /// Conflicts nobody has resolved.
    pub parked: Vec<Operation>,
    /// True if somebody has to decide whether it still exists.
    pub stranded: bool,
    /// True if nothing is left to do here, as far as this site knows.
    pub idle: bool,
}

impl Site {
    /// This site.
    pub fn name(&self) -> &SiteName {
        &self.shared.me
    }

    /// The run of this site's agent.
    pub fn boot(&self) -> Boot {
        self.shared.boot
    }

    /// Every replicant of this site.
    pub fn replicants(&self) -> impl Iterator<Item = ReplicantView> + '_ {
        self.replicants.each().map(|held| self.view(&held))
    }

    /// One replicant.
    pub fn replicant(&self, id: ReplicantId) -> Option<ReplicantView> {
        Some(self.view(&*self.replicants.held(id)?))
    }

    fn view(&self, replicant: &Replicant) -> ReplicantView {
        let record = &replicant.record;
        let desired = replicant.log.desired(replicant.log.last());
        let entry = |kept: &super::log::Kept| {
            let entry = &kept.entry;
            (
                entry.index,
                entry.epoch.clone(),
                entry.body.operation(),
                kept.stage.clone(),
            )
        };
        let idle = record.gate.is_none()
            && record.making.is_none()
            && replicant.pending.is_empty()
            && replicant.call.is_none()
            && replicant.candidacy.is_none()
            && record.recovery == Recovery::Done
            && record.mend != Mend::Settle
            && record.rows[&self.shared.me].applied == replicant.log.last();
        ReplicantView {
            id: record.id,
            form: record.form,
            service: record.service.clone(),
            create: record.create.clone(),
            meta: record.meta.clone(),
            parent: record.parent,
            about: record.about.clone(),
            handover: record.handover,
            matched: record.matched,
            needs_settle: match replicant.leads(&self.shared.me) {
                true => replicant.needing_settle(),
                false => BTreeSet::new(),
            },
            epoch: record.epoch.clone(),
            leads: replicant.leads(&self.shared.me),
            rows: record.rows.clone(),
            desired: desired.fields,
            deleted: desired.deleted,
            log: replicant.log.iter().map(entry).collect(),
            base: replicant.log.base.index,
            runs: replicant.log.runs(),
            parked: replicant.log.parked().cloned().collect(),
            stranded: record.recovery == Recovery::Stranded,
            idle,
        }
    }

    /// The operation of a replicant that its service is being asked about before it has a position; else the newest that
    /// is still in its log, else the one that made it. Nothing if it rests.
    pub fn latest(&self, id: ReplicantId) -> Option<&Operation> {
        let replicant = self.replicants.if_awake(&id)?;
        if let Some(gate) = &replicant.record.gate {
            // In whose name it is called: nobody borrows the rights of whoever came before.
            return Some(&gate.op);
        }
        let operation = |kept: &'_ super::log::Kept| match &kept.entry.body {
            Body::Run(_) => Some(kept.entry.index),
            Body::Void(_) | Body::Park(_) => None,
        };
        let index = replicant.log.iter().filter_map(operation).last();
        match index
            .and_then(|index| replicant.log.get(index))
            .map(|kept| &kept.entry.body)
        {
            Some(Body::Run(op)) => Some(op),
            _ => replicant.record.create.as_ref(),
        }
    }

    /// What a site calls the resource that clients know by this id. Nothing if it is not there, or is deleted.
    pub fn local_of(&self, service: &str, meta: &str) -> Option<String> {
        let replicant = self.by_meta(service, meta)?;
        replicant.row(&self.shared.me).local.clone()
    }

    /// What clients call the resource that this site's service knows by this id.
    pub fn meta_of(&self, service: &str, local: &str) -> Option<String> {
        let own = |r: &Replicant| r.row(&self.shared.me).local.as_deref() == Some(local);
        let mut of = self.replicants.each();
        let found = of.find(|r| r.record.service == service && own(r))?;
        found.record.meta.clone()
    }

    /// Where the resource lives that clients know by this id; a request that names it can run nowhere else.
    pub fn sites_of(&self, service: &str, meta: &str) -> Vec<SiteName> {
        let replicant = self.by_meta(service, meta);
        replicant.map_or(Vec::new(), |r| r.record.rows.keys().cloned().collect())
    }

    /// How far this site's replica is: what a precondition of a client becomes.
    pub fn position(&self, id: ReplicantId) -> Option<Position> {
        let replicant = self.replicants.held(id)?;
        let index = replicant.row(&self.shared.me).applied;
        let epoch = replicant.log.runs().epoch_at(index)?.clone();
        Some(Position { epoch, index })
    }

    fn by_meta(&self, service: &str, meta: &str) -> Option<Held<'_>> {
        let is = |r: &Held<'_>| r.record.meta.as_deref() == Some(meta);
        let mut of = self.replicants.each().filter(is);
        let found = of.find(|r| r.record.service == service)?;
        (!found.log.is_deleted()).then_some(found)
    }

    /// What this site has taken and nobody has ordered yet.
    pub fn outbox(&self) -> impl Iterator<Item = &Operation> {
        self.shared.outbox.values().map(|kept| &kept.submission.op)
    }

    /// True if this site has taken it with 202 and knows of no position that it ever had.
    pub fn is_taken(&self, op: OperationId) -> bool {
        let kept = self.shared.outbox.get(&op);
        kept.is_some_and(|kept| kept.fork.is_none())
    }

    /// Things held in memory, to see that they are bounded.
    pub fn weight(&self) -> usize {
        let log: usize = self
            .replicants
            .awake()
            .map(|r| r.log.len() + r.pending.len())
            .sum();
        log + self.forwards.len() + self.shared.waiters.len() + self.shared.calls.len()
    }
}

impl Replicant {
    /// Known to the leader: by what they reported in its reign, else by what they had applied before.
    fn needing_settle(&self) -> BTreeSet<SiteName> {
        let base = self.log.base.index;
        let behind = self.record.rows.iter().filter(|(site, row)| {
            let known = self.progress.get(*site).and_then(|known| known.have);
            known.unwrap_or(row.applied) < base
        });
        behind.map(|(site, _)| site.clone()).collect()
    }
}
