//! What people decide: who leads, how a replica is mended, which site is gone.

use cheops_model::SiteName;

use super::log::{Body, Stage};
use super::replicant::{Mend, Recovery};
use super::site::{Repair, Site};
use crate::ids::{OperationId, ReplicantId};
use crate::operation::Handover;
use crate::output::Output;

impl Site {
    pub(super) fn promote(&mut self, id: ReplicantId) {
        let Some(replicant) = self.replicants.get_mut(&id) else {
            return;
        };
        let ready = replicant.record.recovery == Recovery::Done
            && replicant.record.form == crate::operation::Form::Replica
            && !replicant.is_to_leave(&self.shared);
        if ready && !replicant.leads(&self.shared.me) && replicant.log.last() > 0 {
            replicant.stand(replicant.usual_quorum(), &mut self.shared);
        }
    }

    pub(super) fn repair(&mut self, id: ReplicantId, how: Repair) {
        let Some(replicant) = self.replicants.get_mut(&id) else {
            return;
        };
        if replicant.call.is_some() || replicant.record.gate.is_some() {
            return;
        }
        replicant.calm();
        self.shared.touched.insert(id);
        let next = replicant.row(&self.shared.me).applied + 1;
        let stage = replicant.log.get(next).map(|kept| kept.stage.clone());
        let held = matches!(
            stage,
            Some(Stage::Refused(_) | Stage::InDoubt | Stage::Waiting(_))
        );
        match how {
            Repair::Retry => {
                replicant.record.making = None;
                replicant.record.doubt_until = 0;
                if held {
                    replicant.log.set_stage(next, Stage::Queued);
                }
            }
            Repair::Skip => {
                if held && replicant.row(&self.shared.me).local.is_some() {
                    replicant.log.set_stage(next, Stage::Covered);
                    replicant.record.mend = Mend::Skipped;
                }
            }
            Repair::Settle => {
                // Somebody has looked: what is there may not be what this agent wrote.
                let written = replicant.record.written.keys().cloned().collect();
                replicant.mark_unknown(written);
                replicant.record.mend = Mend::Settle;
                let making = replicant.record.making.as_ref();
                if making.is_some_and(|making| matches!(making.stage, Stage::Refused(_))) {
                    replicant.record.making = None;
                }
                if held && matches!(stage, Some(Stage::InDoubt)) {
                    // An action in doubt is not state: somebody has looked, and goes on.
                    replicant.log.set_stage(next, Stage::Covered);
                }
            }
        }
    }

    /// A conflict is over.
    pub(super) fn resolve(&mut self, id: ReplicantId, op: OperationId, out: &mut Output) {
        let Some(replicant) = self.replicants.get_mut(&id) else {
            return;
        };
        let shared = &mut self.shared;
        let auto = replicant.record.handover == Handover::Auto;
        let may = replicant.leads(&shared.me) && (!auto || replicant.has_lease(shared));
        if may && replicant.log.parked().any(|parked| parked.id == op) {
            replicant.append(Body::Void(op), Stage::Void, shared, out);
            shared.touched.insert(id);
        }
    }

    /// What waits for room, credentials or another resource is tried now.
    pub(super) fn hurry(&mut self, id: ReplicantId) {
        if let Some(replicant) = self.replicants.get_mut(&id)
            && replicant.call.is_none()
        {
            replicant.retry_ms = self.shared.now_ms;
            self.shared.touched.insert(id);
        }
    }

    /// Told again, it changes nothing: also what was stranded and has found its way back stays.
    pub(super) fn remove(&mut self, gone: &SiteName, out: &mut Output) {
        if !self.shared.record.removed.insert(gone.clone()) {
            return;
        }
        self.wake_all_of(gone);
        for (id, replicant) in self.replicants.awake_mut() {
            if !replicant.is_involved(gone) {
                continue;
            }
            self.shared.touched.insert(*id);
            if *gone == self.shared.me {
                replicant.record.recovery = Recovery::Stranded;
                continue;
            }
            replicant.record.rows.remove(gone);
            replicant.record.rows_version += 1;
            replicant.progress.remove(gone);
            let first = replicant.record.rows.keys().next() == Some(&self.shared.me);
            if replicant.record.epoch.site == *gone && first {
                replicant.stand(super::promote::Quorum::Heard, &mut self.shared);
            }
        }
        self.shared.record.unasked.remove(gone);
        self.told.remove(gone);
        self.save_site(out);
    }

    pub(super) fn readmit(&mut self, site: &SiteName, out: &mut Output) {
        if self.shared.record.removed.remove(site) {
            self.save_site(out);
        }
    }
}
