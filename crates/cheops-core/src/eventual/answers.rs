//! What became of operations, for whoever asks again: a line for each in memory, the rest on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::archive::Archive;
use super::shared::Timer;
use super::site::Site;
use crate::ids::{OperationId, ReplicantId};
use crate::limits::{ANSWERS_EVERY_MS, ANSWERS_WHOLE_MAX};
use crate::operation::Answer;
use crate::output::Output;
use crate::record::{Table, decode, key_of};

/// What became of an operation, for whoever asks again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerRecord {
    pub(crate) digest: u64,
    pub(crate) answer: Option<Answer>,
    /// Tries that were answered 503 and must not run late.
    pub(crate) voided: Vec<u64>,
    /// It made something that was deleted everywhere since; nobody brings it back.
    pub(crate) buried: bool,
    /// Whose log it stood in before that was folded.
    pub(crate) folded: Option<ReplicantId>,
}

/// The same in short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) digest: u64,
    until_ms: u64,
    /// True if there is an answer.
    pub(crate) answered: bool,
    pub(crate) buried: bool,
}

impl Site {
    /// Nobody asks for them any more.
    pub(super) fn forget_answers(&mut self, out: &mut Output) {
        let now_ms = self.shared.now_ms;
        for op in self.shared.answers.take_expired(now_ms) {
            out.write(Table::Answers, key_of(op.0), None);
        }
        let next = self.shared.answers.first_expiry();
        let next = next.map(|next| next.max(now_ms + ANSWERS_EVERY_MS));
        self.shared.arm(Timer::Answers, next);
    }
}

/// All of them.
pub(crate) struct Answers {
    notes: BTreeMap<OperationId, Note>,
    folded: BTreeSet<(ReplicantId, OperationId)>,
    /// The newest, and all that may not be durable yet.
    whole: BTreeMap<OperationId, AnswerRecord>,
    order: VecDeque<OperationId>,
    archive: Option<Arc<dyn Archive>>,
}

impl Answers {
    pub(crate) fn new(archive: Option<Arc<dyn Archive>>) -> Answers {
        Answers {
            notes: BTreeMap::new(),
            folded: BTreeSet::new(),
            whole: BTreeMap::new(),
            order: VecDeque::new(),
            archive,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.notes.len()
    }

    pub(crate) fn note(&self, op: OperationId) -> Option<&Note> {
        self.notes.get(&op)
    }

    pub(crate) fn is_answered(&self, op: OperationId) -> bool {
        self.notes.get(&op).is_some_and(|note| note.answered)
    }

    /// The whole, from the disk if need be.
    pub(crate) fn get(&self, op: OperationId) -> Option<AnswerRecord> {
        self.notes.get(&op)?;
        if let Some(record) = self.whole.get(&op) {
            return Some(record.clone());
        }
        let found = self.archive.as_ref()?.read(Table::Answers, &key_of(op.0))?;
        decode(&found.first()?.1).ok()
    }

    pub(crate) fn answer(&self, op: OperationId) -> Option<Answer> {
        self.notes.get(&op).filter(|note| note.answered)?;
        self.get(op)?.answer
    }

    pub(crate) fn put(&mut self, op: OperationId, record: AnswerRecord, until_ms: u64) {
        self.enter(op, &record, until_ms);
        self.whole.insert(op, record);
        self.order.push_back(op);
    }

    /// As it is on disk.
    pub(crate) fn found(&mut self, op: OperationId, record: AnswerRecord, until_ms: u64) {
        self.enter(op, &record, until_ms);
        if self.archive.is_none() {
            self.whole.insert(op, record);
        }
    }

    fn enter(&mut self, op: OperationId, record: &AnswerRecord, until_ms: u64) {
        if let Some(replicant) = record.folded {
            self.folded.insert((replicant, op));
        }
        let note = Note {
            digest: record.digest,
            until_ms,
            answered: record.answer.is_some(),
            buried: record.buried,
        };
        self.notes.insert(op, note);
    }

    /// True if it stood in that log before that was folded.
    pub(crate) fn is_folded(&self, replicant: ReplicantId, op: OperationId) -> bool {
        self.folded.contains(&(replicant, op))
    }

    /// What was folded of one log, with digests.
    pub(crate) fn folded_of(&self, replicant: ReplicantId) -> Vec<(OperationId, u64)> {
        let all = (replicant, OperationId(0))..=(replicant, OperationId(u128::MAX));
        let of = self.folded.range(all).map(|(_, op)| *op);
        of.filter_map(|op| Some((op, self.notes.get(&op)?.digest)))
            .collect()
    }

    /// Takes out those that need not be kept any longer.
    pub(crate) fn take_expired(&mut self, now_ms: u64) -> Vec<OperationId> {
        let old = self
            .notes
            .iter()
            .filter(|(_, note)| note.until_ms <= now_ms);
        let old: Vec<OperationId> = old.map(|(op, _)| *op).collect();
        for op in &old {
            self.notes.remove(op);
            self.whole.remove(op);
        }
        if !old.is_empty() {
            let notes = &self.notes;
            self.folded.retain(|(_, op)| notes.contains_key(op));
        }
        old
    }

    /// When the first of them need not.
    pub(crate) fn first_expiry(&self) -> Option<u64> {
        self.notes.values().map(|note| note.until_ms).min()
    }

    /// Everything is durable: what can be read back need not stay.
    pub(crate) fn trim(&mut self) {
        if self.archive.is_none() {
            return;
        }
        while self.order.len() > ANSWERS_WHOLE_MAX {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.whole.remove(&oldest));
        }
    }
}
