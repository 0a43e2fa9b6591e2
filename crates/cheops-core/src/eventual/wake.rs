//! When a replicant wants to be looked after again, and when it is nothing any more.

use super::message::ReplicaState;
use super::replicant::{Recovery, Replicant};
use super::shared::Shared;
use crate::operation::Form;
use crate::output::Output;

impl Replicant {
    /// Heard of, and nothing more.
    pub(super) fn is_hollow(&self) -> bool {
        let nothing =
            self.log.last() == 0 && self.record.gate.is_none() && self.record.making.is_none();
        nothing && self.record.ran.is_empty() && self.pending.is_empty() && self.call.is_none()
    }

    /// Whoever wanted to make it has given up. Of a queue: it is one of an earlier disk, and no disk has any of it.
    pub(super) fn is_given_up(&self) -> bool {
        let asked_everybody = self.record.epoch.counter > 1;
        self.is_hollow() && (self.record.form == Form::Replica || asked_everybody)
    }

    /// A retry of the create, with its key, does not make it again after the tombstone is gone.
    pub(super) fn remember_gone(&self, shared: &mut Shared, out: &mut Output) {
        if let Some(create) = &self.record.create {
            shared.bury(create.id, create.digest, out);
        }
    }

    pub(super) fn recover_deadlines(&mut self, now_ms: u64) {
        let timed = self
            .log
            .iter()
            .filter_map(|kept| kept.entry.ttl_left_ms.map(|left| (kept.entry.index, left)));
        self.deadlines = timed
            .map(|(index, left)| (index, now_ms.saturating_add(left)))
            .collect();
    }

    /// When this replicant wants to be looked after again.
    pub(super) fn wake_at(&self, shared: &Shared) -> Option<u64> {
        let mut next: Option<u64> = None;
        let mut at = |ms: u64| {
            let ms = ms.max(shared.now_ms + 1);
            next = Some(next.map_or(ms, |before| before.min(ms)));
        };
        if self.record.recovery == Recovery::Stranded {
            return None;
        }
        if self.call.is_none() && self.retry_ms > shared.now_ms {
            at(self.retry_ms);
        }
        let auto = self.record.handover == crate::operation::Handover::Auto;
        if let Some(at_ms) = self.vacancy_ends(shared) {
            at(at_ms);
        }
        if let Some(candidacy) = &self.candidacy {
            at(candidacy.next_ms);
        } else if self.leads(&shared.me) {
            let last = self.log.last();
            for (site, progress) in &self.progress {
                let lacks = self.has_left(site)
                    || progress.have != Some(last)
                    || progress.rows_version != self.record.rows_version;
                if (lacks || auto || self.record.forgetting) && !progress.forgotten {
                    at(progress.next_ms);
                }
            }
        } else {
            if self.is_unheard(shared) {
                at(self.report_ms);
            }
            if auto && self.log.last() > 0 {
                at(self.patience_ends(shared));
            }
        }
        if let Some(first) = self
            .deadlines
            .values()
            .filter(|at| **at > shared.now_ms)
            .min()
        {
            let waits = self.row(&shared.me).applied < self.log.last();
            if waits && self.call.is_none() && self.row(&shared.me).state != ReplicaState::Carrier {
                at(*first);
            }
        }
        next
    }
}
