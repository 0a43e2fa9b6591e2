//! Where an operation is found by its name alone: whoever asks for one need not look at every replicant.

use std::collections::BTreeMap;

use super::log::Log;
use super::replicant::Replicant;
use super::site::Site;
use crate::ids::{OperationId, ReplicantId};

/// Whose each operation is: at the gate or before it, in the log, or parked.
pub(crate) type Places = BTreeMap<OperationId, ReplicantId>;

/// What a replicant has entered there, and of which state of it.
#[derive(Default)]
pub(crate) struct Placed {
    operations: Vec<OperationId>,
    of: Option<(u64, Option<OperationId>, Vec<OperationId>)>,
}

impl Replicant {
    /// Enters what came, takes out what went. Cheap where nothing did.
    pub(super) fn place(&mut self, places: &mut Places) {
        let gate = self.record.gate.as_ref().map(|gate| gate.op.id);
        let pending = self.pending.iter().map(|pending| pending.op.id).collect();
        let now = Some((self.log.changes(), gate, pending));
        if self.placed.of == now {
            return;
        }
        self.placed.of = now;
        self.displace(places);
        let parked = self.log.base.parked.iter().map(|op| op.id);
        let pending = self.pending.iter().map(|pending| pending.op.id);
        let all = self.operations().into_iter().chain(parked).chain(pending);
        self.placed.operations = all.collect();
        let id = self.record.id;
        places.extend(self.placed.operations.iter().map(|op| (*op, id)));
    }

    fn displace(&mut self, places: &mut Places) {
        for op in self.placed.operations.drain(..) {
            if places.get(&op) == Some(&self.record.id) {
                places.remove(&op);
            }
        }
    }
}

impl Placed {
    /// What a replicant that rested had entered there: all but what made it, which is found by its own name.
    pub(super) fn assume(&mut self, log: &Log, id: ReplicantId) {
        let logged = log.iter().map(|kept| kept.entry.body.operation());
        self.operations = logged.filter(|op| op.0 != id.0).collect();
    }
}

impl Site {
    /// Whose it is, if it is not finished here and something is under way with that.
    pub(super) fn place_of(&self, op: OperationId) -> Option<&Replicant> {
        let replicant = self.replicants.if_awake(&self.place(op)?)?;
        replicant.digest_of(op).is_some().then_some(replicant)
    }

    /// Whose it may be. What makes a replicant has its name.
    pub(super) fn place(&self, op: OperationId) -> Option<ReplicantId> {
        let made = ReplicantId(op.0);
        let made = || self.replicants.contains_key(&made).then_some(made);
        self.places.get(&op).copied().or_else(made)
    }

    /// The record of it is gone.
    pub(super) fn lose(&mut self, id: ReplicantId) {
        if let Some(mut replicant) = self.replicants.remove(&id) {
            replicant.displace(&mut self.places);
        }
    }
}
