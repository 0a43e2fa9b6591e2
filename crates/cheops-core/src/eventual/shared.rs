//! What all replicants of a site share: links, answers, the outbox, timers, numbers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use super::answers::{AnswerRecord, Answers};
use super::archive::{Archive, Reader};
use super::message::Message;
use super::planted::Bug;
use crate::ids::{Boot, MeshKey, OperationId, ReplicantId};
use crate::limits::{
    ANSWERS_MAX, ANSWERS_MS, FINISHED_BYTES_MAX, FINISHED_MAX, UNCERTAIN_MAX, VOID_ATTEMPTS_MAX,
};
use crate::link::Link;
use crate::operation::{Answer, Operation, Problem, Submission};
use crate::output::{Call, CallId, ClientId, Effect, Output};
use crate::record::{Table, encode, key_of};

/// What a site may be told about its services and its patience.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// After a time-out, how long what was sent may still be executed.
    pub settle_ms: u64,
    /// How long a follower is asked again before its refusal counts.
    pub refuse_after_ms: u64,
    /// Entries kept for a site that is away; see [`RETAIN_ENTRIES`](crate::limits::RETAIN_ENTRIES).
    pub retain_entries: usize,
    /// How much they may be; see [`RETAIN_BYTES`](crate::limits::RETAIN_BYTES).
    pub retain_bytes: usize,
    /// How long they are kept; see [`RETAIN_MS`](crate::limits::RETAIN_MS).
    pub retain_ms: u64,
    /// Replicants kept in memory though nothing is under way with them; see [`IDLE_MAX`](crate::limits::IDLE_MAX).
    pub idle_max: usize,
    /// How long it is remembered what became of passing operations; see [`PASSING_MS`](crate::limits::PASSING_MS).
    pub passing_ms: u64,
    /// Replicants told at once to a disk that is new or older than it was; see [`SHARED_MAX`](crate::limits::SHARED_MAX).
    pub shared_max: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            settle_ms: 5_000,
            refuse_after_ms: 600_000,
            retain_entries: crate::limits::RETAIN_ENTRIES,
            retain_bytes: crate::limits::RETAIN_BYTES,
            retain_ms: crate::limits::RETAIN_MS,
            idle_max: crate::limits::IDLE_MAX,
            passing_ms: crate::limits::PASSING_MS,
            shared_max: crate::limits::SHARED_MAX,
        }
    }
}

/// This site's own record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteRecord {
    pub(crate) boot: Boot,
    /// Peers that have not yet told what they share with this disk.
    pub(crate) unasked: BTreeSet<SiteName>,
    pub(crate) removed: BTreeSet<SiteName>,
}

/// What this site still has to bring to a leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OutboxRecord {
    pub(crate) submission: Submission,
    /// Set if a deposed leader had accepted it: where the logs parted.
    pub(crate) fork: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Replicant(ReplicantId),
    Waiters(OperationId),
    Forward(OperationId),
    Outbox,
    Restored,
    Answers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Client(ClientId),
    Peer(SiteName),
}

#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) asker: Asker,
    pub(crate) attempt: u64,
    /// Of what was asked: what becomes of another request with the same key is no answer to this one.
    pub(crate) digest: u64,
    pub(crate) deadline_ms: u64,
}

pub(crate) struct Shared {
    pub(crate) me: SiteName,
    pub(crate) key: MeshKey,
    pub(crate) tuning: Tuning,
    pub(crate) boot: Boot,
    pub(crate) now_ms: u64,
    pub(crate) started_ms: u64,
    pub(crate) record: SiteRecord,
    pub(crate) links: BTreeMap<SiteName, Link>,
    pub(crate) incarnations: BTreeMap<SiteName, u64>,
    pub(crate) down: BTreeSet<SiteName>,
    pub(crate) answers: Answers,
    pub(crate) reader: Reader,
    pub(crate) outbox: BTreeMap<OperationId, OutboxRecord>,
    /// What was folded lately, for whoever asks what it was.
    pub(crate) finished: VecDeque<Operation>,
    pub(crate) outbox_until: BTreeMap<OperationId, u64>,
    pub(crate) waiters: BTreeMap<OperationId, Vec<Waiter>>,
    /// Requests whose content is still coming in.
    pub(crate) streaming: BTreeSet<OperationId>,
    /// Sent to others, who have not said what became of it: no later try is told that nothing happened.
    uncertain: BTreeSet<OperationId>,
    uncertain_order: VecDeque<OperationId>,
    pub(crate) calls: BTreeMap<CallId, ReplicantId>,
    /// Replicants to look after before this step ends.
    pub(crate) touched: BTreeSet<ReplicantId>,
    next_call: u64,
    next_stamp: u64,
    timers: BTreeSet<(u64, Timer)>,
    armed: BTreeMap<Timer, u64>,
    pub(crate) bug: Option<Bug>,
}

impl Shared {
    pub(crate) fn new(
        me: SiteName,
        key: MeshKey,
        tuning: Tuning,
        boot: Boot,
        now_ms: u64,
        (archive, reader): (Option<Arc<dyn Archive>>, Reader),
    ) -> Shared {
        let record = SiteRecord {
            boot,
            unasked: BTreeSet::new(),
            removed: BTreeSet::new(),
        };
        Shared {
            me,
            key,
            tuning,
            boot,
            now_ms,
            started_ms: now_ms,
            record,
            links: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            down: BTreeSet::new(),
            answers: Answers::new(archive),
            reader,
            outbox: BTreeMap::new(),
            finished: VecDeque::new(),
            outbox_until: BTreeMap::new(),
            waiters: BTreeMap::new(),
            streaming: BTreeSet::new(),
            uncertain: BTreeSet::new(),
            uncertain_order: VecDeque::new(),
            calls: BTreeMap::new(),
            touched: BTreeSet::new(),
            next_call: 0,
            next_stamp: 0,
            timers: BTreeSet::new(),
            armed: BTreeMap::new(),
            bug: None,
        }
    }

    #[cfg(feature = "planted")]
    pub(crate) fn planted(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    #[cfg(not(feature = "planted"))]
    pub(crate) const fn planted(&self, _: Bug) -> bool {
        false
    }

    /// Greater than any before on this disk, also of an earlier run: a site that has left and came back tells more
    /// than it told before, though its record was removed in between.
    pub(crate) fn stamp(&mut self) -> u64 {
        self.next_stamp += 1;
        (self.boot.start << 32) | self.next_stamp
    }

    pub(crate) fn incarnation_of(&self, site: &SiteName) -> u64 {
        self.incarnations.get(site).copied().unwrap_or(0)
    }

    /// The run of a peer's agent that was heard last.
    pub(crate) fn run_of(&self, site: &SiteName) -> Option<Boot> {
        self.links.get(site).and_then(Link::peer)
    }

    /// True if no more answers can be kept: whatever needs one is not begun.
    pub(crate) fn is_full(&self) -> bool {
        self.answers.len() >= ANSWERS_MAX
    }

    pub(crate) fn doubt(&mut self, op: OperationId) {
        if self.uncertain.insert(op) {
            self.uncertain_order.push_back(op);
        }
        if self.uncertain_order.len() > UNCERTAIN_MAX
            && let Some(oldest) = self.uncertain_order.pop_front()
        {
            self.uncertain.remove(&oldest);
        }
    }

    /// Everybody it was sent to has said that nothing was done.
    pub(crate) fn be_sure(&mut self, op: OperationId) {
        if self.uncertain.remove(&op) {
            self.uncertain_order.retain(|other| *other != op);
        }
    }

    pub(crate) fn is_uncertain(&self, op: OperationId) -> bool {
        self.uncertain.contains(&op)
    }

    pub(crate) fn is_up(&self, site: &SiteName) -> bool {
        !self.down.contains(site)
    }

    pub(crate) fn send(&mut self, to: &SiteName, message: Message, out: &mut Output) {
        if self.record.removed.contains(to) {
            return;
        }
        let envelope = self
            .links
            .entry(to.clone())
            .or_default()
            .wrap(self.boot, Some(message));
        out.wish(Effect::Send {
            to: to.clone(),
            envelope,
        });
    }

    pub(crate) fn introduce(&mut self, to: &SiteName, out: &mut Output) {
        let envelope = self
            .links
            .entry(to.clone())
            .or_default()
            .wrap(self.boot, None);
        out.wish(Effect::Send {
            to: to.clone(),
            envelope,
        });
    }

    pub(crate) fn call(
        &mut self,
        replicant: ReplicantId,
        service: &str,
        call: Call,
        out: &mut Output,
    ) -> CallId {
        self.next_call += 1;
        let id = CallId(self.next_call);
        self.calls.insert(id, replicant);
        let service = service.to_string();
        out.wish(Effect::Call {
            id,
            replicant,
            service,
            call,
        });
        id
    }

    pub(crate) fn arm(&mut self, timer: Timer, at_ms: Option<u64>) {
        if let Some(before) = self.armed.remove(&timer) {
            self.timers.remove(&(before, timer));
        }
        // Whoever waits without an end needs no timer.
        if let Some(at_ms) = at_ms.filter(|at_ms| *at_ms != u64::MAX) {
            self.armed.insert(timer, at_ms);
            self.timers.insert((at_ms, timer));
        }
    }

    pub(crate) fn arm_no_later(&mut self, timer: Timer, at_ms: u64) {
        let at_ms = self
            .armed
            .get(&timer)
            .map_or(at_ms, |before| at_ms.min(*before));
        self.arm(timer, Some(at_ms));
    }

    pub(crate) fn earliest(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn take_due(&mut self) -> Option<Timer> {
        let (at, timer) = *self.timers.first()?;
        if at > self.now_ms {
            return None;
        }
        self.arm(timer, None);
        Some(timer)
    }

    pub(crate) fn wait(&mut self, op: OperationId, waiter: Waiter) {
        self.arm_no_later(Timer::Waiters(op), waiter.deadline_ms);
        let waiters = self.waiters.entry(op).or_default();
        // A peer that asks again asks for the same answer.
        waiters.retain(|other| other.asker != waiter.asker || other.attempt != waiter.attempt);
        waiters.push(waiter);
    }

    /// Says it to one who asked. What it says is durable by then.
    pub(crate) fn tell(
        &mut self,
        op: OperationId,
        waiter: Waiter,
        answer: Answer,
        out: &mut Output,
    ) {
        if answer == Answer::OutcomeUnknown {
            self.doubt(op);
        }
        match waiter.asker {
            Asker::Client(client) => out.wish(Effect::Answer { client, answer }),
            Asker::Peer(site) => {
                let answered = Message::Answered {
                    op,
                    attempt: waiter.attempt,
                    answer,
                };
                self.send(&site, answered, out);
            }
        }
    }

    /// The end of an operation, as far as its clients are concerned.
    pub(crate) fn conclude(
        &mut self,
        op: OperationId,
        digest: u64,
        answer: Answer,
        out: &mut Output,
    ) {
        self.streaming.remove(&op);
        self.remember(op, digest, Some(answer.clone()), None, out);
        if self.outbox.get(&op).is_some_and(|kept| kept.fork.is_none()) {
            self.drop_outbox(op, out);
        }
        for waiter in self.waiters.remove(&op).unwrap_or_default() {
            let answer = match waiter.digest == digest {
                true => answer.clone(),
                false => Answer::KeyReused,
            };
            self.tell(op, waiter, answer, out);
        }
        self.arm(Timer::Waiters(op), None);
    }

    /// The no of this site's gate. It cannot speak for others whom this site has asked for the same, and who may have
    /// done it: its own clients hear that nobody knows. Whoever was entrusted with it needs an end all the same.
    pub(crate) fn refuse(
        &mut self,
        op: OperationId,
        digest: u64,
        answer: Answer,
        out: &mut Output,
    ) {
        if self.is_uncertain(op) {
            let waiters = self.waiters.remove(&op).unwrap_or_default();
            let here = |waiter: &Waiter| matches!(waiter.asker, Asker::Client(_));
            let (clients, peers): (Vec<_>, Vec<_>) = waiters.into_iter().partition(here);
            for client in clients {
                self.tell(op, client, Answer::OutcomeUnknown, out);
            }
            if peers.is_empty() && !self.outbox.contains_key(&op) {
                self.streaming.remove(&op);
                return self.arm(Timer::Waiters(op), None);
            }
            self.waiters.insert(op, peers);
        }
        self.conclude(op, digest, answer, out);
    }

    /// Says it to those who asked for just this; the others go on waiting.
    pub(crate) fn tell_askers(
        &mut self,
        op: OperationId,
        digest: u64,
        answer: &Answer,
        out: &mut Output,
    ) {
        let waiters = self.waiters.remove(&op).unwrap_or_default();
        let (askers, others): (Vec<_>, Vec<_>) = waiters
            .into_iter()
            .partition(|waiter| waiter.digest == digest);
        if !others.is_empty() {
            self.waiters.insert(op, others);
        }
        for waiter in askers {
            self.tell(op, waiter, answer.clone(), out);
        }
    }

    /// Says no to everybody who waits, in such a way that none of these tries can run later.
    pub(crate) fn void(
        &mut self,
        op: OperationId,
        digest: u64,
        problem: Problem,
        out: &mut Output,
    ) {
        for waiter in self.waiters.remove(&op).unwrap_or_default() {
            self.void_one(op, digest, waiter, problem.clone(), out);
        }
        self.arm(Timer::Waiters(op), None);
    }

    pub(crate) fn void_one(
        &mut self,
        op: OperationId,
        digest: u64,
        waiter: Waiter,
        problem: Problem,
        out: &mut Output,
    ) {
        self.streaming.remove(&op);
        if self.uncertain.contains(&op) && !self.planted(Bug::RunAfter503) {
            return self.tell(op, waiter, Answer::OutcomeUnknown, out);
        }
        if matches!(waiter.asker, Asker::Peer(_)) && !self.planted(Bug::RunAfter503) {
            self.remember(op, digest, None, Some(waiter.attempt), out);
        }
        self.tell(op, waiter, Answer::Unavailable(problem), out);
    }

    pub(crate) fn remember(
        &mut self,
        op: OperationId,
        digest: u64,
        answer: Option<Answer>,
        voided: Option<u64>,
        out: &mut Output,
    ) {
        let mut record = self.record_of(op, digest);
        record.answer = answer.or(record.answer.take());
        record.voided.extend(voided);
        if record.voided.len() > VOID_ATTEMPTS_MAX {
            record.voided.remove(0);
        }
        self.keep_answer(op, record, out);
    }

    /// What is known of an operation that asks for this.
    fn record_of(&self, op: OperationId, digest: u64) -> AnswerRecord {
        let fresh = AnswerRecord {
            digest,
            answer: None,
            voided: Vec::new(),
            buried: false,
            folded: None,
        };
        AnswerRecord {
            digest,
            ..self.answers.get(op).unwrap_or(fresh)
        }
    }

    /// When nobody asks for it any more.
    pub(crate) fn forgotten_at(&self, op: OperationId) -> u64 {
        let kept_ms = match op.is_passing() {
            true => self.tuning.passing_ms,
            false => ANSWERS_MS,
        };
        self.now_ms + kept_ms
    }

    fn keep_answer(&mut self, op: OperationId, record: AnswerRecord, out: &mut Output) {
        let until_ms = self.forgotten_at(op);
        out.write(Table::Answers, key_of(op.0), Some(encode(&record)));
        self.answers.put(op, record, until_ms);
        self.arm_no_later(Timer::Answers, until_ms);
    }

    /// The tombstone goes; for a while a retry of the create, or a late message, is still known for what it is.
    pub(crate) fn bury(&mut self, create: OperationId, digest: u64, out: &mut Output) {
        let answered = self.answers.is_answered(create);
        self.remember(
            create,
            digest,
            (!answered).then_some(Answer::Gone),
            None,
            out,
        );
        let record = self.answers.get(create);
        let mut record = record.expect("it was just remembered");
        record.buried = true;
        self.keep_answer(create, record, out);
    }

    /// The log forgets it; a retry must still find it, whoever leads then.
    pub(crate) fn fold(
        &mut self,
        replicant: ReplicantId,
        op: OperationId,
        digest: u64,
        out: &mut Output,
    ) {
        let mut record = self.record_of(op, digest);
        record.folded = Some(replicant);
        record.answer.get_or_insert(Answer::Service {
            status: 200,
            body: Vec::new(),
            meta: None,
        });
        self.keep_answer(op, record, out);
        // It has had its position: nobody need be asked for one.
        self.drop_outbox(op, out);
    }

    /// Keeps in mind what an operation was, for a while.
    pub(crate) fn finish(&mut self, op: &Operation) {
        if self.finished.iter().any(|known| known.id == op.id) {
            return;
        }
        let mut op = op.clone();
        if op.rest.len() > FINISHED_BYTES_MAX {
            op.rest.clear();
        }
        self.finished.push_back(op);
        if self.finished.len() > FINISHED_MAX {
            self.finished.pop_front();
        }
    }

    /// What became of an operation that stood in this log before that was folded.
    pub(crate) fn folded_answer(&self, replicant: ReplicantId, op: OperationId) -> Option<Answer> {
        let folded = self.answers.is_folded(replicant, op);
        folded.then(|| self.answers.answer(op)).flatten()
    }

    /// What was folded of one log, for somebody who gets the rest.
    pub(crate) fn recent(&self, replicant: ReplicantId) -> Vec<(OperationId, u64)> {
        self.answers.folded_of(replicant)
    }

    pub(crate) fn is_buried(&self, replicant: ReplicantId) -> bool {
        if self.planted(Bug::TakeLateMessages) {
            // The second guard against what comes late.
            return false;
        }
        let note = self.answers.note(OperationId(replicant.0));
        note.is_some_and(|note| note.buried)
    }

    pub(crate) fn keep_in_outbox(&mut self, record: OutboxRecord, out: &mut Output) {
        let id = record.submission.op.id;
        out.write(Table::Outbox, key_of(id.0), Some(encode(&record)));
        if let Some(left) = record.submission.op.ttl_ms {
            self.outbox_until
                .entry(id)
                .or_insert(self.now_ms.saturating_add(left));
        }
        self.outbox.insert(id, record);
        self.arm_no_later(Timer::Outbox, self.now_ms);
    }

    pub(crate) fn drop_outbox(&mut self, op: OperationId, out: &mut Output) {
        if self.outbox.remove(&op).is_some() {
            self.outbox_until.remove(&op);
            out.write(Table::Outbox, key_of(op.0), None);
        }
    }
}
