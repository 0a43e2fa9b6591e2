//! What this site has taken and somebody else must order: requests accepted with 202, and what a deposed leader
//! had acknowledged. Kept on disk until it stands in a log, or has an answer.

use cheops_model::SiteName;

use super::log::{Body, Entry, Stage};
use super::message::Message;
use super::planted::Bug;
use super::replicant::{Recovery, Replicant};
use super::shared::{Asker, OutboxRecord, Shared, Timer, Waiter};
use super::site::Site;
use crate::ids::{Epoch, OperationId};
use crate::limits::{OUTBOX_MAX, PENDING_MAX, RESEND_MS};
use crate::operation::{Answer, Form, Kind, Mode, Naming, Operation, Problem, Submission};
use crate::output::{ClientId, Output};
use crate::record::{Table, encode, key_of};

impl Site {
    /// Offers everything to whoever leads now.
    pub(super) fn pump_outbox(&mut self, out: &mut Output) {
        if self.shared.outbox.is_empty() {
            return;
        }
        let ids: Vec<OperationId> = self.shared.outbox.keys().copied().collect();
        for id in ids {
            let mut kept = self.shared.outbox[&id].clone();
            if let Some(until) = self.shared.outbox_until.get(&id) {
                // What is left of its time; whoever orders it, or has ordered it, decides.
                kept.submission.op.ttl_ms = Some(until.saturating_sub(self.shared.now_ms));
            }
            match kept.fork {
                Some(fork) => self.offer_again(kept.submission.op, fork, out),
                None => self.offer(kept.submission, out),
            }
        }
        self.shared
            .arm_no_later(Timer::Outbox, self.shared.now_ms + RESEND_MS.1 / 2);
    }

    fn offer(&mut self, submission: Submission, out: &mut Output) {
        let (id, me) = (submission.op.replicant, self.shared.me.clone());
        let answered = self.has_answer(submission.op.id);
        let recovering = self.may_have_made(&submission);
        match self.replicants.get_mut(&id) {
            Some(replicant) if replicant.leads(&me) => {
                let op = submission.op.id;
                if self.shared.folded_answer(id, op).is_some() {
                    return self.shared.drop_outbox(op, out);
                }
                let known = replicant.operations().contains(&op)
                    || replicant.has_parked(op)
                    || replicant.pending.iter().any(|p| p.op.id == op);
                if !known && replicant.pending.len() < PENDING_MAX {
                    replicant.admit(submission, self.shared.now_ms);
                    self.shared.touched.insert(id);
                }
            }
            // What a removed site had not sent stays with it, for a person to see.
            Some(replicant) if replicant.record.recovery == Recovery::Stranded => (),
            Some(replicant) => {
                let epoch = replicant.record.epoch.clone();
                if epoch.site != me {
                    let to = epoch.site.clone();
                    if self.shared.planted(Bug::LoseTaken) {
                        self.shared.drop_outbox(submission.op.id, out);
                    }
                    self.shared.send(
                        &to,
                        Message::Submit {
                            submission,
                            epoch: Some(epoch),
                        },
                        out,
                    );
                }
            }
            None if submission.op.kind == Kind::Create && !answered && recovering => (),
            None if submission.op.kind == Kind::Create && !answered => {
                let mut replicant = Replicant::conceive(&submission, id, &self.shared);
                replicant.pending.push_back(submission);
                self.replicants.insert(id, replicant);
                self.shared.touched.insert(id);
            }
            // Deleted everywhere, and the tombstone is gone too.
            None => self
                .shared
                .conclude(submission.op.id, submission.op.digest, Answer::Gone, out),
        }
    }

    fn has_answer(&self, op: OperationId) -> bool {
        self.shared.answers.is_answered(op)
    }

    fn offer_again(&mut self, op: Operation, fork: u64, out: &mut Output) {
        let (id, me) = (op.replicant, self.shared.me.clone());
        let Some(replicant) = self.replicants.get_mut(&id) else {
            return self.shared.drop_outbox(op.id, out);
        };
        let epoch = replicant.record.epoch.clone();
        let folded = self.shared.folded_answer(id, op.id).is_some();
        if folded || replicant.log.find(op.id).is_some() {
            return self.shared.drop_outbox(op.id, out);
        }
        if replicant.record.recovery == Recovery::Stranded {
            return;
        }
        if replicant.leads(&me) {
            replicant.readmit(op, fork, &mut self.shared, out);
            self.shared.touched.insert(id);
        } else if epoch.site != me {
            let to = epoch.site.clone();
            self.shared
                .send(&to, Message::Resubmit { op, fork, epoch }, out);
        }
    }

    pub(super) fn outbox_answered(
        &mut self,
        from: &SiteName,
        op: OperationId,
        answer: &Answer,
        out: &mut Output,
    ) {
        let Some(kept) = self.shared.outbox.get_mut(&op) else {
            return;
        };
        let leader = self
            .replicants
            .held(kept.submission.op.replicant)
            .map(|r| r.record.epoch.site.clone());
        if leader.as_ref() != Some(from) {
            return;
        }
        if kept.fork.is_some() {
            // It stands in the log, or stood there.
            return self.shared.drop_outbox(op, out);
        }
        match answer {
            Answer::Unavailable(_) => {
                // That try is void for ever: the next is another one.
                kept.submission.attempt = kept.submission.attempt.wrapping_add(1);
                out.write(Table::Outbox, key_of(op.0), Some(encode(kept)));
            }
            Answer::OutcomeUnknown | Answer::Accepted => (),
            answer => {
                let digest = kept.submission.op.digest;
                self.shared.conclude(op, digest, answer.clone(), out);
            }
        }
    }

    /// A request for one other site, kept until it can be brought there.
    pub(super) fn enqueue(
        &mut self,
        client: ClientId,
        mut submission: Submission,
        out: &mut Output,
    ) {
        let target = submission
            .sites
            .first()
            .filter(|target| **target != self.shared.me)
            .cloned();
        let asker = Asker::Client(client);
        let waiter = |deadline_ms| Waiter {
            asker,
            attempt: submission.attempt,
            digest: submission.op.digest,
            deadline_ms,
        };
        let (op, digest) = (submission.op.id, submission.op.digest);
        let Some(target) = target else {
            let waiter = waiter(self.shared.now_ms);
            return self
                .shared
                .void_one(op, digest, waiter, Problem::SiteUnreachable, out);
        };
        let waiter = waiter(match submission.mode {
            Mode::Wait(ms) => self.shared.now_ms + ms,
            Mode::Async => self.shared.now_ms,
        });
        if let Some(record) = self.shared.answers.get(op) {
            let answer = if record.digest == digest {
                record.answer
            } else {
                Some(Answer::KeyReused)
            };
            if let Some(answer) = answer {
                return self.shared.tell(op, waiter, answer, out);
            }
        }
        let place = self.place_of(op);
        let queue = place.filter(|place| place.record.form == Form::Queue);
        let given_up = queue.is_some_and(|queue| queue.has_withdrawn(op, &self.shared.me));
        if let Some(known) = queue.and_then(|queue| queue.digest_of(op)) {
            // Perhaps in a queue of an earlier disk.
            return match submission.mode {
                _ if known != digest => self.shared.tell(op, waiter, Answer::KeyReused, out),
                _ if given_up => self.shared.tell(op, waiter, Answer::Cancelled, out),
                Mode::Async => self.shared.tell(op, waiter, Answer::Accepted, out),
                Mode::Wait(_) => self.shared.wait(op, waiter),
            };
        }
        let (me, service) = (&self.shared.me, &submission.service);
        let incarnation = self.shared.boot.incarnation;
        let id = self.shared.key.queue_of(me, &target, service, incarnation);
        submission.op.replicant = id;
        let shared = &mut self.shared;
        let queue = self
            .replicants
            .get_or_insert_with(id, || Replicant::conceive(&submission, id, shared));
        let problem = match queue.leads(&shared.me) {
            false => Some(Problem::Recovering),
            true => {
                let full = queue.log.len() >= OUTBOX_MAX || shared.is_full();
                full.then_some(Problem::Busy)
            }
        };
        if let Some(problem) = problem {
            return shared.void_one(op, digest, waiter, problem, out);
        }
        if queue.log.find(op).is_none() {
            queue.append(Body::Run(submission.op.clone()), Stage::Queued, shared, out);
        }
        shared.touched.insert(id);
        match submission.mode {
            Mode::Async => shared.tell(op, waiter, Answer::Accepted, out),
            Mode::Wait(_) => shared.wait(op, waiter),
        }
    }
}

impl Replicant {
    /// Gives the next position.
    pub(super) fn append(
        &mut self,
        body: Body,
        stage: Stage,
        shared: &mut Shared,
        out: &mut Output,
    ) -> u64 {
        assert!(self.leads(&shared.me), "only a leader gives positions");
        // Whoever has removed the tombstone has nothing to do with what comes after it.
        self.record.forgetting = false;
        let index = self.log.last() + 1;
        let ttl_left_ms = match &body {
            Body::Run(op) => op.ttl_ms,
            Body::Park(_) | Body::Void(_) => None,
        };
        if let Some(left) = ttl_left_ms {
            self.deadlines
                .insert(index, shared.now_ms.saturating_add(left));
        }
        let op = body.operation();
        let known = self.log.find(op).is_some() && !matches!(body, Body::Void(_));
        assert!(!known, "an operation has one position");
        self.log.push(
            Entry {
                index,
                epoch: self.record.epoch.clone(),
                body,
                ttl_left_ms,
                readmitted: false,
            },
            stage,
        );
        shared.drop_outbox(op, out);
        for progress in self.progress.values_mut() {
            if progress.have == Some(index - 1) {
                // It lacks something from now on.
                progress.heard_ms = shared.now_ms;
                progress.sent = None;
            }
            if progress.sent.is_none() {
                // The others get it at the same moment; where something is under way, it goes after that.
                progress.say_again(shared.now_ms);
            }
        }
        index
    }

    /// To the gate's queue. Its time goes on while it waits.
    pub(super) fn admit(&mut self, submission: Submission, now_ms: u64) {
        if let Some(left) = submission.op.ttl_ms {
            self.pending_until
                .insert(submission.op.id, now_ms.saturating_add(left));
        }
        self.pending.push_back(submission);
    }

    /// What a deposed leader had acknowledged: applied where nothing it touches was changed since, else parked.
    pub(super) fn readmit(
        &mut self,
        op: Operation,
        fork: u64,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        if self.log.find(op.id).is_some() || self.has_parked(op.id) {
            shared.drop_outbox(op.id, out);
            return;
        }
        let pending = self.pending.iter().any(|pending| pending.op.id == op.id);
        if self.record.gate.is_some() || pending {
            // The gate may refuse a retry of it: only a position replaces the one it had.
            return;
        }
        let homeless = op.kind == Kind::Rescope && !op.sites.contains(&shared.me);
        let clashes = homeless || self.clashes(&op, fork);
        let body = if clashes && !shared.planted(Bug::OverwriteOnResubmit) {
            Body::Park(op)
        } else {
            Body::Run(op)
        };
        let stage = match (&body, self.take_ran(&body)) {
            (Body::Park(_), _) => Stage::Void,
            // It had a position before: its target may have it.
            _ if self.keeps_a_queue(&shared.me) => Stage::Void,
            (_, Some(ran)) => self.rejoin(&body, ran),
            (_, None) => body.first_stage(),
        };
        let index = self.append(body, stage, shared, out);
        self.log.mark_readmitted(index);
    }

    fn clashes(&self, op: &Operation, fork: u64) -> bool {
        if self.log.is_deleted() || fork < self.log.base.index || op.kind == Kind::Create {
            return true;
        }
        let since = self.log.iter().filter(|kept| kept.entry.index > fork);
        since.into_iter().any(|kept| match &kept.entry.body {
            Body::Run(other) => {
                op.kind == Kind::Delete
                    || (op.kind, other.kind) == (Kind::Rescope, Kind::Rescope)
                    || op
                        .fields
                        .keys()
                        .any(|field| other.fields.contains_key(field))
            }
            Body::Park(_) | Body::Void(_) => false,
        })
    }

    /// How far it came here while it stood in another log, now that it stands in this one. A conflict stands in none:
    /// its entry may be cut off too, and the operation be let in again after all.
    pub(super) fn take_ran(&mut self, body: &Body) -> Option<Stage> {
        match body {
            Body::Run(op) => self.record.ran.remove(&op.id),
            Body::Park(_) | Body::Void(_) => None,
        }
    }

    /// The stage of something that was done here while it stood in another log.
    pub(super) fn rejoin(&mut self, body: &Body, ran: Stage) -> Stage {
        let Body::Run(op) = body else {
            return Stage::Void;
        };
        match op.kind {
            // What it wrote may have been put back meanwhile.
            Kind::Update => {
                self.record.mend = super::replicant::Mend::Settle;
                Stage::Covered
            }
            Kind::Create | Kind::Delete => Stage::Queued,
            Kind::Action => ran,
            Kind::Rescope => body.first_stage(),
        }
    }

    /// Epoch of whoever leads, for those who ask.
    pub(super) fn reign(&self) -> &Epoch {
        &self.record.epoch
    }
}

/// Where the log of a conflict parted is known only to whoever parked it: what it met may stand anywhere before. So
/// it stays one, unless it touches nothing that anybody ever wrote.
pub(super) const WHERE_CONFLICTS_PART: u64 = 0;

/// What is kept of an operation that lost its position.
pub(super) fn deposed(op: Operation, replicant: &Replicant, fork: u64) -> OutboxRecord {
    let submission = Submission {
        op,
        sites: replicant.record.rows.keys().cloned().collect(),
        service: replicant.record.service.clone(),
        doubt: replicant.record.doubt,
        handover: replicant.record.handover,
        form: replicant.record.form,
        naming: Naming::Minted,
        parent: None,
        about: Vec::new(),
        attempt: 0,
        mode: Mode::Async,
    };
    OutboxRecord {
        submission,
        fork: Some(fork),
    }
}
