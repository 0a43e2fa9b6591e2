//! Requests, from the moment they are handed in until the gate: joining, forwarding, waiting, giving up.

use std::collections::BTreeSet;

use cheops_model::SiteName;

use super::log::Stage;
use super::message::Message;
use super::planted::Bug;
use super::replicant::{Recovery, Replicant};
use super::shared::{Asker, OutboxRecord, Timer, Waiter};
use super::site::Site;
use crate::ids::{Boot, Epoch, OperationId};
use crate::limits::{LOG_ENTRIES_MAX, OUTBOX_MAX, PENDING_MAX, RESEND_MS};
use crate::operation::{Answer, Form, Kind, Mode, Naming, Problem, Submission};
use crate::output::{ClientId, Output};

/// A request that another site orders, and that somebody waits for here. Not on disk: if this agent stops, its
/// clients hear nothing.
pub(crate) struct Forward {
    pub(super) submission: Submission,
    since_ms: u64,
    to: SiteName,
    epoch: Option<Epoch>,
    /// Who may have it and has not said otherwise: what one run of an agent says, it does not say for the one before.
    unresolved: BTreeSet<(SiteName, Option<Boot>)>,
    /// The last sure no.
    problem: Option<Problem>,
    /// What was sent before this, and never heard of again, cannot be spoken for.
    earlier: Earlier,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Earlier {
    Nothing,
    MayBeDone,
}

impl Forward {
    pub(super) fn is_surely_not_done(&self) -> bool {
        self.unresolved.is_empty() && self.earlier == Earlier::Nothing
    }
}

impl Site {
    pub(super) fn submit(&mut self, client: ClientId, submission: Submission, out: &mut Output) {
        let asker = Asker::Client(client);
        match (submission.form, submission.mode) {
            (Form::Queue, _) => self.enqueue(client, submission, out),
            (Form::Replica, Mode::Wait(_)) => self.accept(asker, submission, None, out),
            (Form::Replica, Mode::Async) => self.take(asker, submission, out),
        }
    }

    /// A request that is answered as soon as it is safe on the disk of an involved site.
    fn take(&mut self, asker: Asker, submission: Submission, out: &mut Output) {
        let op = &submission.op;
        if !self.is_involved(&submission) && !self.shared.planted(Bug::LeakRecords) {
            return self.accept(asker, submission, None, out);
        }
        let waiter = Waiter {
            asker,
            attempt: submission.attempt,
            digest: op.digest,
            deadline_ms: self.shared.now_ms,
        };
        if let Some(answer) = self.known_answer(&submission) {
            return self.shared.tell(op.id, waiter, answer, out);
        }
        let stranded = self
            .replicants
            .held(op.replicant)
            .is_some_and(|r| r.record.recovery == Recovery::Stranded);
        if stranded || self.shared.outbox.len() >= OUTBOX_MAX || self.shared.is_full() {
            let problem = if stranded {
                Problem::Recovering
            } else {
                Problem::Busy
            };
            return self.shared.void_one(op.id, op.digest, waiter, problem, out);
        }
        let id = op.id;
        if !self.shared.outbox.contains_key(&id) && !self.is_known(&submission) {
            self.shared.keep_in_outbox(
                OutboxRecord {
                    submission,
                    fork: None,
                },
                out,
            );
        }
        self.shared.tell(id, waiter, Answer::Accepted, out);
    }

    fn is_involved(&self, submission: &Submission) -> bool {
        let op = &submission.op;
        self.replicants.contains_key(&op.replicant)
            || (op.kind == Kind::Create && submission.sites.contains(&self.shared.me))
    }

    pub(super) fn is_known(&self, submission: &Submission) -> bool {
        let op = submission.op.id;
        let knows =
            |r: &Replicant| r.operations().contains(&op) || r.pending.iter().any(|p| p.op.id == op);
        self.replicants
            .held(submission.op.replicant)
            .is_some_and(|replicant| knows(&replicant))
    }

    fn known_answer(&self, submission: &Submission) -> Option<Answer> {
        let op = &submission.op;
        let taken = submission.mode == Mode::Async;
        if self.shared.planted(Bug::IgnoreDigest)
            || (taken && self.shared.planted(Bug::IgnoreDigestOfTaken))
        {
            return self.shared.answers.answer(op.id);
        }
        if self
            .known_digest(submission)
            .is_some_and(|known| known != op.digest)
        {
            return Some(Answer::KeyReused);
        }
        self.shared.answers.answer(op.id)
    }

    /// Of the request that this operation stands for, as far as this site knows.
    fn known_digest(&self, submission: &Submission) -> Option<u64> {
        let id = submission.op.id;
        let taken = self
            .shared
            .outbox
            .get(&id)
            .map(|kept| kept.submission.op.digest);
        let answered = self.shared.answers.note(id).map(|note| note.digest);
        let known = || self.replicants.held(submission.op.replicant)?.digest_of(id);
        answered.or(taken).or_else(known)
    }

    /// A request from a client or from a peer, to be ordered here if this site may.
    pub(super) fn accept(
        &mut self,
        asker: Asker,
        submission: Submission,
        epoch: Option<Epoch>,
        out: &mut Output,
    ) {
        let (id, attempt, digest) = (submission.op.id, submission.attempt, submission.op.digest);
        let deadline_ms = match submission.mode {
            Mode::Wait(ms) => self.shared.now_ms + ms,
            Mode::Async => u64::MAX,
        };
        let waiter = Waiter {
            asker,
            attempt,
            digest,
            deadline_ms,
        };
        if let Some(answer) = self.known_answer(&submission) {
            return self.shared.tell(id, waiter, answer, out);
        }
        let known = self.shared.answers.get(id);
        if known.is_some_and(|record| record.voided.contains(&attempt)) {
            return self
                .shared
                .tell(id, waiter, Answer::Unavailable(Problem::TooLate), out);
        }
        let entrusted = submission.mode == Mode::Async
            && matches!(waiter.asker, Asker::Peer(_))
            && epoch.is_none();
        if entrusted && self.is_involved(&submission) {
            return self.take(waiter.asker, submission, out);
        }
        let me = self.shared.me.clone();
        let Some(replicant) = self.replicants.get_mut(&submission.op.replicant) else {
            return self.accept_unknown(waiter, submission, out);
        };
        if !replicant.leads(&me) {
            return self.hand_on(waiter, submission, epoch, out);
        }
        if epoch
            .as_ref()
            .is_some_and(|meant| *meant != replicant.record.epoch)
        {
            let now = Some(replicant.record.epoch.clone());
            return self.not_leader(waiter, id, epoch, now, out);
        }
        if replicant.has_parked(id) {
            return self.shared.tell(id, waiter, Answer::Conflict, out);
        }
        if let Some(kept) = replicant.log.find(id) {
            let (index, stage) = (kept.entry.index, kept.stage.clone());
            let applied = replicant
                .record
                .rows
                .values()
                .any(|row| row.applied >= index);
            let status = match stage {
                Stage::Applied(status) => status,
                _ => 200,
            };
            let meta = replicant.record.meta.clone();
            if applied {
                let answer = Answer::Service {
                    status,
                    body: Vec::new(),
                    meta,
                };
                return self.shared.tell(id, waiter, answer, out);
            }
            return self.shared.wait(id, waiter);
        }
        if replicant.digest_of(id).is_some() {
            return self.shared.wait(id, waiter);
        }
        let long = replicant.log.len() >= LOG_ENTRIES_MAX;
        if replicant.pending.len() >= PENDING_MAX || long || self.shared.is_full() {
            return self.shared.void_one(id, digest, waiter, Problem::Busy, out);
        }
        self.shared.touched.insert(submission.op.replicant);
        replicant.admit(submission, self.shared.now_ms);
        self.shared.wait(id, waiter);
    }

    /// There is no record of it here.
    fn accept_unknown(&mut self, waiter: Waiter, submission: Submission, out: &mut Output) {
        let op = submission.op.id;
        let involved = submission.sites.contains(&self.shared.me);
        let adopts = matches!(submission.naming, Naming::Adopted(_) | Naming::Kept(_));
        if adopts && (!involved || matches!(waiter.asker, Asker::Peer(_))) {
            // Only the site whose service has it knows it by that name.
            return self.shared.tell(op, waiter, Answer::Conflict, out);
        }
        if submission.op.kind == Kind::Create && involved && self.may_have_made(&submission) {
            return self.not_yet(waiter, &submission, out);
        }
        if submission.op.kind == Kind::Create && involved && self.shared.is_full() {
            let digest = submission.op.digest;
            return self.shared.void_one(op, digest, waiter, Problem::Busy, out);
        }
        if submission.op.kind == Kind::Create && involved {
            let id = submission.op.replicant;
            assert_eq!(id.0, op.0, "a replicant is named by its create");
            let mut replicant = Replicant::conceive(&submission, id, &self.shared);
            replicant.pending.push_back(submission);
            self.replicants.insert(id, replicant);
            self.shared.touched.insert(id);
            return self.shared.wait(op, waiter);
        }
        match waiter.asker {
            Asker::Client(_) => self.forward_first(waiter, submission, out),
            // A forwarded request goes no further than to an involved site.
            Asker::Peer(_) => self.shared.tell(op, waiter, Answer::UnknownReplicant, out),
        }
    }

    /// True if an earlier disk of this site may have made it, and those who would know have not told yet.
    pub(super) fn may_have_made(&self, submission: &Submission) -> bool {
        let silent = |site: &SiteName| self.shared.record.unasked.contains(site);
        self.shared.boot.incarnation > 1 && submission.sites.iter().any(silent)
    }

    /// This disk does not know what an earlier one did: what a peer sent may have been sent to that one too.
    fn not_yet(&mut self, waiter: Waiter, submission: &Submission, out: &mut Output) {
        let (op, digest) = (submission.op.id, submission.op.digest);
        match waiter.asker {
            Asker::Client(_) => self
                .shared
                .void_one(op, digest, waiter, Problem::Recovering, out),
            Asker::Peer(_) => self.shared.tell(op, waiter, Answer::OutcomeUnknown, out),
        }
    }

    /// To the first involved site in reach.
    fn forward_first(&mut self, waiter: Waiter, submission: Submission, out: &mut Output) {
        if self.forwards.contains_key(&submission.op.id) {
            return self.join_forward(waiter, submission.op.id, submission.op.digest, out);
        }
        let me = &self.shared.me;
        let up = |site: &&SiteName| *site != me && self.shared.is_up(site);
        let Some(to) = submission.sites.iter().find(up).cloned() else {
            let (op, digest) = (submission.op.id, submission.op.digest);
            let involved = submission.sites.iter().any(|site| site == me);
            let nobody = submission.sites.is_empty() || (involved && submission.sites.len() == 1);
            if nobody {
                return self.shared.tell(op, waiter, Answer::UnknownReplicant, out);
            }
            return self
                .shared
                .void_one(op, digest, waiter, Problem::SiteUnreachable, out);
        };
        self.forward(waiter, submission, to, None, out);
    }

    /// To the leader.
    fn hand_on(
        &mut self,
        waiter: Waiter,
        submission: Submission,
        meant: Option<Epoch>,
        out: &mut Output,
    ) {
        let replicant = self.replicants.get_mut(&submission.op.replicant);
        let record = &replicant.expect("it was just seen").record;
        let recovery = record.recovery;
        let (op, digest) = (submission.op.id, submission.op.digest);
        let (epoch, leader) = (record.epoch.clone(), record.epoch.site.clone());
        if self.is_known(&submission) || self.shared.outbox.contains_key(&op) {
            // An earlier copy was taken, and may yet be done; or is, and is answered for in this very step.
            self.shared.touched.insert(submission.op.replicant);
            return self.shared.wait(op, waiter);
        }
        if meant.is_some() {
            return self.not_leader(waiter, op, meant, Some(epoch), out);
        }
        if self.forwards.contains_key(&op) {
            return self.join_forward(waiter, op, digest, out);
        }
        if recovery != Recovery::Done {
            return self.not_yet(waiter, &submission, out);
        }
        let problem = if leader == self.shared.me || !self.shared.is_up(&leader) {
            Problem::NotLeader(leader)
        } else {
            return self.forward(waiter, submission, leader, Some(epoch), out);
        };
        self.shared.void_one(op, digest, waiter, problem, out);
    }

    fn not_leader(
        &mut self,
        waiter: Waiter,
        op: OperationId,
        epoch: Option<Epoch>,
        now: Option<Epoch>,
        out: &mut Output,
    ) {
        let Asker::Peer(site) = waiter.asker.clone() else {
            unreachable!("only peers mean a reign");
        };
        let mine = epoch
            .as_ref()
            .is_some_and(|meant| meant.site == self.shared.me);
        if mine && (epoch > now || self.shared.boot.incarnation > 1) {
            // A reign of this site that its disk may not remember: what was done in it is not known.
            return self.shared.tell(op, waiter, Answer::OutcomeUnknown, out);
        }
        let attempt = waiter.attempt;
        self.shared.send(
            &site,
            Message::NotLeader {
                op,
                attempt,
                epoch,
                now,
            },
            out,
        );
    }

    fn forward(
        &mut self,
        waiter: Waiter,
        submission: Submission,
        to: SiteName,
        epoch: Option<Epoch>,
        out: &mut Output,
    ) {
        let op = submission.op.id;
        self.shared.wait(op, waiter);
        let forward = Forward {
            submission,
            since_ms: self.shared.now_ms,
            to,
            epoch,
            unresolved: BTreeSet::new(),
            problem: None,
            earlier: match self.shared.is_uncertain(op) {
                true => Earlier::MayBeDone,
                false => Earlier::Nothing,
            },
        };
        self.forwards.insert(op, forward);
        self.send_forward(op, out);
    }

    /// It is on its way already: what becomes of it decides.
    fn join_forward(&mut self, waiter: Waiter, op: OperationId, digest: u64, out: &mut Output) {
        if self.forwards[&op].submission.op.digest != digest {
            return self.shared.tell(op, waiter, Answer::KeyReused, out);
        }
        self.shared.wait(op, waiter);
    }

    /// Sends it, or sends it again: whoever gets it joins the first.
    pub(super) fn send_forward(&mut self, op: OperationId, out: &mut Output) {
        let Some(forward) = self.forwards.get_mut(&op) else {
            return;
        };
        let left = self.shared.waiters.get(&op).into_iter().flatten();
        let Some(deadline_ms) = left.map(|waiter| waiter.deadline_ms).max() else {
            self.forwards.remove(&op);
            return;
        };
        let mut submission = forward.submission.clone();
        if let Mode::Wait(ms) = &mut submission.mode {
            // The last part of the wait is for the answer to come back.
            *ms = deadline_ms.saturating_sub(self.shared.now_ms) * 3 / 4;
        }
        if let Some(left) = &mut submission.op.ttl_ms {
            // Its time goes on while it is on its way.
            *left = left.saturating_sub(self.shared.now_ms - forward.since_ms);
        }
        let run = self.shared.run_of(&forward.to);
        forward.unresolved.insert((forward.to.clone(), run));
        self.shared.doubt(op);
        let (to, epoch) = (forward.to.clone(), forward.epoch.clone());
        self.shared
            .send(&to, Message::Submit { submission, epoch }, out);
        self.shared.arm(
            Timer::Forward(op),
            Some(self.shared.now_ms + RESEND_MS.0 * 2),
        );
    }

    /// An answer to something sent on.
    pub(super) fn answered(
        &mut self,
        from: &SiteName,
        op: OperationId,
        attempt: u64,
        answer: Answer,
        out: &mut Output,
    ) {
        self.outbox_answered(from, op, &answer, out);
        let Some(forward) = self.forwards.get_mut(&op) else {
            return;
        };
        let said = (from.clone(), self.shared.run_of(from));
        if forward.submission.attempt != attempt || !forward.unresolved.contains(&said) {
            return;
        }
        match answer {
            Answer::Unavailable(problem) => {
                forward.unresolved.remove(&said);
                forward.problem = Some(problem);
                self.end_forward(op, out);
            }
            answer => {
                let Some(forward) = self.forwards.remove(&op) else {
                    return;
                };
                let done = matches!(answer, Answer::Service { status, .. } if status < 300);
                let digest = forward.submission.op.digest;
                let same = self.known_digest(&forward.submission) == Some(digest);
                if !done && same && self.is_known(&forward.submission) {
                    // A later try is being done here: what becomes of that is the answer.
                    return;
                }
                if done
                    && self
                        .replicants
                        .contains_key(&forward.submission.op.replicant)
                {
                    // Its position may yet be lost, and its leader with it: another request with this key is still
                    // known for what it is.
                    self.shared
                        .remember(op, digest, Some(answer.clone()), None, out);
                }
                self.shared.tell_askers(op, digest, &answer, out);
            }
        }
    }

    /// Not there; perhaps this site has heard of another leader meanwhile.
    pub(super) fn not_led(
        &mut self,
        from: &SiteName,
        op: OperationId,
        attempt: u64,
        meant: Option<Epoch>,
    ) {
        let Some(forward) = self.forwards.get_mut(&op) else {
            return;
        };
        if forward.submission.attempt != attempt || forward.epoch != meant {
            return;
        }
        let said = (from.clone(), self.shared.run_of(from));
        forward.unresolved.remove(&said);
        forward.problem = Some(Problem::NotLeader(from.clone()));
        let Some(replicant) = self.replicants.held(forward.submission.op.replicant) else {
            return;
        };
        let epoch = replicant.record.epoch.clone();
        if epoch.site != self.shared.me && forward.epoch.as_ref() != Some(&epoch) {
            forward.to = epoch.site.clone();
            forward.epoch = Some(epoch);
            self.shared
                .arm(Timer::Forward(op), Some(self.shared.now_ms));
        }
    }

    /// It is out of reach: whoever waits is not kept waiting for an answer that may never come.
    pub(super) fn lose_touch(&mut self, site: SiteName, out: &mut Output) {
        let there = |(op, forward): (&OperationId, &Forward)| (forward.to == site).then_some(*op);
        let ended: Vec<OperationId> = self.forwards.iter().filter_map(there).collect();
        for op in ended {
            self.end_forward(op, out);
        }
        self.shared.down.insert(site);
    }

    /// A sure no ends it as 503 only if nobody else may have it.
    fn end_forward(&mut self, op: OperationId, out: &mut Output) {
        let Some(forward) = self.forwards.remove(&op) else {
            return;
        };
        if self.is_known(&forward.submission) {
            // A later try is being done here: what becomes of that is the answer.
            return;
        }
        let digest = forward.submission.op.digest;
        let sure = forward.is_surely_not_done();
        match (sure, forward.problem) {
            (true, Some(problem)) => {
                self.shared.be_sure(op);
                self.shared.void(op, digest, problem, out);
            }
            _ => self
                .shared
                .tell_askers(op, digest, &Answer::OutcomeUnknown, out),
        }
    }
}
