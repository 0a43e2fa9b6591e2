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
    logged: Vec<OperationId>,
    /// At the gate or before it, or parked; these may stand in the log as well.
    others: Vec<OperationId>,
    of: Option<(u64, Option<OperationId>, Vec<OperationId>)>,
}

impl Replicant {
    /// Enters what came, takes out what went. Cheap where nothing did.
    pub(super) fn place(&mut self, places: &mut Places) {
        let gate = self.record.gate.as_ref().map(|gate| gate.op.id);
        let pending: Vec<_> = self.pending.iter().map(|pending| pending.op.id).collect();
        let now = Some((self.log.changes(), gate, pending.clone()));
        if self.placed.of == now {
            return;
        }
        self.placed.of = now;
        let id = self.record.id;
        let parked = self.log.base.parked.iter().map(|op| op.id);
        let others = parked.chain(gate).chain(pending).collect();
        let others = std::mem::replace(&mut self.placed.others, others);
        let logged = self.log.operations().collect();
        let logged = std::mem::replace(&mut self.placed.logged, logged);
        let (went, came) = without_common_ends(&logged, &self.placed.logged);
        let gone = |op: &&OperationId| !self.placed.logged.contains(op);
        displace(others.iter().chain(went).filter(gone), id, places);
        places.extend(came.iter().chain(&self.placed.others).map(|op| (*op, id)));
    }
}

fn displace<'a>(went: impl Iterator<Item = &'a OperationId>, id: ReplicantId, places: &mut Places) {
    for op in went {
        if places.get(op) == Some(&id) {
            places.remove(op);
        }
    }
}

/// Where two lists differ: a log grows at one end and is folded at the other, and what stands between stays.
fn without_common_ends<'a, T: PartialEq>(before: &'a [T], now: &'a [T]) -> (&'a [T], &'a [T]) {
    let same = |(one, other): &(&T, &T)| one == other;
    let first = before.iter().zip(now).take_while(same).count();
    let (before, now) = (&before[first..], &now[first..]);
    let last = before.iter().rev().zip(now.iter().rev());
    let last = last.take_while(same).count();
    (&before[..before.len() - last], &now[..now.len() - last])
}

impl Placed {
    /// What a replicant that rested had entered there: all but what made it, which is found by its own name.
    pub(super) fn assume(&mut self, log: &Log, id: ReplicantId) {
        self.logged = log.operations().filter(|op| op.0 != id.0).collect();
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
        if let Some(replicant) = self.replicants.remove(&id) {
            let Placed { logged, others, .. } = &replicant.placed;
            displace(logged.iter().chain(others), id, &mut self.places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_between_what_went_and_what_came_is_left_alone() {
        let of = |before: &'static [u8], now: &'static [u8]| without_common_ends(before, now);
        assert_eq!(of(&[], &[1, 2]), (&[][..], &[1, 2][..]));
        assert_eq!(of(&[1, 2], &[1, 2, 3]), (&[][..], &[3][..]));
        assert_eq!(of(&[1, 2, 3], &[3]), (&[1, 2][..], &[][..]));
        assert_eq!(of(&[1, 2, 3], &[2, 3, 4]), (&[1, 2, 3][..], &[2, 3, 4][..]));
        assert_eq!(of(&[1, 2, 3], &[1, 4, 3]), (&[2][..], &[4][..]));
        assert_eq!(of(&[1, 1], &[1]), (&[1][..], &[][..]));
    }
}
