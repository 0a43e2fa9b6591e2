//! The applier: brings the local service to where the log says, one call at a time, each on disk before it is made.

use std::collections::BTreeMap;

use super::log::{Body, Stage};
use super::message::ReplicaState;
use super::planted::Bug;
use super::replicant::{Doing, Mend, Recovery, Replicant};
use super::settle::Cover;
use super::shared::Shared;
use crate::limits::{NO_ROOM_MS, RETRY_MS};
use crate::operation::{Fields, Form, Kind, Outcome, Refusal, Repeat, Wait};
use crate::output::{Call, Output};

/// In place of a value this agent may or may not have written. No client can write it: values are JSON.
pub(super) const UNKNOWN: &str = "\u{0}unknown";

impl Replicant {
    /// After a start: what was being called may have been executed, and may still be.
    pub(super) fn recover_calls(&mut self, shared: &Shared) {
        let calling = self.log.iter().filter(|kept| kept.stage == Stage::Calling);
        let calling: BTreeMap<u64, Stage> = calling
            .map(|kept| (kept.entry.index, self.doubted(&kept.entry.body)))
            .collect();
        if !calling.is_empty() || self.record.making.is_some() {
            self.retry_ms = shared.now_ms + shared.tuning.settle_ms;
        }
        for (index, stage) in calling {
            self.log.set_stage(index, stage);
        }
        if let Some(making) = &mut self.record.making
            && making.stage == Stage::Calling
        {
            making.stage = Stage::InDoubt;
        }
    }

    /// What an entry is after its call may have been executed.
    fn doubted(&self, body: &Body) -> Stage {
        match body {
            Body::Run(op) if op.kind == Kind::Delete || op.repeat == Repeat::Safe => {
                Stage::Retrying
            }
            Body::Run(_) => Stage::InDoubt,
            Body::Park(_) | Body::Void(_) => Stage::Void,
        }
    }

    pub(super) fn apply(&mut self, shared: &mut Shared, out: &mut Output) {
        let idle = self.call.is_none()
            && self.record.gate.is_none()
            && self.record.recovery == Recovery::Done;
        if !idle || self.row(&shared.me).state == ReplicaState::Carrier {
            self.walk(shared);
            return;
        }
        self.expire(shared);
        self.walk(shared);
        if self.retry_ms > shared.now_ms {
            return;
        }
        if self.record.form == Form::Queue {
            return self.apply_next(shared, out);
        }
        let deleted = self.log.is_deleted();
        let local = self.row(&shared.me).local.is_some();
        if !deleted && self.is_to_leave(shared) {
            return self.leave(shared, out);
        }
        match (local, deleted) {
            (false, false) => self.make(shared, out),
            (false, true) => self.bury(shared, out),
            (true, true) if self.is_blocked(shared) => self.delete_past(shared, out),
            (true, _) if self.record.mend == Mend::Settle => self.settle(shared, out),
            (true, _) => self.apply_next(shared, out),
        }
    }

    /// Moves over everything that is done.
    pub(super) fn walk(&mut self, shared: &Shared) {
        let mut applied = self.row(&shared.me).applied;
        let local = self.row(&shared.me).local.is_some();
        let runs = !self.keeps_a_queue(&shared.me);
        while let Some(kept) = self.log.get(applied + 1) {
            let made =
                matches!(&kept.entry.body, Body::Run(op) if op.kind == Kind::Create) && local;
            let (index, op) = (kept.entry.index, kept.entry.body.operation());
            let voids = matches!(kept.entry.body, Body::Void(_));
            if made && !kept.stage.is_final() && self.record.form == Form::Replica {
                self.log.set_stage(index, Stage::Applied(201));
            } else if runs && !self.passes(&kept.stage) && !self.log.is_void(op) {
                break;
            }
            if voids {
                self.forget_refused(op);
            }
            applied = index;
        }
        self.row_mut(&shared.me).applied = applied;
    }

    /// Requests in a queue stand each for itself.
    fn passes(&self, stage: &Stage) -> bool {
        let ended = matches!(stage, Stage::Refused(_) | Stage::InDoubt);
        stage.is_final() || (self.record.form == Form::Queue && ended)
    }

    /// True if what stands before a delete will not be done.
    pub(super) fn is_blocked(&self, shared: &Shared) -> bool {
        let next = self.log.get(self.row(&shared.me).applied + 1);
        next.is_none_or(|kept| {
            matches!(
                kept.stage,
                Stage::Refused(_) | Stage::InDoubt | Stage::Waiting(_)
            )
        }) || self.record.mend != Mend::Nothing
    }

    /// Every site has refused it: it never was.
    pub(super) fn forget_refused(&mut self, id: crate::ids::OperationId) {
        let index = self
            .log
            .find(id)
            .filter(|kept| !kept.stage.is_final() && !matches!(kept.stage, Stage::Refused(_)))
            .map(|kept| kept.entry.index);
        if let Some(index) = index {
            self.log.set_stage(index, Stage::Void);
        }
        if id.0 == self.record.id.0
            && self
                .record
                .making
                .as_ref()
                .is_some_and(|m| matches!(m.stage, Stage::Refused(_)))
        {
            self.record.making = None;
        }
    }

    /// The entry that said so has lost its position. Whoever has refused it says so again, and it is void again.
    pub(super) fn unvoid(&mut self, id: crate::ids::OperationId, shared: &Shared) {
        let to_run = |kept: &&super::log::Kept| matches!(kept.entry.body, Body::Run(_));
        let Some(kept) = self.log.find(id).filter(to_run) else {
            // A conflict that somebody had resolved is one again.
            return;
        };
        let (index, asked) = (kept.entry.index, kept.stage != Stage::Void);
        if !asked && !self.keeps_a_queue(&shared.me) {
            self.log.set_stage(index, Stage::Queued);
        }
        let row = self.row_mut(&shared.me);
        row.applied = row.applied.min(index - 1);
    }

    /// A delete passes what this replica would not do.
    fn delete_past(&mut self, shared: &mut Shared, out: &mut Output) {
        let delete = |kept: &&super::log::Kept| matches!(&kept.entry.body, Body::Run(op) if op.kind == Kind::Delete);
        let index = self
            .log
            .iter()
            .find(delete)
            .map_or(self.log.last(), |kept| kept.entry.index);
        let knows = match self.log.get(index).map(|kept| &kept.entry.body) {
            Some(Body::Run(op)) => op.knows.clone(),
            _ => Vec::new(),
        };
        self.log.set_stage(index, Stage::Calling);
        let call = self.delete_call(knows, shared);
        self.begin(call, Doing::Bury(index), shared, out);
    }

    pub(super) fn apply_next(&mut self, shared: &mut Shared, out: &mut Output) {
        let mut index = self.row(&shared.me).applied + 1;
        if shared.planted(Bug::SkipOrder)
            && self
                .log
                .get(index + 1)
                .is_some_and(|k| k.stage == Stage::Queued)
        {
            index += 1;
        }
        let Some(kept) = self.log.get(index) else {
            return;
        };
        let Body::Run(op) = &kept.entry.body else {
            return self.log.set_stage(index, Stage::Void);
        };
        let readmitted = kept.entry.readmitted;
        let op = match kept.stage {
            Stage::Queued | Stage::Retrying | Stage::Waiting(_) => op.clone(),
            _ => return,
        };
        let doubtful =
            index <= self.record.doubt_until || (readmitted && self.record.doubt_until > 0);
        if doubtful && !(op.ttl_ms.is_some() && shared.planted(Bug::RunExpiredOnOldDisk)) {
            match (op.kind, op.repeat) {
                (_, Repeat::Safe) | (Kind::Delete, _) => (),
                _ if self.record.form == Form::Queue => {
                    return self.log.set_stage(index, Stage::InDoubt);
                }
                (Kind::Update, _) => {
                    self.record.mend = Mend::Settle;
                    return self.settle(shared, out);
                }
                (Kind::Action, Repeat::Never) => return self.log.set_stage(index, Stage::InDoubt),
                (Kind::Create | Kind::Rescope, _) => (),
            }
        }
        self.log.set_stage(index, Stage::Calling);
        self.mark_unknown(op.fields.keys().cloned().collect());
        let local = self.row(&shared.me).local.clone();
        let call = match (self.record.form, op.kind) {
            (Form::Replica, Kind::Delete) => self.delete_call(op.knows, shared),
            _ => Call::Run { op, local },
        };
        self.begin(call, Doing::Entry(index), shared, out);
    }

    /// What a refusal comes to after the gate has accepted.
    pub(super) fn weigh(
        &mut self,
        index: u64,
        class: Refusal,
        status: u16,
        shared: &Shared,
    ) -> Stage {
        match class {
            // Good enough for the site that accepted it: they have lapsed since.
            Refusal::Verdict if status == Wait::Credentials.status() && self.was_done(index) => {
                self.wait_for(Wait::Credentials, shared)
            }
            Refusal::Verdict | Refusal::Taken | Refusal::Children => Stage::Refused(status),
            Refusal::NoRoom => {
                self.retry_ms = shared.now_ms + NO_ROOM_MS;
                Stage::Waiting(status)
            }
            Refusal::NotReady => {
                let since = *self.refused_since_ms.get_or_insert(shared.now_ms);
                if shared.now_ms >= since + shared.tuning.refuse_after_ms {
                    self.calm();
                    return Stage::Refused(status);
                }
                self.back_off(shared.now_ms, RETRY_MS);
                Stage::Queued
            }
        }
    }

    /// True if some site has done it, as far as is known here.
    fn was_done(&self, index: u64) -> bool {
        let mut rows = self.record.rows.values();
        rows.any(|row| row.applied >= index && row.since < index)
    }

    pub(super) fn entry_outcome(&mut self, index: u64, outcome: Outcome, shared: &mut Shared) {
        let Some(kept) = self.log.get(index) else {
            return;
        };
        let Body::Run(op) = &kept.entry.body else {
            return;
        };
        let (op_kind, doubted) = (op.kind, self.doubted(&kept.entry.body));
        let stage = match outcome {
            Outcome::Applied { status, local, .. } => {
                let wrote = (op_kind, op.fields.clone());
                return self.entry_done(index, wrote, status, local, shared);
            }
            Outcome::Refused { class, status, .. } => self.weigh(index, class, status, shared),
            Outcome::NotSent => {
                self.back_off(shared.now_ms, RETRY_MS);
                Stage::Queued
            }
            Outcome::Waits(why) => self.wait_for(why, shared),
            Outcome::Unknown | Outcome::Found(_) => {
                self.back_off(shared.now_ms, RETRY_MS);
                self.retry_ms = self.retry_ms.max(shared.now_ms + shared.tuning.settle_ms);
                if shared.planted(Bug::RetryTimeout) {
                    Stage::Queued
                } else {
                    doubted
                }
            }
        };
        if op_kind == Kind::Delete && matches!(stage, Stage::Refused(_)) {
            self.retry_ms = shared.now_ms + NO_ROOM_MS;
        }
        self.log.set_stage(index, stage);
        self.walk(shared);
    }

    /// Nothing was called; it is tried again slowly, or when somebody says that it may go on.
    pub(super) fn wait_for(&mut self, why: Wait, shared: &Shared) -> Stage {
        self.retry_ms = shared.now_ms + NO_ROOM_MS;
        Stage::Waiting(why.status())
    }

    /// A delete that passed what this replica would not do.
    pub(super) fn bury_outcome(&mut self, index: u64, outcome: Outcome, shared: &mut Shared) {
        let status = match outcome {
            Outcome::Applied { status, .. } => status,
            Outcome::Refused { status, .. } => {
                self.retry_ms = shared.now_ms + NO_ROOM_MS;
                return self.log.set_stage(index, Stage::Refused(status));
            }
            Outcome::Waits(why) => {
                let stage = self.wait_for(why, shared);
                return self.log.set_stage(index, stage);
            }
            Outcome::NotSent | Outcome::Unknown | Outcome::Found(_) => {
                self.retry_ms = shared.now_ms + shared.tuning.settle_ms;
                return self.log.set_stage(index, Stage::Retrying);
            }
        };
        self.calm();
        self.note_done(&Kind::Delete, &Fields::new(), None, shared);
        self.log.set_stage(index, Stage::Applied(status));
        self.cover(self.log.last(), Cover::Everything);
        self.record.mend = Mend::Nothing;
        self.walk(shared);
    }

    fn entry_done(
        &mut self,
        index: u64,
        (kind, fields): (Kind, Fields),
        status: u16,
        local: Option<String>,
        shared: &mut Shared,
    ) {
        self.calm();
        self.log.set_stage(index, Stage::Applied(status));
        self.note_done(&kind, &fields, local, shared);
        if kind == Kind::Delete && self.record.form == Form::Replica {
            self.cover(index, Cover::Everything);
            self.record.mend = Mend::Nothing;
        }
        self.walk(shared);
    }

    /// Actions do not run late. State does not expire.
    fn expire(&mut self, shared: &Shared) {
        if shared.planted(Bug::RunExpired) {
            return;
        }
        let due: Vec<u64> = self
            .deadlines
            .iter()
            .filter(|(_, at)| **at <= shared.now_ms)
            .map(|(index, _)| *index)
            .collect();
        for index in due {
            let Some(kept) = self.log.get(index) else {
                continue;
            };
            let action = matches!(&kept.entry.body, Body::Run(op) if op.kind == Kind::Action || self.record.form == Form::Queue);
            if action && matches!(kept.stage, Stage::Queued | Stage::Waiting(_)) {
                self.log.set_stage(index, Stage::Expired);
            }
        }
    }

    /// How this replica is, for everybody to see.
    pub(super) fn state(&self, shared: &Shared) -> (ReplicaState, Option<(u64, u16)>) {
        let row = self.row(&shared.me);
        if row.state == ReplicaState::Carrier {
            return (ReplicaState::Carrier, None);
        }
        let next = row.applied + 1;
        if let Some(making) = &self.record.making {
            match making.stage {
                Stage::Refused(status) => return (ReplicaState::Diverged, Some((1, status))),
                Stage::InDoubt => return (ReplicaState::InDoubt, Some((1, 0))),
                Stage::Waiting(status) => return (ReplicaState::Pending, Some((1, status))),
                _ => (),
            }
        }
        let held = match self.log.get(next).map(|kept| &kept.stage) {
            Some(Stage::Refused(status)) => return (ReplicaState::Diverged, Some((next, *status))),
            Some(Stage::InDoubt) => return (ReplicaState::InDoubt, Some((next, 0))),
            Some(Stage::Waiting(status)) => Some((next, *status)),
            _ => None,
        };
        let deleted = self.log.is_deleted() || self.is_to_leave(shared);
        let state = match (&row.local, deleted, self.record.mend) {
            (None, true, _) if row.applied == self.log.last() => ReplicaState::Deleted,
            (None, _, _) => ReplicaState::Pending,
            (Some(_), _, Mend::Skipped) => ReplicaState::Diverged,
            (Some(_), _, Mend::Nothing | Mend::Settle) => ReplicaState::Live,
        };
        (state, held)
    }
}
