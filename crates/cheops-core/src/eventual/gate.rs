//! The gate: the leader's own service says whether a request is acceptable, before it gets a position.
//!
//! Where it cannot say (down, no room, in doubt for good, behind), the request is released: it gets its position,
//! every site tries, and the first success is the answer.

use super::log::{Body, Stage};
use super::planted::Bug;
use super::replicant::{Doing, Gate, Making, Replicant};
use super::shared::Shared;
use crate::ids::{ReplicantId, Shape};
use crate::limits::{NO_ROOM_MS, RETRY_MS};
use crate::operation::{
    Answer, DoubtBy, Fields, Form, Found, Kind, Naming, Operation, Outcome, Problem, Refusal,
    Repeat,
};
use crate::output::{Call, Output};

/// What remains of the replicant after an outcome.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stays,
    /// It was never made.
    NeverWas,
}

impl Replicant {
    /// Lets requests through, one after the other. They are on disk before the service hears of them.
    pub(super) fn open_gate(&mut self, shared: &mut Shared, out: &mut Output) {
        while self.record.gate.is_none() && self.call.is_none() {
            let Some(next) = self.pending.front_mut() else {
                self.pending_until.clear();
                return;
            };
            let (id, digest) = (next.op.id, next.op.digest);
            if let Some(until) = self.pending_until.get(&id) {
                next.op.ttl_ms = Some(until.saturating_sub(shared.now_ms));
                // No site was called: whatever it is, it is given up as a whole.
                let ran = self.record.ran.contains_key(&id);
                if *until <= shared.now_ms && !ran && !shared.planted(Bug::RunExpired) {
                    self.pending.pop_front();
                    shared.conclude(id, digest, Answer::Cancelled, out);
                    continue;
                }
            }
            let next = self.pending.front().expect("it was just seen");
            if self.record.handover == crate::operation::Handover::Auto && !self.has_lease(shared) {
                self.pending.pop_front();
                shared.void(id, digest, Problem::NoLease, out);
                continue;
            }
            if self.log.last() == 0 && next.op.kind != Kind::Create {
                // What was to make it was given up.
                self.pending.pop_front();
                shared.void(id, digest, Problem::TooLate, out);
                continue;
            }
            if self.log.is_deleted() || (self.log.last() > 0 && next.op.kind == Kind::Create) {
                self.pending.pop_front();
                shared.conclude(id, digest, Answer::Gone, out);
                continue;
            }
            let expected = next.op.expects.as_ref();
            if expected.is_some_and(|expected| Some(expected) != self.end().as_ref()) {
                self.pending.pop_front();
                shared.conclude(id, digest, Answer::PreconditionFailed, out);
                continue;
            }
            if self.log.find(id).is_some() {
                // It came with the log of another leader; whoever waits hears when it is done.
                self.pending.pop_front();
                continue;
            }
            if let Some(answer) = shared.folded_answer(self.record.id, id) {
                // The same, and that log has folded it.
                self.pending.pop_front();
                shared.conclude(id, digest, answer, out);
                continue;
            }
            if next.op.kind == Kind::Rescope {
                let next = self.pending.pop_front().expect("it was in front");
                self.rescope(next.op, shared, out);
                continue;
            }
            let adopted = match &next.naming {
                Naming::Adopted(local) | Naming::Kept(local) => Some(local.clone()),
                Naming::Minted | Naming::Chosen(_) => None,
            };
            if let (Kind::Create, Some(local)) = (next.op.kind, adopted) {
                let local = Some(local);
                let next = self.pending.pop_front().expect("it was in front");
                self.pass(next.op, 200, local, Vec::new(), shared, out);
                continue;
            }
            if let Some(ran) = self.record.ran.remove(&id) {
                // It was called here while it had another position, or on a disk that is no more.
                let next = self.pending.pop_front().expect("it was in front");
                let body = Body::Run(next.op);
                let stage = self.rejoin(&body, ran);
                self.append(body, stage, shared, out);
                continue;
            }
            if !self.is_current(shared) {
                if !self.is_stuck(shared) {
                    return;
                }
                let next = self.pending.pop_front().expect("it was in front");
                if shared.streaming.contains(&id) {
                    // Without its content it cannot be released.
                    shared.void(id, digest, Problem::Busy, out);
                    continue;
                }
                self.append(Body::Run(next.op), Stage::Queued, shared, out);
                continue;
            }
            let next = self.pending.pop_front().expect("it was in front");
            self.ask_gate(next.op, shared, out);
        }
    }

    /// What was released, or came with another's log, is answered when it is done here.
    pub(super) fn answer_done(&self, shared: &mut Shared, out: &mut Output) {
        if self.was_never_made() {
            // Another's log may still lose the entry that says so.
            if self.leads(&shared.me) {
                self.tell_never_made(shared, out);
            }
            return;
        }
        let applied = self.row(&shared.me).applied;
        let done: Vec<_> = self
            .log
            .iter()
            .filter(|kept| kept.entry.index <= applied)
            .filter(|kept| shared.waiters.contains_key(&kept.entry.body.operation()))
            .filter_map(|kept| match (&kept.entry.body, &kept.stage) {
                (Body::Run(op), Stage::Applied(status)) => Some((op.id, op.digest, *status)),
                (Body::Run(op), Stage::Covered) if op.kind == Kind::Create => {
                    Some((op.id, op.digest, 201))
                }
                (Body::Run(op), Stage::Covered) => Some((op.id, op.digest, 200)),
                _ => None,
            })
            .collect();
        for (id, digest, status) in done {
            let meta = self.record.meta.clone();
            let body = Vec::new();
            shared.conclude(id, digest, Answer::Service { status, body, meta }, out);
        }
    }

    /// True if the next request need not wait any longer.
    pub(super) fn is_gate_open(&self, shared: &Shared) -> bool {
        let free = self.record.gate.is_none() && self.call.is_none();
        free && !self.pending.is_empty() && self.leads(&shared.me) && self.is_current(shared)
    }

    fn is_current(&self, shared: &Shared) -> bool {
        let row = self.row(&shared.me);
        let made = row.local.is_some() || self.log.last() == 0;
        made && row.applied == self.log.last()
            && self.record.mend == super::replicant::Mend::Nothing
    }

    fn is_stuck(&self, shared: &Shared) -> bool {
        let stuck = |stage: &Stage| {
            matches!(
                stage,
                Stage::Waiting(_) | Stage::InDoubt | Stage::Refused(_)
            )
        };
        let row = self.row(&shared.me);
        let next = self.log.get(row.applied + 1);
        // Who has to tell whether it was made here may be away for long.
        let untold = row.local.is_none() && self.may_be_told(shared);
        untold
            || self.retry_ms > shared.now_ms
            || self
                .record
                .making
                .as_ref()
                .is_some_and(|making| stuck(&making.stage))
            || next.is_some_and(|kept| stuck(&kept.stage))
            || self.record.mend != super::replicant::Mend::Nothing
    }

    pub(super) fn ask_gate(&mut self, op: Operation, shared: &mut Shared, out: &mut Output) {
        let call = match op.kind {
            Kind::Create => Call::Create {
                fields: op.fields.clone(),
                op: op.clone(),
            },
            Kind::Update | Kind::Action => Call::Run {
                local: self.row(&shared.me).local.clone(),
                op: op.clone(),
            },
            Kind::Delete => self.delete_call(op.knows.clone(), shared),
            Kind::Rescope => unreachable!("no service is asked where a resource lives"),
        };
        if shared.planted(Bug::AnswerEarly) {
            let meta = self.record.meta.clone();
            shared.conclude(
                op.id,
                op.digest,
                Answer::Service {
                    status: 200,
                    body: Vec::new(),
                    meta,
                },
                out,
            );
        }
        if op.kind == Kind::Update {
            self.mark_unknown(op.fields.keys().cloned().collect());
        }
        let stage = shared.first_stage_at_gate(op.id);
        self.record.gate = Some(Gate { op, stage });
        self.begin(call, Doing::Gate, shared, out);
    }

    pub(super) fn delete_call(&self, knows: Vec<ReplicantId>, shared: &Shared) -> Call {
        let local = self
            .row(&shared.me)
            .local
            .clone()
            .expect("there is something to delete");
        let only_if = self.record.matched.then(|| self.known_fields());
        Call::Delete {
            local,
            only_if,
            knows,
        }
    }

    fn known_fields(&self) -> Fields {
        let known = |(_, value): &(&String, &String)| *value != super::apply::UNKNOWN;
        self.record
            .written
            .iter()
            .filter(known)
            .map(|(f, v)| (f.clone(), v.clone()))
            .collect()
    }

    /// The agent stopped while its service was asked.
    pub(super) fn recover_gate(&mut self, shared: &mut Shared, out: &mut Output) {
        let Some(gate) = &mut self.record.gate else {
            return;
        };
        if gate.stage == Stage::Streaming {
            // Its content never came to its end, so the service cannot have done it.
            self.record.gate = None;
            return;
        }
        // What was sent may still be executed.
        self.retry_ms = shared.now_ms + shared.tuning.settle_ms;
        match (gate.op.kind, gate.op.repeat, self.record.doubt) {
            (Kind::Delete, _, _) | (_, Repeat::Safe, _) => {
                self.release(Stage::Retrying, shared, out)
            }
            (Kind::Create, Repeat::Never, DoubtBy::Mark | DoubtBy::Match) => {
                gate.stage = Stage::InDoubt
            }
            (_, Repeat::Never, _) => self.release(Stage::InDoubt, shared, out),
        }
    }

    /// Doubt at the gate is looked into before anybody else is bothered.
    pub(super) fn probe_gate(&mut self, shared: &mut Shared, out: &mut Output) {
        let Some(gate) = &self.record.gate else {
            return;
        };
        if self.call.is_some() || self.retry_ms > shared.now_ms || gate.stage != Stage::InDoubt {
            return;
        }
        let op = gate.op.clone();
        let call = Call::Probe {
            how: self.record.doubt,
            fields: op.fields.clone(),
            op,
        };
        self.begin(call, Doing::GateProbe, shared, out);
    }

    pub(super) fn gate_outcome(
        &mut self,
        outcome: Outcome,
        shared: &mut Shared,
        out: &mut Output,
    ) -> Fate {
        let gate = self
            .record
            .gate
            .as_ref()
            .expect("an outcome of the gate comes while it is closed");
        let (op, now_ms) = (gate.op.clone(), shared.now_ms);
        if gate.stage == Stage::Streaming && !matches!(outcome, Outcome::Refused { .. }) {
            return self.break_off(op, shared, out);
        }
        match outcome {
            Outcome::Applied {
                status,
                local,
                body,
            } => self.pass(op, status, local, body, shared, out),
            Outcome::Refused {
                class:
                    class @ (Refusal::Verdict | Refusal::NotReady | Refusal::Taken | Refusal::Children),
                status,
                body,
            } => {
                if shared.planted(Bug::VerdictGoesOn) {
                    self.release(Stage::Refused(status), shared, out);
                }
                self.record.gate = None;
                let meta = self.record.meta.clone();
                let answer = match class {
                    Refusal::Taken => Answer::IdTaken,
                    Refusal::Children => Answer::Conflict,
                    _ => Answer::Service { status, body, meta },
                };
                shared.refuse(op.id, op.digest, answer, out);
                if self.log.last() == 0 && self.leads(&shared.me) {
                    return Fate::NeverWas;
                }
            }
            Outcome::Refused {
                class: Refusal::NoRoom,
                ..
            } if gate.stage == Stage::Streaming => return self.break_off(op, shared, out),
            Outcome::Refused {
                class: Refusal::NoRoom,
                status,
                ..
            } => {
                self.retry_ms = now_ms + NO_ROOM_MS;
                self.release(Stage::Waiting(status), shared, out);
            }
            Outcome::NotSent => {
                self.back_off(now_ms, RETRY_MS);
                self.release(Stage::Queued, shared, out);
            }
            Outcome::Waits(why) => {
                self.retry_ms = now_ms + NO_ROOM_MS;
                self.release(Stage::Waiting(why.status()), shared, out);
            }
            Outcome::Unknown | Outcome::Found(_) => {
                if shared.planted(Bug::RetryTimeout) {
                    self.release(Stage::Queued, shared, out);
                } else {
                    self.recover_gate(shared, out);
                }
            }
        }
        Fate::Stays
    }

    pub(super) fn gate_probed(&mut self, outcome: Outcome, shared: &mut Shared, out: &mut Output) {
        let gate = self
            .record
            .gate
            .as_ref()
            .expect("an outcome of the gate comes while it is closed");
        let op = gate.op.clone();
        match outcome {
            Outcome::Found(Found::Ours(local)) => {
                self.record.matched = self.record.doubt == DoubtBy::Match;
                self.pass(op, 201, Some(local), Vec::new(), shared, out);
                if self.record.doubt_until > 0 {
                    // What was written since the backup is not known.
                    self.record.written.clear();
                    self.record.mend = super::replicant::Mend::Settle;
                }
            }
            Outcome::Found(Found::None) if self.is_certainly_none(shared) => {
                self.calm();
                self.ask_gate(op, shared, out);
            }
            Outcome::Found(Found::None) => self.look_again(shared),
            _ => self.release(Stage::InDoubt, shared, out),
        }
    }

    /// Seen twice, a settle time apart.
    pub(super) fn is_certainly_none(&self, shared: &Shared) -> bool {
        let apart = |seen_ms: u64| shared.now_ms >= seen_ms + shared.tuning.settle_ms;
        self.none_seen_ms.is_some_and(apart) || shared.planted(Bug::CallAgainAfterOneLook)
    }

    pub(super) fn look_again(&mut self, shared: &Shared) {
        self.none_seen_ms.get_or_insert(shared.now_ms);
        self.retry_ms = shared.now_ms + shared.tuning.settle_ms;
    }

    /// Accepted and done here: outcome, local id and position in one write, then the answer.
    fn pass(
        &mut self,
        op: Operation,
        status: u16,
        local: Option<String>,
        body: Vec<u8>,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        self.record.gate = None;
        self.calm();
        let (id, digest) = (op.id, op.digest);
        self.note_done(&op.kind, &op.fields, local, shared);
        if self.leads(&shared.me) {
            self.append(Body::Run(op), Stage::Applied(status), shared, out);
        } else {
            // Deposed meanwhile. It is done and will be acknowledged, so it goes to whoever leads.
            self.unseat(op, Stage::Applied(status), self.log.last(), shared, out);
        }
        let answer = Answer::Service {
            status,
            body,
            meta: self.record.meta.clone(),
        };
        shared.conclude(id, digest, answer, out);
    }

    /// Gives a position to what the gate could not decide.
    pub(super) fn release(&mut self, stage: Stage, shared: &mut Shared, out: &mut Output) {
        let Some(gate) = self.record.gate.take() else {
            return;
        };
        let stage = match gate.op.kind {
            // Whether it exists here is not the entry's business: entries of others come and go, this stays.
            Kind::Create => {
                let fields = gate.op.fields.clone();
                self.record.making = Some(Making {
                    fields,
                    upto: 1,
                    stage,
                });
                Stage::Queued
            }
            Kind::Update | Kind::Delete | Kind::Action | Kind::Rescope => stage,
        };
        if self.leads(&shared.me) {
            self.append(Body::Run(gate.op), stage, shared, out);
        } else {
            // Deposed while its service was asked: nobody has answered for it, and it may have been done.
            self.unseat(gate.op, stage, self.log.last(), shared, out);
        }
    }

    /// What this agent knows to be at its service now.
    pub(super) fn note_done(
        &mut self,
        kind: &Kind,
        fields: &Fields,
        local: Option<String>,
        shared: &Shared,
    ) {
        if self.record.form == Form::Queue {
            return;
        }
        match kind {
            Kind::Create => {
                // Where the client chose the name, there is only one.
                let local = local
                    .or_else(|| self.record.meta.clone())
                    .unwrap_or_default();
                if self.record.meta.is_none() {
                    self.record.meta = Some(shared.key.meta_id(self.record.id, Shape::of(&local)));
                }
                self.row_mut(&shared.me).local = Some(local);
                self.record.written = fields.clone();
                self.record.making = None;
            }
            Kind::Update => self.record.written.extend(fields.clone()),
            Kind::Delete => {
                self.row_mut(&shared.me).local = None;
                self.record.written.clear();
            }
            Kind::Action | Kind::Rescope => (),
        }
    }
}
