//! Requests that are kept for one other site, and may be given up as long as that site cannot have them.
//!
//! Whoever keeps a queue runs nothing of it, so the stage of an entry there says something else: `Queued` is in no
//! message yet, `Void` may be in one, `Expired` was given up. That it leaves is on disk before it leaves.

use std::ops::RangeInclusive;

use cheops_model::SiteName;

use super::log::{Body, Kept, Stage};
use super::message::ReplicaState;
use super::planted::Bug;
use super::replicant::Replicant;
use super::shared::Shared;
use super::site::Site;
use crate::ids::OperationId;
use crate::operation::Form;

impl Site {
    /// Gives a request up that waits in a queue of this site, if its target cannot have it. Gives its digest.
    pub(super) fn withdraw(&mut self, op: OperationId) -> Option<u64> {
        let id = self.place_of(op)?.record.id;
        let digest = self.replicants.get_mut(&id)?.withdraw(op, &self.shared)?;
        self.shared.touched.insert(id);
        Some(digest)
    }
}

impl Replicant {
    /// Its entry stays where it is, as a log has no holes, and goes to the target with no time left.
    fn withdraw(&mut self, id: OperationId, shared: &Shared) -> Option<u64> {
        if !self.keeps_a_queue(&shared.me) || !self.leads(&shared.me) {
            return None;
        }
        let kept = self.log.find(id)?;
        let Body::Run(op) = &kept.entry.body else {
            return None;
        };
        let (index, digest) = (kept.entry.index, op.digest);
        match kept.stage {
            Stage::Queued => (),
            // Somebody asks again.
            Stage::Expired => return Some(digest),
            _ if shared.planted(Bug::CancelSent) => (),
            _ => return None,
        }
        self.log.end_time(index);
        self.log.set_stage(index, Stage::Expired);
        self.deadlines.insert(index, shared.now_ms);
        Some(digest)
    }

    /// True if it was given up here.
    pub(super) fn has_withdrawn(&self, id: OperationId, me: &SiteName) -> bool {
        let given_up = |kept: &Kept| kept.stage == Stage::Expired;
        self.keeps_a_queue(me) && self.log.find(id).is_some_and(given_up)
    }

    /// True if this site keeps requests for another one, and runs none of them.
    pub(super) fn keeps_a_queue(&self, me: &SiteName) -> bool {
        self.record.form == Form::Queue && self.row(me).state == ReplicaState::Carrier
    }

    /// True if what is said to that site may bring it what it was never sent. Into the blue, requests of a queue are
    /// not sent: they would be lost, and nobody could be sure of it.
    pub(super) fn may_bring_more(&self, to: &SiteName, shared: &Shared) -> bool {
        let met = || shared.run_of(to).is_some() && shared.is_up(to);
        !self.keeps_a_queue(&shared.me) || met()
    }

    /// These may be at their target from now on.
    pub(super) fn note_brought(&mut self, entries: RangeInclusive<u64>, me: &SiteName) {
        if !self.keeps_a_queue(me) {
            return;
        }
        for index in entries {
            let fresh = |kept: &Kept| kept.stage == Stage::Queued;
            if self.log.get(index).is_some_and(fresh) {
                self.log.set_stage(index, Stage::Void);
            }
        }
    }

    /// All of them may be.
    pub(super) fn note_all_brought(&mut self, me: &SiteName) {
        self.note_brought(self.log.base.index + 1..=self.log.last(), me);
    }
}
