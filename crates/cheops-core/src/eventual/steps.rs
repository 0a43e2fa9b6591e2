//! How far one operation is on every site, as far as this one knows: for people who ask about their request.

use std::collections::BTreeMap;

use cheops_model::SiteName;

use super::log::{Body, Kept, Stage};
use super::message::{ReplicaState, Row};
use super::replicant::{Recovery, Replicant};
use super::site::Site;
use crate::ids::{OperationId, ReplicantId};
use crate::operation::{Answer, Operation};

/// How far an operation is on one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// On disk; the gate's service decides.
    Prepared,
    /// Not sent to that site yet, or not its turn there.
    Queued,
    /// On its disk, and next.
    Sent,
    /// Done.
    Applied,
    /// Its effect is there by another way.
    Covered,
    /// Something before it is in its way there, or it is parked as a conflict.
    Held,
    /// That site's service will not.
    Refused,
    /// For room, for credentials, for another resource.
    Waiting,
    /// It may have been done.
    InDoubt,
    /// Too late to run.
    Expired,
    /// Nothing to do.
    Void,
    /// Given up before any site was called.
    Cancelled,
}

/// One site's part in an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// How far.
    pub progress: Progress,
    /// What the service said, or why it waits ([`Wait::status`](crate::Wait)).
    pub status: Option<u16>,
    /// Calls so far; known of this site alone.
    pub attempts: u32,
    /// When it is tried again, on this site's monotonic clock; known of this site alone.
    pub next_try_ms: Option<u64>,
}

impl Step {
    fn told(progress: Progress, status: Option<u16>) -> Step {
        Step {
            progress,
            status,
            attempts: 0,
            next_try_ms: None,
        }
    }
}

/// One operation as this site knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationView {
    /// What it is; none if only its answer is still known.
    pub op: Option<Operation>,
    /// Whose log it stands in, or stood in.
    pub replicant: Option<ReplicantId>,
    /// Its position; none while it has none, or after it was folded.
    pub index: Option<u64>,
    /// By site; empty if only its answer is still known.
    pub sites: BTreeMap<SiteName, Step>,
    /// What its client was told, or would be.
    pub answer: Option<Answer>,
}

impl Site {
    /// One operation: at the gate, in a log, on its way to a leader, or finished lately.
    pub fn operation(&self, id: OperationId) -> Option<OperationView> {
        let place = self.place(id).and_then(|place| self.replicants.held(place));
        let live = place.filter(|replicant| replicant.digest_of(id).is_some());
        let live = live.and_then(|replicant| self.live_operation(&replicant, id));
        live.or_else(|| self.taken_operation(id))
            .or_else(|| self.finished_operation(id))
    }

    /// Every operation that is not finished everywhere, and those finished lately. What rests is finished.
    pub fn operations(&self) -> impl Iterator<Item = OperationId> + '_ {
        let live = self.replicants.awake().flat_map(|r| {
            let pending = r.pending.iter().map(|pending| pending.op.id);
            r.operations().into_iter().chain(pending)
        });
        let taken = self.shared.outbox.keys().copied();
        let finished = self.shared.finished.iter().map(|op| op.id);
        live.chain(taken).chain(finished)
    }

    /// The same as they stand, each looked at once.
    pub fn every_operation(&self) -> impl Iterator<Item = OperationView> + '_ {
        let live = self.replicants.awake().flat_map(|replicant| {
            let pending = replicant.pending.iter().map(|pending| pending.op.id);
            let ids = replicant.operations().into_iter().chain(pending);
            ids.filter_map(|id| self.live_operation(replicant, id))
        });
        let lost = |of: ReplicantId, id: OperationId| {
            let replicant = self.replicants.if_awake(&of);
            replicant.is_none_or(|replicant| replicant.digest_of(id).is_none())
        };
        let taken = self.shared.outbox.iter();
        let taken = taken.filter(move |(id, kept)| lost(kept.submission.op.replicant, **id));
        let taken = taken.filter_map(|(id, _)| self.taken_operation(*id));
        let done = self.shared.finished.iter();
        let done = done.filter(move |op| lost(op.replicant, op.id));
        let done = done.filter_map(|op| self.finished_operation(op.id));
        live.chain(taken).chain(done)
    }

    fn live_operation(&self, replicant: &Replicant, id: OperationId) -> Option<OperationView> {
        let record = &replicant.record;
        let view = |op: &Operation, index: Option<u64>, sites| OperationView {
            op: Some(op.clone()),
            replicant: Some(record.id),
            index,
            sites,
            answer: self.answer_of(id),
        };
        if let Some(kept) = replicant.log.find(id) {
            let (Body::Run(op) | Body::Park(op)) = &kept.entry.body else {
                return None;
            };
            let steps = record
                .rows
                .iter()
                .map(|(site, row)| (site.clone(), self.step_of(replicant, kept, site, row)));
            return Some(view(op, Some(kept.entry.index), steps.collect()));
        }
        let gate = record.gate.as_ref().filter(|gate| gate.op.id == id);
        let mine = match gate.map(|gate| &gate.stage) {
            Some(Stage::InDoubt) => Progress::InDoubt,
            Some(_) => Progress::Prepared,
            None => Progress::Queued,
        };
        let pending = replicant.pending.iter().map(|pending| &pending.op);
        let op = gate
            .map(|gate| &gate.op)
            .or_else(|| pending.into_iter().find(|op| op.id == id))?;
        let step = |site: &SiteName| match *site == self.shared.me {
            true => (site.clone(), self.own_step(replicant, mine, None)),
            false => (site.clone(), Step::told(Progress::Queued, None)),
        };
        Some(view(op, None, record.rows.keys().map(step).collect()))
    }

    fn step_of(&self, replicant: &Replicant, kept: &Kept, site: &SiteName, row: &Row) -> Step {
        let index = kept.entry.index;
        match &kept.entry.body {
            Body::Park(_) => Step::told(Progress::Held, None),
            Body::Void(_) => Step::told(Progress::Void, None),
            Body::Run(op) if replicant.keeps_a_queue(&self.shared.me) => {
                self.kept_step(replicant, (index, op.id), site, row)
            }
            Body::Run(_) if *site == self.shared.me => {
                let (progress, status) = self.own_progress(replicant, kept);
                self.own_step(replicant, progress, status)
            }
            Body::Run(_) => replicant.told_step(index, site, row),
        }
    }

    /// Of a request in a queue of this site. What its target has done and what it was too late for is all the same to
    /// whoever waits behind it, and so to its row.
    fn kept_step(
        &self,
        replicant: &Replicant,
        (index, op): (u64, OperationId),
        site: &SiteName,
        row: &Row,
    ) -> Step {
        let me = &self.shared.me;
        match self.answer_of(op) {
            _ if site == me => Step::told(Progress::Void, None),
            _ if replicant.has_withdrawn(op, me) => Step::told(Progress::Cancelled, None),
            Some(Answer::Cancelled) => Step::told(Progress::Expired, None),
            _ => replicant.told_step(index, site, row),
        }
    }

    fn own_step(&self, replicant: &Replicant, progress: Progress, status: Option<u16>) -> Step {
        let trying = matches!(
            progress,
            Progress::Prepared | Progress::Sent | Progress::Waiting | Progress::InDoubt
        );
        let later = replicant.retry_ms > self.shared.now_ms;
        Step {
            attempts: if trying { replicant.attempts } else { 0 },
            next_try_ms: (trying && later).then_some(replicant.retry_ms),
            ..Step::told(progress, status)
        }
    }

    fn own_progress(&self, replicant: &Replicant, kept: &Kept) -> (Progress, Option<u16>) {
        let row = replicant.row(&self.shared.me);
        match kept.stage {
            Stage::Applied(status) => (Progress::Applied, Some(status)),
            Stage::Covered => (Progress::Covered, None),
            Stage::Refused(status) => (Progress::Refused, Some(status)),
            Stage::Waiting(status) => (Progress::Waiting, Some(status)),
            Stage::InDoubt => (Progress::InDoubt, None),
            Stage::Expired => (Progress::Expired, None),
            Stage::Void => (Progress::Void, None),
            Stage::Queued | Stage::Calling | Stage::Retrying | Stage::Streaming => {
                told_progress(kept.entry.index, row, true)
            }
        }
    }

    fn taken_operation(&self, id: OperationId) -> Option<OperationView> {
        let kept = self.shared.outbox.get(&id)?;
        let (op, sites) = (&kept.submission.op, &kept.submission.sites);
        let replicant = self.replicants.if_awake(&op.replicant);
        let queued = Progress::Queued;
        let step = Step::told(
            replicant.map_or(queued, |r| r.unless_stranded(queued)),
            None,
        );
        let steps = sites.iter().map(|site| (site.clone(), step.clone()));
        Some(OperationView {
            op: Some(op.clone()),
            replicant: Some(op.replicant),
            index: None,
            sites: steps.collect(),
            answer: self.answer_of(id),
        })
    }

    fn finished_operation(&self, id: OperationId) -> Option<OperationView> {
        let op = self.shared.finished.iter().find(|op| op.id == id).cloned();
        let folded = self.shared.answers.get(id);
        let folded = folded.and_then(|record| record.folded);
        let replicant = op.as_ref().map(|op| op.replicant).or(folded);
        let answer = self.answer_of(id);
        if op.is_none() && answer.is_none() {
            return None;
        }
        // Folded once every site had applied it, or will be settled past it.
        let rows = replicant.and_then(|id| self.replicants.held(id));
        let rows = rows.map(|replicant| replicant.record.rows.keys().cloned().collect::<Vec<_>>());
        let done = match &answer {
            Some(Answer::Cancelled) => Progress::Cancelled,
            Some(Answer::Conflict) => Progress::Held,
            _ => Progress::Applied,
        };
        let done = Step::told(done, None);
        let sites = rows.into_iter().flatten().map(|site| (site, done.clone()));
        Some(OperationView {
            op,
            replicant,
            index: None,
            sites: sites.collect(),
            answer,
        })
    }

    fn answer_of(&self, id: OperationId) -> Option<Answer> {
        self.shared.answers.answer(id)
    }
}

impl Replicant {
    /// What another site's own word says of an entry.
    fn told_step(&self, index: u64, site: &SiteName, row: &Row) -> Step {
        let have = self.progress.get(site).and_then(|known| known.have);
        let has_it = have.is_some_and(|have| have >= index);
        let (progress, status) = told_progress(index, row, has_it);
        Step::told(self.unless_stranded(progress), status)
    }

    /// What a stranded replicant had not sent goes nowhere by itself.
    fn unless_stranded(&self, progress: Progress) -> Progress {
        match (self.record.recovery, progress) {
            (Recovery::Stranded, Progress::Queued | Progress::Sent) => Progress::Held,
            _ => progress,
        }
    }
}

/// What a site's own word says of an entry.
fn told_progress(index: u64, row: &Row, has_it: bool) -> (Progress, Option<u16>) {
    if index <= row.since {
        return (Progress::Covered, None);
    }
    if index <= row.applied {
        return (Progress::Applied, None);
    }
    let (at, status) = row.note.unwrap_or_default();
    let stuck = matches!(row.state, ReplicaState::Diverged | ReplicaState::InDoubt);
    match row.state {
        ReplicaState::Diverged if at == index => (Progress::Refused, Some(status)),
        ReplicaState::InDoubt if at == index => (Progress::InDoubt, None),
        _ if stuck => (Progress::Held, None),
        _ if row.note.is_some() && at == index => (Progress::Waiting, Some(status)),
        _ if has_it && index == row.applied + 1 => (Progress::Sent, None),
        _ => (Progress::Queued, None),
    }
}
