//! The log of one replicant: entries by index, each of one epoch, above a base into which older ones were folded.
//!
//! Two logs that have the same epoch at an index are the same up to there: an epoch has one leader, and a leader
//! never gives an index twice. So the point where two logs part is found from their runs alone.

use std::collections::{BTreeSet, VecDeque};

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, OperationId};
use crate::limits::EPOCHS_MAX;
use crate::operation::{Fields, Kind, Operation};

/// What stands at an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// To be applied on every site.
    Run(Operation),
    /// Every site refused that one: it never happened. Of a conflict: somebody has resolved it.
    Void(OperationId),
    /// Accepted by a deposed leader, and what it touches was changed since: a person decides.
    Park(Operation),
}

impl Body {
    /// Which operation it is about.
    pub fn operation(&self) -> OperationId {
        match self {
            Body::Run(op) | Body::Park(op) => op.id,
            Body::Void(id) => *id,
        }
    }

    /// How far it is on a site that has just heard of it.
    pub(crate) fn first_stage(&self) -> Stage {
        match self {
            Body::Run(op) if op.kind == Kind::Rescope => Stage::Applied(200),
            Body::Run(_) => Stage::Queued,
            Body::Park(_) | Body::Void(_) => Stage::Void,
        }
    }
}

/// How far one entry is on this site. Not sent to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Not yet its turn, or to be tried again.
    Queued,
    /// The service may have been called.
    Calling,
    /// Done.
    Applied(u16),
    /// Its effect is there by another way.
    Covered,
    /// The service will not.
    Refused(u16),
    /// The service has no room now.
    Waiting(u16),
    /// It may have been done; nobody can tell.
    InDoubt,
    /// Too late to run.
    Expired,
    /// Nothing to do.
    Void,
    /// To be called again, though it may have been executed: that does no harm.
    Retrying,
    /// At the gate: its content is still coming in, and the service has not got the end of it. Never in a log.
    Streaming,
}

impl Stage {
    /// True if later entries need not wait for this one.
    pub fn is_final(&self) -> bool {
        match self {
            Stage::Applied(_) | Stage::Covered | Stage::Expired | Stage::Void => true,
            Stage::Queued
            | Stage::Retrying
            | Stage::Calling
            | Stage::Refused(_)
            | Stage::Waiting(_)
            | Stage::Streaming
            | Stage::InDoubt => false,
        }
    }
}

/// One entry as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// From 1.
    pub index: u64,
    /// Under whom it was ordered.
    pub epoch: Epoch,
    /// What.
    pub body: Body,
    /// What is left of its time, when this was written or sent.
    pub ttl_left_ms: Option<u64>,
    /// True if it had another position before: some site may have done it then.
    pub readmitted: bool,
}

impl Entry {
    /// Bytes that clients made of it.
    pub(crate) fn weight(&self) -> usize {
        match &self.body {
            Body::Run(op) | Body::Park(op) => op.weight(),
            Body::Void(_) => 0,
        }
    }
}

/// One entry as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The entry.
    pub entry: Entry,
    /// How far it is here.
    pub stage: Stage,
}

/// What older entries came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The last of them.
    pub index: u64,
    /// Their epochs, each with its first index: where two logs parted is known also after it was folded.
    pub starts: Vec<(Epoch, u64)>,
    /// What clients had written by then.
    pub fields: Fields,
    /// True if they deleted it.
    pub deleted: bool,
    /// Where it lives, if that was ever changed.
    pub members: Option<BTreeSet<SiteName>>,
    /// Conflicts nobody has resolved.
    pub parked: Vec<Operation>,
    /// Operations folded lately and their digests, to know a retry; only on the way to another site.
    pub recent: Vec<(OperationId, u64)>,
}

/// Entries and their base.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) base: Base,
    entries: VecDeque<Kept>,
    dirty: BTreeSet<u64>,
    /// The first entry that was never written.
    fresh: Option<u64>,
    /// What the entries weigh.
    bytes: usize,
    /// Counts whatever came and went.
    changes: u64,
}

impl Log {
    pub(crate) fn recover(base: Base, kept: Vec<Kept>) -> Log {
        let mut log = Log {
            base,
            ..Log::default()
        };
        for kept in kept {
            // What lies below the base was folded; a hole means that what follows cannot be relied upon.
            if kept.entry.index == log.last() + 1 {
                log.bytes += kept.entry.weight();
                log.entries.push_back(kept);
            }
        }
        log
    }

    pub(crate) fn last(&self) -> u64 {
        self.base.index + self.entries.len() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Differs from what it was if an entry came or went since.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// What the entries weigh, by what clients wrote.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first index from which on the entries weigh no more than that.
    pub(crate) fn lightest(&self, bytes: usize) -> u64 {
        let mut left = self.bytes;
        let mut heavy = self.entries.iter().take_while(|kept| {
            let fits = left <= bytes;
            left -= kept.entry.weight();
            !fits
        });
        let last = heavy.by_ref().last();
        last.map_or(self.base.index, |kept| kept.entry.index)
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Kept> {
        let at = index.checked_sub(self.base.index + 1)?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    pub(crate) fn set_stage(&mut self, index: u64, stage: Stage) {
        let Some(at) = index.checked_sub(self.base.index + 1) else {
            return;
        };
        if let Some(kept) = self.entries.get_mut(at as usize)
            && kept.stage != stage
        {
            kept.stage = stage;
            self.dirty.insert(index);
        }
    }

    pub(crate) fn mark_readmitted(&mut self, index: u64) {
        let at = index.checked_sub(self.base.index + 1);
        if let Some(kept) = at.and_then(|at| self.entries.get_mut(at as usize)) {
            kept.entry.readmitted = true;
            self.dirty.insert(index);
        }
    }

    /// Nothing is left of its time, and no clock that starts anew gives it any.
    pub(crate) fn end_time(&mut self, index: u64) {
        let at = index.checked_sub(self.base.index + 1);
        if let Some(kept) = at.and_then(|at| self.entries.get_mut(at as usize))
            && kept.entry.ttl_left_ms != Some(0)
        {
            kept.entry.ttl_left_ms = Some(0);
            self.dirty.insert(index);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.entries.iter()
    }

    /// Every operation in it, each by what it is about.
    pub(crate) fn operations(&self) -> impl Iterator<Item = OperationId> {
        let bodies = self.entries.iter().map(|kept| &kept.entry.body);
        let about = bodies.filter(|body| !matches!(body, Body::Void(_)));
        about.map(Body::operation)
    }

    pub(crate) fn push(&mut self, entry: Entry, stage: Stage) {
        assert_eq!(entry.index, self.last() + 1, "a log has no holes");
        self.dirty.insert(entry.index);
        self.fresh.get_or_insert(entry.index);
        self.bytes += entry.weight();
        self.changes += 1;
        self.entries.push_back(Kept { entry, stage });
    }

    /// The epochs from the first entry on, each with its first index.
    pub(crate) fn runs(&self) -> Runs {
        let mut starts = self.base.starts.clone();
        for kept in &self.entries {
            begin(&mut starts, &kept.entry);
        }
        Runs {
            base: self.base.index,
            last: self.last(),
            starts,
        }
    }

    /// The last index at which both logs are the same.
    pub(crate) fn fork(&self, other: &Runs) -> u64 {
        self.runs().fork(other)
    }

    /// Takes everything after `fork` out, newest last. The caller removes the records.
    pub(crate) fn truncate(&mut self, fork: u64) -> Vec<Kept> {
        assert!(fork >= self.base.index, "what was folded stays");
        let keep = (fork - self.base.index) as usize;
        self.fresh = self.fresh.filter(|fresh| *fresh <= fork);
        self.dirty.retain(|index| *index <= fork);
        self.changes += 1;
        let cut: Vec<Kept> = self.entries.split_off(keep.min(self.entries.len())).into();
        self.bytes -= cut.iter().map(|kept| kept.entry.weight()).sum::<usize>();
        cut
    }

    /// Folds everything up to `index` into the base, but nothing that was never written; gives the folded entries.
    pub(crate) fn compact(&mut self, index: u64) -> Vec<Kept> {
        let written = self.fresh.map_or(u64::MAX, |fresh| fresh - 1);
        let index = index.min(self.last()).min(written);
        let index = self.before_open_verdicts(index);
        let mut folded = Vec::new();
        while self.base.index < index {
            let voided = self.voided();
            let kept = self.entries.pop_front().expect("the log reaches that far");
            self.bytes -= kept.entry.weight();
            self.changes += 1;
            self.dirty.remove(&kept.entry.index);
            fold(&mut self.base, &kept.entry, &voided);
            self.base.index = kept.entry.index;
            begin(&mut self.base.starts, &kept.entry);
            if self.base.starts.len() > EPOCHS_MAX {
                self.base.starts.remove(0);
            }
            folded.push(kept);
        }
        folded
    }

    /// The last index up to which nothing is void by an entry that stands beyond it: that entry may be cut off yet, and
    /// what was folded as if it never was would count again.
    fn before_open_verdicts(&self, mut index: u64) -> u64 {
        for kept in self.entries.iter().rev() {
            if let Body::Void(id) = &kept.entry.body
                && kept.entry.index > index
                && let Some(voided) = self.find(*id)
                && matches!(voided.entry.body, Body::Run(_))
            {
                index = index.min(voided.entry.index - 1);
            }
        }
        index
    }

    /// What clients have written up to and with `index`.
    pub(crate) fn desired(&self, index: u64) -> Base {
        let voided = self.voided();
        let mut base = Base {
            parked: Vec::new(),
            ..self.base.clone()
        };
        for kept in self
            .entries
            .iter()
            .take_while(|kept| kept.entry.index <= index)
        {
            fold(&mut base, &kept.entry, &voided);
        }
        debug_assert!(index < self.last() || base.deleted == self.is_deleted());
        base
    }

    /// The same as `deleted` of all that is desired; asked in every step, so nothing is folded for it.
    pub(crate) fn is_deleted(&self) -> bool {
        let ends = |kept: &Kept| match &kept.entry.body {
            Body::Run(op) => match op.kind {
                Kind::Delete => !self.is_void(op.id),
                Kind::Create => self.is_void(op.id),
                Kind::Update | Kind::Action | Kind::Rescope => false,
            },
            Body::Park(_) | Body::Void(_) => false,
        };
        self.base.deleted || self.entries.iter().any(ends)
    }

    /// Where it lives, if that was ever changed, and by which entry.
    pub(crate) fn members(&self) -> Option<(u64, BTreeSet<SiteName>)> {
        let rescope = |kept: &Kept| match &kept.entry.body {
            Body::Run(op) if op.kind == Kind::Rescope => {
                Some((kept.entry.index, op.sites.iter().cloned().collect()))
            }
            Body::Run(_) | Body::Park(_) | Body::Void(_) => None,
        };
        let logged = self.entries.iter().rev().find_map(rescope);
        let folded = || Some((self.base.index, self.base.members.clone()?));
        logged.or_else(folded)
    }

    /// True if every site has refused it, and the log says so.
    pub(crate) fn is_void(&self, id: OperationId) -> bool {
        let says = |kept: &Kept| kept.entry.body == Body::Void(id);
        self.entries.iter().any(says)
    }

    /// Conflicts nobody has resolved.
    pub(crate) fn parked(&self) -> impl Iterator<Item = &Operation> {
        let voided = self.voided();
        let logged = self
            .entries
            .iter()
            .filter_map(|kept| match &kept.entry.body {
                Body::Park(op) => Some(op),
                Body::Run(_) | Body::Void(_) => None,
            });
        let all = self.base.parked.iter().chain(logged);
        all.filter(move |op| !voided.contains(&op.id))
    }

    fn voided(&self) -> BTreeSet<OperationId> {
        let void = |kept: &Kept| match &kept.entry.body {
            Body::Void(id) => Some(*id),
            Body::Run(_) | Body::Park(_) => None,
        };
        self.entries.iter().filter_map(void).collect()
    }

    /// The index of an operation that is not folded yet.
    pub(crate) fn find(&self, id: OperationId) -> Option<&Kept> {
        let is = |body: &Body| matches!(body, Body::Run(op) | Body::Park(op) if op.id == id);
        self.entries.iter().find(|kept| is(&kept.entry.body))
    }

    /// True if something has changed since it was last written.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// What changed since this was last asked.
    pub(crate) fn take_dirty(&mut self) -> impl Iterator<Item = &Kept> {
        let dirty = std::mem::take(&mut self.dirty);
        self.fresh = None;
        dirty.into_iter().filter_map(|index| self.get(index))
    }
}

fn begin(starts: &mut Vec<(Epoch, u64)>, entry: &Entry) {
    if starts.last().is_none_or(|(epoch, _)| *epoch != entry.epoch) {
        starts.push((entry.epoch.clone(), entry.index));
    }
}

fn fold(base: &mut Base, entry: &Entry, voided: &BTreeSet<OperationId>) {
    match &entry.body {
        // Nobody would make it: there is nothing, and there will be nothing.
        Body::Run(op) if voided.contains(&op.id) => base.deleted |= op.kind == Kind::Create,
        Body::Run(op) => match op.kind {
            Kind::Create | Kind::Update => base.fields.extend(op.fields.clone()),
            Kind::Delete => base.deleted = true,
            Kind::Action => (),
            Kind::Rescope => base.members = Some(op.sites.iter().cloned().collect()),
        },
        // A conflict that somebody has resolved is over.
        Body::Void(id) => base.parked.retain(|parked| parked.id != *id),
        Body::Park(op) => base.parked.push(op.clone()),
    }
}

/// A log told in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// What was folded.
    pub base: u64,
    /// Where it ends.
    pub last: u64,
    /// Each epoch and its first index, from the beginning.
    pub starts: Vec<(Epoch, u64)>,
}

impl Runs {
    /// The last index at which both logs are the same: the end, in the shorter one, of the last epoch they share.
    pub(crate) fn fork(&self, other: &Runs) -> u64 {
        let shared = self.starts.iter().rev().find_map(|(epoch, _)| {
            let end = other.end_of(epoch)?;
            Some(end.min(self.end_of(epoch)?))
        });
        shared.unwrap_or(0)
    }

    /// Under whom an entry was ordered.
    pub fn epoch_at(&self, index: u64) -> Option<&Epoch> {
        let reached = self.starts.iter().rev().find(|(_, first)| *first <= index);
        reached
            .filter(|_| index <= self.last)
            .map(|(epoch, _)| epoch)
    }

    fn end_of(&self, epoch: &Epoch) -> Option<u64> {
        let at = self.starts.iter().position(|(other, _)| other == epoch)?;
        Some(
            self.starts
                .get(at + 1)
                .map_or(self.last, |(_, next)| next - 1),
        )
    }

    /// True if what stands after `fork` cannot be taken back any more.
    pub(crate) fn has_folded_past(&self, fork: u64) -> bool {
        self.base > fork
    }

    /// Logs are compared by their last epoch, then by length.
    pub(crate) fn rank(&self) -> (Option<&Epoch>, u64) {
        (self.starts.last().map(|(epoch, _)| epoch), self.last)
    }
}
