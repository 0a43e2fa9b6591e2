//! Rest: a replicant that is the same everywhere, and with which nothing is under way, needs no room in memory.
//!
//! Its mark on disk says so in the write that follows; only when that is durable it is let go. Whatever is changed of
//! it afterwards goes with a mark that it is awake, in one write: a start looks at what is awake, and at nothing else.

use std::collections::BTreeSet;

use cheops_model::SiteName;

use super::archive::{Kin, Mark, Reader, Summary};
use super::log::Body;
use super::message::{Message, ReplicaState, Row};
use super::planted::Bug;
use super::replicant::{Marked, Mend, Progress, Recovery, Replicant};
use super::shared::Shared;
use super::site::{Event, Site};
use crate::ids::{OperationId, ReplicantId};
use crate::operation::{Form, Handover};
use crate::output::Output;
use crate::record::{Table, encode, key_of};

impl Site {
    /// To be called when everything that was written is durable: lets go of what need not be in memory.
    pub fn rest(&mut self) {
        if !self.replicants.has_archive() {
            return;
        }
        let (me, reader) = (&self.shared.me, self.shared.reader);
        let (places, mut done) = (&mut self.places, Vec::new());
        self.replicants.put_away(|replicant| {
            let summary = replicant.summary(me, reader)?;
            // Whoever asks for it knows where it is.
            places.remove(&OperationId(replicant.record.id.0));
            let logged = replicant.log.iter().map(|kept| &kept.entry.body);
            done.extend(logged.filter_map(|body| match body {
                Body::Run(op) => Some(op.clone()),
                Body::Park(_) | Body::Void(_) => None,
            }));
            Some(summary)
        });
        for op in done {
            self.shared.finish(&op);
        }
        self.shared.answers.trim();
    }

    /// How many replicants are in memory, and how many are not.
    pub fn populations(&self) -> (usize, usize) {
        self.replicants.len()
    }

    /// The replicants that rest: every replica of them is live, and has applied everything.
    pub fn resting(&self) -> impl Iterator<Item = (ReplicantId, &Kin)> {
        self.replicants.resting()
    }

    /// Wakes what a request or a message is about: most steps look at it several times, and it is read once.
    pub(super) fn wake_for(&mut self, event: &Event) {
        let about = match event {
            Event::Submit { submission, .. } => Some(submission.op.replicant),
            Event::Message { envelope, .. } => envelope.message.as_ref().and_then(Message::about),
            _ => None,
        };
        if let Some(id) = about {
            self.replicants.wake(id);
        }
    }

    /// Wakes everything that lives on a site.
    pub(super) fn wake_all_of(&mut self, site: &SiteName) {
        let of = self.replicants.resting();
        let of = of.filter(|(_, kin)| kin.sites.contains(site));
        for id in of.map(|(id, _)| id).collect::<Vec<_>>() {
            self.replicants.wake(id);
        }
    }

    /// After it was driven: says on disk that it is awake if that is not certain, and counts it among the idle ones if
    /// nothing is left to do.
    pub(super) fn settle_down(
        &mut self,
        id: ReplicantId,
        (wrote, next_ms): (Wrote, Option<u64>),
        out: &mut Output,
    ) {
        if !self.replicants.has_archive() {
            return;
        }
        let Some(replicant) = self.replicants.get_mut(&id) else {
            return;
        };
        let calm = next_ms.is_none() || self.shared.planted(Bug::RestUnconfirmed);
        let restful = calm && replicant.is_restful(&self.shared);
        let changed = wrote == Wrote::Something || !restful;
        if replicant.marked == Marked::Not || (changed && replicant.marked == Marked::Resting) {
            replicant.marked = Marked::Awake;
            out.write(Table::Marks, key_of(id.0), Some(encode(&Mark::Awake)));
        }
        if restful {
            self.replicants.doze(id);
        }
    }

    /// Those that have been idle for longest are to rest.
    pub(super) fn retire(&mut self, out: &mut Output) {
        if !self.replicants.has_archive() {
            return;
        }
        let (me, reader) = (&self.shared.me, self.shared.reader);
        while let Some(replicant) = self.replicants.longest_idle(self.shared.tuning.idle_max) {
            if replicant.marked == Marked::Resting {
                continue;
            }
            if let Some(summary) = replicant.summary(me, reader) {
                replicant.marked = Marked::Resting;
                let mark = encode(&Mark::Resting(summary));
                out.write(Table::Marks, key_of(replicant.record.id.0), Some(mark));
            }
        }
    }
}

/// Whether anything of a replicant was written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrote {
    Nothing,
    Something,
}

impl Replicant {
    /// True if nothing is under way with it, here or anywhere, as far as can be known here. Asked of one that wants no timer.
    pub(super) fn is_restful(&self, shared: &Shared) -> bool {
        let record = &self.record;
        let still = record.form == Form::Replica
            && record.handover == Handover::ByHand
            && record.gate.is_none()
            && record.making.is_none()
            && record.ran.is_empty()
            && record.mend == Mend::Nothing
            && record.recovery == Recovery::Done
            && record.promised == record.epoch
            && record.meta.is_some()
            && !record.forgetting;
        let quiet = self.call.is_none()
            && self.pending.is_empty()
            && self.candidacy.is_none()
            && self.deadlines.is_empty()
            && !self.woken
            && self.log.parked().next().is_none();
        if !still || !quiet || self.log.is_deleted() {
            return false;
        }
        let last = self.log.last();
        let unsure = shared.planted(Bug::RestUnconfirmed);
        let done = |row: &Row| row.state == ReplicaState::Live && row.applied == last;
        let same = last > 0
            && done(self.row(&shared.me))
            && (unsure || record.rows.values().all(done))
            && self.has_its_members();
        same && match self.leads(&shared.me) {
            true => unsure || self.is_confirmed_by_all(&shared.me),
            false => !self.is_unheard(shared) && self.leader_last == last,
        }
    }

    fn has_its_members(&self) -> bool {
        let rows: BTreeSet<&SiteName> = self.record.rows.keys().collect();
        let members = self.log.members();
        members.is_none_or(|(_, members)| members.iter().collect::<BTreeSet<_>>() == rows)
    }

    fn is_confirmed_by_all(&self, me: &SiteName) -> bool {
        let last = self.log.last();
        let confirmed = |progress: &Progress| {
            progress.have == Some(last)
                && progress.applied == last
                && progress.rows_version == self.record.rows_version
                && !progress.forgotten
        };
        let mut others = self.record.rows.keys().filter(|site| *site != me);
        others.all(|site| self.progress.get(site).is_some_and(confirmed))
    }

    /// After rest: what was certain when it was let go.
    pub(super) fn resume(&mut self, me: &SiteName) {
        let Some(row) = self.record.rows.get(me).cloned() else {
            return;
        };
        let last = self.log.last();
        self.woken = false;
        self.confirmed = (row.incarnation, row.version);
        self.confirmed_applied = row.applied;
        self.leader_last = last;
        self.shown = Some(row);
        if self.leads(me) {
            for site in self.others(me) {
                let progress = Progress {
                    have: Some(last),
                    applied: last,
                    rows_version: self.record.rows_version,
                    ..Progress::default()
                };
                self.progress.insert(site, progress);
            }
        }
        self.placed.assume(&self.log, self.record.id);
    }

    /// None if it is not there, or has no name: then it does not rest either.
    fn summary(&self, me: &SiteName, reader: Reader) -> Option<Summary> {
        let record = &self.record;
        let desired = self.log.desired(self.log.last()).fields;
        let runs = self.log.iter().filter_map(|kept| match &kept.entry.body {
            Body::Run(op) | Body::Park(op) => Some(op.id),
            Body::Void(_) => None,
        });
        Some(Summary {
            service: record.service.clone(),
            kind: record.create.as_ref().map(reader.kind).unwrap_or_default(),
            meta: record.meta.clone()?,
            local: self.row(me).local.clone()?,
            leader: record.epoch.site.clone(),
            sites: record.rows.keys().cloned().collect(),
            parent: record.parent,
            has_content: desired.values().any(|value| (reader.is_content)(value)),
            operations: runs.filter(|op| op.0 != record.id.0).collect(),
        })
    }
}
