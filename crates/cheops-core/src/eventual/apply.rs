//! The applier: brings the local service to where the log says, one call at a time, each on disk before it is made.

use std::collections::BTreeMap;

use super::log::{Body, Stage};
use super::message::ReplicaState;
use super::planted::Bug;
use super::replicant::{Doing, Making, Mend, Recovery, Replicant};
use super::shared::Shared;
use crate::limits::{NO_ROOM_MS, RETRY_MS};
use crate::operation::{DoubtBy, Fields, Form, Found, Kind, Operation, Outcome, Refusal, Repeat};
use crate::output::{Call, Output};

/// In place of a value this agent may or may not have written. No client can write it: values are JSON.
pub(super) const UNKNOWN: &str = "\u{0}unknown";

impl Replicant {
    /// After a start: what was being called may have been executed, and may still be.
    pub(super) fn recover_calls(&mut self, shared: &Shared) {
        let calling = self.log.iter().filter(|kept| kept.stage == Stage::Calling);
        let calling: BTreeMap<u64, Stage> =
            calling.map(|kept| (kept.entry.index, self.doubted(&kept.entry.body))).collect();
        if !calling.is_empty() || self.record.making.is_some() {
            self.retry_ms = shared.now_ms + shared.tuning.settle_ms;
        }
        for (index, stage) in calling {
            self.log.set_stage(index, stage);
        }
        if let Some(making) = &mut self.record.making {
            if making.stage == Stage::Calling {
                making.stage = Stage::InDoubt;
            }
        }
    }

    /// What an entry is after its call may have been executed.
    fn doubted(&self, body: &Body) -> Stage {
        match body {
            Body::Run(op) if op.kind == Kind::Delete || op.repeat == Repeat::Safe => Stage::Queued,
            Body::Run(_) => Stage::InDoubt,
            Body::Park(_) | Body::Void(_) => Stage::Void,
        }
    }

    pub(super) fn apply(&mut self, shared: &mut Shared, out: &mut Output) {
        let idle = self.call.is_none() && self.record.gate.is_none() && self.record.recovery == Recovery::Done;
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
        let deleted = self.log.desired(self.log.last()).deleted;
        let local = self.row(&shared.me).local.is_some();
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
        while let Some(kept) = self.log.get(applied + 1) {
            let made = matches!(&kept.entry.body, Body::Run(op) if op.kind == Kind::Create) && local;
            let (index, body) = (kept.entry.index, kept.entry.body.clone());
            if made && !kept.stage.is_final() && self.record.form == Form::Replica {
                self.log.set_stage(index, Stage::Applied(201));
            } else if !self.passes(&kept.stage) {
                break;
            }
            if let Body::Void(id) = body {
                self.forget_refused(id);
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
    fn is_blocked(&self, shared: &Shared) -> bool {
        let next = self.log.get(self.row(&shared.me).applied + 1);
        next.is_none_or(|kept| matches!(kept.stage, Stage::Refused(_) | Stage::InDoubt | Stage::Waiting(_)))
            || self.record.mend != Mend::Nothing
    }

    /// Every site has refused it: it never was.
    pub(super) fn forget_refused(&mut self, id: crate::ids::OperationId) {
        let index = self.log.find(id).filter(|kept| !kept.stage.is_final()).map(|kept| kept.entry.index);
        if let Some(index) = index {
            self.log.set_stage(index, Stage::Void);
        }
        if id.0 == self.record.id.0 && self.record.making.as_ref().is_some_and(|m| matches!(m.stage, Stage::Refused(_))) {
            self.record.making = None;
        }
    }

    /// Not there yet: make it.
    fn make(&mut self, shared: &mut Shared, out: &mut Output) {
        if self.log.last() == 0 {
            return;
        }
        match self.record.making.as_ref().map(|making| making.stage.clone()) {
            None if self.record.doubt_until > 0 => {
                let fields = self.record.create.as_ref().map(|op| op.fields.clone()).unwrap_or_default();
                self.record.making = Some(Making { fields, upto: 1, stage: Stage::InDoubt });
                self.probe(shared, out);
            }
            None | Some(Stage::Queued | Stage::Waiting(_)) => self.call_create(shared, out),
            Some(Stage::InDoubt) => self.probe(shared, out),
            Some(_) => (),
        }
    }

    fn call_create(&mut self, shared: &mut Shared, out: &mut Output) {
        let Some(op) = self.record.create.clone() else { return };
        let first = self.log.get(self.row(&shared.me).applied + 1);
        let in_turn = first.is_some_and(|kept| kept.entry.body.operation() == op.id);
        let upto = if in_turn && self.record.mend == Mend::Nothing {
            first.map(|kept| kept.entry.index).expect("it is in its turn")
        } else {
            self.log.last()
        };
        let fields = self.log.desired(upto).fields;
        self.record.making = Some(Making { fields: fields.clone(), upto, stage: Stage::Calling });
        let call = Call::Create { op, fields };
        let id = shared.call(self.record.id, &self.record.service, call, out);
        self.call = Some((id, Doing::Make));
    }

    fn probe(&mut self, shared: &mut Shared, out: &mut Output) {
        let (Some(op), Some(making)) = (self.record.create.clone(), &self.record.making) else { return };
        if self.record.doubt == DoubtBy::Nothing {
            return;
        }
        let mut fields = making.fields.clone();
        if self.record.doubt_until > 0 {
            // This disk does not know with what it was made: what clients never changed must be there.
            let desired = self.log.desired(self.log.last()).fields;
            fields = op.fields.clone();
            fields.retain(|field, value| desired.get(field) == Some(value));
        }
        if fields.is_empty() && self.record.doubt == DoubtBy::Match {
            return;
        }
        let call = Call::Probe { how: self.record.doubt, fields, op };
        let id = shared.call(self.record.id, &self.record.service, call, out);
        self.call = Some((id, Doing::MakeProbe));
    }

    /// Deleted, and nothing is there; unless a create is in doubt, which is looked into first.
    fn bury(&mut self, shared: &mut Shared, out: &mut Output) {
        let doubtful = self.record.doubt_until > 0 && self.record.create.is_some();
        match &self.record.making {
            Some(making) if matches!(making.stage, Stage::InDoubt | Stage::Calling) => self.probe(shared, out),
            None if doubtful => self.make(shared, out),
            _ => {
                self.record.making = None;
                self.cover(self.log.last(), Cover::Everything);
                self.record.mend = Mend::Nothing;
                self.walk(shared);
            }
        }
    }

    /// A delete passes what this replica would not do.
    fn delete_past(&mut self, shared: &mut Shared, out: &mut Output) {
        let delete = |kept: &&super::log::Kept| matches!(&kept.entry.body, Body::Run(op) if op.kind == Kind::Delete);
        let index = self.log.iter().find(delete).map_or(self.log.last(), |kept| kept.entry.index);
        self.log.set_stage(index, Stage::Calling);
        let call = self.delete_call(shared);
        let id = shared.call(self.record.id, &self.record.service, call, out);
        self.call = Some((id, Doing::Bury(index)));
    }

    fn apply_next(&mut self, shared: &mut Shared, out: &mut Output) {
        let mut index = self.row(&shared.me).applied + 1;
        if shared.planted(Bug::SkipOrder) && self.log.get(index + 1).is_some_and(|k| k.stage == Stage::Queued) {
            index += 1;
        }
        let Some(kept) = self.log.get(index) else { return };
        let Body::Run(op) = kept.entry.body.clone() else {
            return self.log.set_stage(index, Stage::Void);
        };
        match kept.stage {
            Stage::Queued | Stage::Waiting(_) => (),
            _ => return,
        }
        if index <= self.record.doubt_until {
            match (op.kind, op.repeat) {
                (_, Repeat::Safe) | (Kind::Delete, _) => (),
                _ if self.record.form == Form::Queue => return self.log.set_stage(index, Stage::InDoubt),
                (Kind::Update, _) => {
                    self.record.mend = Mend::Settle;
                    return self.settle(shared, out);
                }
                (Kind::Action, Repeat::Never) => return self.log.set_stage(index, Stage::InDoubt),
                (Kind::Create, _) => (),
            }
        }
        self.log.set_stage(index, Stage::Calling);
        self.mark_unknown(op.fields.keys().cloned().collect());
        let local = self.row(&shared.me).local.clone();
        let call = match (self.record.form, op.kind) {
            (Form::Replica, Kind::Delete) => self.delete_call(shared),
            _ => Call::Run { op, local },
        };
        let id = shared.call(self.record.id, &self.record.service, call, out);
        self.call = Some((id, Doing::Entry(index)));
    }

    /// Brings the service to the desired representation. Writes only what differs, never deletes.
    fn settle(&mut self, shared: &mut Shared, out: &mut Output) {
        let upto = self.log.last();
        if !self.leads(&shared.me) && upto < self.leader_last {
            return;
        }
        let desired = self.log.desired(upto).fields;
        let written = &self.record.written;
        let differs = |(field, value): &(&String, &String)| written.get(*field) != Some(*value);
        let fields: Fields = desired.iter().filter(differs).map(|(f, v)| (f.clone(), v.clone())).collect();
        let unset: Vec<String> = written.keys().filter(|field| !desired.contains_key(*field)).cloned().collect();
        if fields.is_empty() && unset.is_empty() || shared.planted(Bug::SkipSettleAfterFork) {
            return self.settled(upto, shared);
        }
        let local = self.row(&shared.me).local.clone().expect("only what is there is settled");
        self.mark_unknown(fields.keys().chain(&unset).cloned().collect());
        let call = Call::Settle { local, fields: fields.clone(), unset: unset.clone() };
        let id = shared.call(self.record.id, &self.record.service, call, out);
        self.call = Some((id, Doing::Settle { upto, fields, unset }));
    }

    /// Before a call that writes: whatever comes of it, what is there is not known until it has answered.
    pub(super) fn mark_unknown(&mut self, fields: Vec<String>) {
        if self.record.form == Form::Replica {
            self.record.written.extend(fields.into_iter().map(|field| (field, UNKNOWN.to_string())));
        }
    }

    fn settled(&mut self, upto: u64, shared: &Shared) {
        if upto == self.log.last() {
            self.record.mend = Mend::Nothing;
        }
        self.cover(upto, Cover::State);
        self.walk(shared);
        self.woken = true;
    }

    fn cover(&mut self, upto: u64, what: Cover) {
        let open = self.log.iter().filter(|kept| kept.entry.index <= upto && !kept.stage.is_final());
        let state = |body: &Body| matches!(body, Body::Run(op) if matches!(op.kind, Kind::Create | Kind::Update));
        let covered = open.filter(|kept| what == Cover::Everything || state(&kept.entry.body));
        for index in covered.map(|kept| kept.entry.index).collect::<Vec<_>>() {
            self.log.set_stage(index, Stage::Covered);
        }
    }

    pub(super) fn make_outcome(&mut self, outcome: Outcome, shared: &mut Shared) {
        let now_ms = shared.now_ms;
        let making = self.record.making.clone().expect("a create is on disk before it is called");
        let stage = match outcome {
            Outcome::Applied { local, .. } => return self.made(making, local, shared),
            Outcome::Refused { class, status, .. } => self.weigh(class, status, shared),
            Outcome::NotSent => {
                self.back_off(now_ms, RETRY_MS);
                Stage::Queued
            }
            Outcome::Unknown | Outcome::Found(_) if shared.planted(Bug::RetryTimeout) => Stage::Queued,
            Outcome::Unknown | Outcome::Found(_) => {
                self.retry_ms = now_ms + shared.tuning.settle_ms;
                Stage::InDoubt
            }
        };
        self.record.making = Some(Making { stage, ..making });
    }

    fn made(&mut self, making: Making, local: Option<String>, shared: &mut Shared) {
        self.calm();
        self.note_done(&Kind::Create, &making.fields, local, shared);
        self.cover(making.upto, Cover::State);
        self.walk(shared);
    }

    pub(super) fn make_probed(&mut self, outcome: Outcome, shared: &mut Shared) {
        let making = self.record.making.clone().expect("only doubt is looked into");
        match outcome {
            Outcome::Found(Found::Ours(local)) => {
                self.record.matched = self.record.doubt == DoubtBy::Match;
                self.made(making, Some(local), shared);
                if self.record.doubt_until > 0 {
                    // What was written since the backup is not known.
                    self.record.written.clear();
                    self.record.mend = Mend::Settle;
                }
            }
            Outcome::Found(Found::None) if self.is_certainly_none(shared) => {
                self.calm();
                self.record.doubt_until = 0;
                self.record.making = None;
            }
            Outcome::Found(Found::None) => self.look_again(shared),
            Outcome::Found(Found::Several) => self.back_off(shared.now_ms, (60_000, 600_000)),
            _ => self.back_off(shared.now_ms, RETRY_MS),
        }
    }

    /// What a refusal comes to after the gate has accepted.
    fn weigh(&mut self, class: Refusal, status: u16, shared: &Shared) -> Stage {
        match class {
            Refusal::Verdict => Stage::Refused(status),
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

    pub(super) fn entry_outcome(&mut self, index: u64, outcome: Outcome, shared: &mut Shared) {
        let Some(kept) = self.log.get(index) else { return };
        let Body::Run(op) = kept.entry.body.clone() else { return };
        let op_kind = op.kind;
        let stage = match outcome {
            Outcome::Applied { status, local, .. } => return self.entry_done(index, &op, status, local, shared),
            Outcome::Refused { class, status, .. } => self.weigh(class, status, shared),
            Outcome::NotSent => {
                self.back_off(shared.now_ms, RETRY_MS);
                Stage::Queued
            }
            Outcome::Unknown | Outcome::Found(_) => {
                self.back_off(shared.now_ms, RETRY_MS);
                self.retry_ms = self.retry_ms.max(shared.now_ms + shared.tuning.settle_ms);
                let stage = self.doubted(&Body::Run(op));
                if shared.planted(Bug::RetryTimeout) { Stage::Queued } else { stage }
            }
        };
        if op_kind == Kind::Delete && matches!(stage, Stage::Refused(_)) {
            self.retry_ms = shared.now_ms + NO_ROOM_MS;
        }
        self.log.set_stage(index, stage);
        self.walk(shared);
    }

    /// A delete that passed what this replica would not do.
    pub(super) fn bury_outcome(&mut self, index: u64, outcome: Outcome, shared: &mut Shared) {
        let Outcome::Applied { status, .. } = outcome else {
            self.retry_ms = shared.now_ms + shared.tuning.settle_ms;
            return self.log.set_stage(index, Stage::Queued);
        };
        self.calm();
        self.note_done(&Kind::Delete, &Fields::new(), None, shared);
        self.log.set_stage(index, Stage::Applied(status));
        self.cover(self.log.last(), Cover::Everything);
        self.record.mend = Mend::Nothing;
        self.walk(shared);
    }

    fn entry_done(&mut self, index: u64, op: &Operation, status: u16, local: Option<String>, shared: &mut Shared) {
        self.calm();
        self.log.set_stage(index, Stage::Applied(status));
        self.note_done(&op.kind, &op.fields, local, shared);
        if op.kind == Kind::Delete && self.record.form == Form::Replica {
            self.cover(index, Cover::Everything);
            self.record.mend = Mend::Nothing;
        }
        self.walk(shared);
    }

    pub(super) fn settle_outcome(&mut self, doing: (u64, Fields, Vec<String>), outcome: Outcome, shared: &mut Shared) {
        let (upto, fields, unset) = doing;
        match outcome {
            Outcome::Applied { .. } => {
                self.calm();
                self.record.written.extend(fields);
                self.record.written.retain(|field, _| !unset.contains(field));
                self.settled(upto, shared);
            }
            Outcome::Refused { class: Refusal::Verdict, status, .. } => {
                self.record.mend = Mend::Skipped;
                let next = self.row(&shared.me).applied + 1;
                if self.log.get(next).is_some_and(|kept| kept.stage == Stage::Queued) {
                    self.log.set_stage(next, Stage::Refused(status));
                }
            }
            Outcome::Refused { class: Refusal::NoRoom, .. } => self.retry_ms = shared.now_ms + NO_ROOM_MS,
            Outcome::Refused { class: Refusal::NotReady, .. } | Outcome::NotSent => {
                self.back_off(shared.now_ms, RETRY_MS);
            }
            Outcome::Unknown | Outcome::Found(_) => {
                self.back_off(shared.now_ms, RETRY_MS);
                self.retry_ms = self.retry_ms.max(shared.now_ms + shared.tuning.settle_ms);
            }
        }
    }

    /// Actions do not run late. State does not expire.
    fn expire(&mut self, shared: &Shared) {
        if shared.planted(Bug::RunExpired) {
            return;
        }
        let due: Vec<u64> =
            self.deadlines.iter().filter(|(_, at)| **at <= shared.now_ms).map(|(index, _)| *index).collect();
        for index in due {
            let Some(kept) = self.log.get(index) else { continue };
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
        let deleted = self.log.desired(self.log.last()).deleted;
        let state = match (&row.local, deleted, self.record.mend) {
            (None, true, _) if row.applied == self.log.last() => ReplicaState::Deleted,
            (None, _, _) => ReplicaState::Pending,
            (Some(_), _, Mend::Skipped) => ReplicaState::Diverged,
            (Some(_), _, Mend::Nothing | Mend::Settle) => ReplicaState::Live,
        };
        (state, held)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cover {
    /// What clients wrote.
    State,
    Everything,
}
