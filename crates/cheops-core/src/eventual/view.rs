//! What a site can tell of its replicants, for people and for the simulator. Changes nothing.

use std::collections::BTreeMap;

use cheops_model::SiteName;

use super::log::{Body, Stage};
use super::message::Row;
use super::replicant::{Mend, Recovery};
use super::site::Site;
use crate::ids::{Epoch, OperationId, ReplicantId};
use crate::operation::{Fields, Form, Operation};

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
    /// Conflicts nobody has resolved.
    pub parked: Vec<Operation>,
    /// True if somebody has to decide whether it still exists.
    pub stranded: bool,
    /// True if nothing is left to do here, as far as this site knows.
    pub idle: bool,
}

/// One operation as this site knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationView {
    /// At the gate or further.
    pub stage: Stage,
    /// None while it has no position.
    pub index: Option<u64>,
}

impl Site {
    /// This site.
    pub fn name(&self) -> &SiteName {
        &self.shared.me
    }

    /// Every replicant of this site.
    pub fn replicants(&self) -> impl Iterator<Item = ReplicantView> + '_ {
        self.replicants.keys().filter_map(|id| self.replicant(*id))
    }

    /// One replicant.
    pub fn replicant(&self, id: ReplicantId) -> Option<ReplicantView> {
        let replicant = self.replicants.get(&id)?;
        let record = &replicant.record;
        let desired = replicant.log.desired(replicant.log.last());
        let mut parked = replicant.log.base.parked.clone();
        let entry = |kept: &super::log::Kept| {
            let entry = &kept.entry;
            (
                entry.index,
                entry.epoch.clone(),
                entry.body.operation(),
                kept.stage.clone(),
            )
        };
        for kept in replicant.log.iter() {
            if let Body::Park(op) = &kept.entry.body {
                parked.push(op.clone());
            }
        }
        let idle = record.gate.is_none()
            && record.making.is_none()
            && replicant.pending.is_empty()
            && replicant.call.is_none()
            && replicant.candidacy.is_none()
            && record.recovery == Recovery::Done
            && record.mend != Mend::Settle
            && record.rows[&self.shared.me].applied == replicant.log.last();
        Some(ReplicantView {
            id,
            form: record.form,
            service: record.service.clone(),
            create: record.create.clone(),
            meta: record.meta.clone(),
            epoch: record.epoch.clone(),
            leads: replicant.leads(&self.shared.me),
            rows: record.rows.clone(),
            desired: desired.fields,
            deleted: desired.deleted,
            log: replicant.log.iter().map(entry).collect(),
            base: replicant.log.base.index,
            parked,
            stranded: record.recovery == Recovery::Stranded,
            idle,
        })
    }

    /// The newest operation of a replicant that is still in its log, else the one that made it.
    pub fn latest(&self, id: ReplicantId) -> Option<&Operation> {
        let replicant = self.replicants.get(&id)?;
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

    /// One operation, while it is not folded.
    pub fn operation(&self, replicant: ReplicantId, op: OperationId) -> Option<OperationView> {
        let replicant = self.replicants.get(&replicant)?;
        if let Some(gate) = replicant
            .record
            .gate
            .as_ref()
            .filter(|gate| gate.op.id == op)
        {
            return Some(OperationView {
                stage: gate.stage.clone(),
                index: None,
            });
        }
        let kept = replicant.log.find(op)?;
        Some(OperationView {
            stage: kept.stage.clone(),
            index: Some(kept.entry.index),
        })
    }

    /// What this site has taken and nobody has ordered yet.
    pub fn outbox(&self) -> impl Iterator<Item = &Operation> {
        self.shared.outbox.values().map(|kept| &kept.submission.op)
    }

    /// Things held in memory, to see that they are bounded.
    pub fn weight(&self) -> usize {
        let log: usize = self
            .replicants
            .values()
            .map(|r| r.log.len() + r.pending.len())
            .sum();
        log + self.forwards.len() + self.shared.waiters.len() + self.shared.calls.len()
    }
}
