//! The log on its way: the leader's messages, the followers' reports, compaction, the end of tombstones.

use cheops_model::SiteName;

use super::log::{Base, Body, Entry, Kept, Stage};
use super::message::{Message, ReplicaState, Result, Row};
use super::planted::Bug;
use super::promote::Quorum;
use super::replicant::{Progress, Replicant};
use super::shared::Shared;
use crate::ids::{Boot, Epoch, OperationId};
use crate::limits::{
    BATCH_ENTRIES_MAX, COMPACT_EVERY, IN_FLIGHT_MAX, NEWS_MS, REPORT_MS, RESEND_MS,
};
use crate::operation::{Answer, Form, Kind, Operation};
use crate::output::Output;
use crate::record::{Table, log_key};

impl Replicant {
    /// Keeps this site's own row true.
    pub(super) fn refresh_row(&mut self, shared: &mut Shared) {
        let (state, note) = self.state(shared);
        let (leads, shown) = (self.leads(&shared.me), self.shown.take());
        let row = self.row_mut(&shared.me);
        row.state = state;
        row.note = note;
        row.incarnation = shared.boot.incarnation;
        let same = shown.as_ref() == Some(&*row);
        if !same {
            row.version = shared.stamp().max(row.version + 1);
        }
        let row = row.clone();
        self.shown = Some(row);
        if !same && leads {
            self.record.rows_version += 1;
        } else if !same {
            self.report_ms = self.report_ms.min(shared.now_ms + REPORT_MS);
            self.report_pause_ms = 0;
        }
    }

    /// Everything the followers lack, to those whose turn it is. What was sent is taken to be on its way until its time
    /// is over, or an answer shows that it is not: an entry is sent once, however long its answer takes.
    pub(super) fn send(&mut self, shared: &mut Shared, out: &mut Output) {
        let last = self.log.last();
        if last == 0 {
            return;
        }
        let strays = self.strays(shared);
        for site in self.others(&shared.me).into_iter().chain(strays) {
            let rows_version = self.record.rows_version;
            let left = self.has_left(&site);
            let progress = self
                .progress
                .entry(site.clone())
                .or_insert_with(|| Progress {
                    heard_ms: shared.now_ms,
                    ..Progress::default()
                });
            let lacks =
                left || progress.have != Some(last) || progress.rows_version != rows_version;
            let lease = self.record.handover == crate::operation::Handover::Auto;
            if !(lacks || lease) || progress.forgotten {
                continue;
            }
            if progress.next_ms <= shared.now_ms {
                progress.pause_ms = (progress.pause_ms * 2).clamp(RESEND_MS.0, RESEND_MS.1);
                if lease {
                    progress.pause_ms = crate::limits::LEASE_RENEW_MS;
                }
                progress.next_ms = shared.now_ms + progress.pause_ms;
                if !shared.planted(Bug::TrustSent) {
                    progress.sent = None;
                }
            } else if !progress.takes_more(last) || !shared.is_up(&site) {
                continue;
            }
            progress.sent_ms = shared.now_ms;
            let message = if left && progress.have == Some(last) {
                self.left_message()
            } else {
                self.append_message(&site, shared)
            };
            shared.send(&site, message, out);
        }
    }

    pub(super) fn left_message(&self) -> Message {
        Message::Left {
            replicant: self.record.id,
            epoch: self.record.epoch.clone(),
        }
    }

    /// What comes after what the site has, or is on its way there.
    fn append_message(&mut self, to: &SiteName, shared: &Shared) -> Message {
        let (have, sent) = self
            .progress
            .get(to)
            .map_or((None, None), |progress| (progress.have, progress.sent));
        let have = have.or_else(|| self.presumed(to));
        let from = sent.max(have).unwrap_or_else(|| self.log.last());
        let base = (from < self.log.base.index).then(|| self.whole_base(shared));
        let from = from.max(self.log.base.index);
        let entries = self.batch(from, to, shared);
        if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
            self.note_brought(first.index..=last.index, &shared.me);
        }
        if let Some(progress) = self.progress.get_mut(to) {
            // Of a site that was only asked, nothing is known: it answers first.
            progress.sent = have.map(|_| entries.last().map_or(from, |last| last.index));
        }
        let mut header = self.header();
        header.sent = (shared.boot, shared.now_ms);
        Message::Append {
            header,
            entries,
            base,
        }
    }

    /// What a site has that has not said so in this reign: the first message brings what it lacks, so that it need not
    /// be asked before. Wrong guesses cost bytes and nothing else, since a follower takes only what comes next in its
    /// log; where the guess would cost a base, it is asked.
    fn presumed(&self, site: &SiteName) -> Option<u64> {
        let row = self.record.rows.get(site)?;
        let unheard = row.version == 0;
        (unheard || row.applied >= self.log.base.index).then_some(row.applied)
    }

    pub(super) fn whole_base(&self, shared: &Shared) -> Base {
        Base {
            recent: shared.recent(self.record.id),
            ..self.log.base.clone()
        }
    }

    fn batch(&self, after: u64, to: &SiteName, shared: &Shared) -> Vec<Entry> {
        let lacking = self.log.iter().filter(|kept| kept.entry.index > after);
        let more = self.may_bring_more(to, shared);
        lacking
            .take_while(|kept| more || kept.stage != Stage::Queued)
            .take(BATCH_ENTRIES_MAX)
            .map(|kept| self.aged(kept, shared))
            .collect()
    }

    /// As it leaves this site: with what is left of its time.
    pub(super) fn aged(&self, kept: &Kept, shared: &Shared) -> Entry {
        let mut entry = kept.entry.clone();
        let left = self
            .deadlines
            .get(&entry.index)
            .map(|at| at.saturating_sub(shared.now_ms));
        entry.ttl_left_ms = left.or(entry.ttl_left_ms);
        if kept.stage == Stage::Expired {
            entry.ttl_left_ms = Some(0);
        }
        entry
    }

    /// To the leader, from a follower.
    pub(super) fn on_report(
        &mut self,
        from: &SiteName,
        report: Report,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        if report.promised > self.record.promised {
            // Deposed. What was given positions since goes to the new leader when it is heard of.
            self.record.promised = report.promised.clone();
        }
        if !self.leads(&shared.me) && report.promised < self.record.promised {
            // It follows somebody who was deposed: it may have said that it has no record when it was asked.
            let decline = Message::Decline {
                replicant: self.record.id,
                epoch: report.epoch,
                promised: self.record.promised.clone(),
            };
            return shared.send(from, decline, out);
        }
        if !self.leads(&shared.me) {
            return;
        }
        if !self.is_involved(from) {
            let stray = self.log.members().is_none();
            let returned = !report.recovering && self.is_leaving(from);
            let kept = report.runs.last > 0 && (stray || returned);
            if !kept {
                // It left, and its disk has forgotten that.
                return shared.send(from, self.left_message(), out);
            }
            // It came, or came back, by a log that has parted from this one. It is taken in, as a heal destroys
            // nothing; if this log says that it goes, it is seen off again.
            self.record.rows.insert(from.clone(), report.row.clone());
            self.record.rows_version += 1;
            self.record.forgetting = false;
        }
        // It has a record, whatever it said before.
        self.progress.entry(from.clone()).or_default().forgotten = false;
        if report.epoch != self.record.epoch {
            let runs = self.log.runs();
            let fork = runs.fork(&report.runs);
            if report.runs.has_folded_past(fork) && !runs.has_folded_past(fork) {
                // It has folded what this site never had: only a reign that knows it can go on.
                return self.stand(Quorum::Heard, shared);
            }
            // It has not heard of this reign, or could not follow yet: the whole runs are in every message. Whatever it
            // has to offer comes first: the tombstone stays until then.
            self.record.forgetting = false;
            let progress = self.progress.entry(from.clone()).or_default();
            (progress.have, progress.sent) = (None, None);
            return;
        }
        let have = self.log.fork(&report.runs);
        let before = self.progress.remove(from).unwrap_or_default();
        let advanced = before.have < Some(have);
        let mut progress = Progress {
            have: Some(have),
            heard_ms: shared.now_ms,
            rows_version: report.rows_version,
            applied: report.row.applied,
            leased_ms: (report.heard.0 == shared.boot).then_some(report.heard.1),
            ..before
        };
        let behind = have < self.log.last();
        if behind && progress.has_nothing_under_way(&report, shared) {
            progress.say_again(shared.now_ms);
        } else if behind && advanced {
            // What else was sent comes after it.
            progress.next_ms = shared.now_ms + RESEND_MS.0;
            progress.pause_ms = RESEND_MS.0;
        }
        if report.recovering {
            progress.applied = 0;
            progress.rows_version = 0;
            progress.say_again(shared.now_ms);
        }
        self.progress.insert(from.clone(), progress);
        let known = self.record.rows.get(from).cloned();
        if known.is_none_or(|known| report.row.is_newer_than(&known)) && !report.recovering {
            self.record.rows.insert(from.clone(), report.row.clone());
            self.record.rows_version += 1;
        }
        self.spread_news(shared.now_ms);
        self.hear_expired(&report.results, have, shared);
        self.hear_results(report.results, shared, out);
        self.void_refused(shared, out);
    }

    /// How the replicas are is told soon, and not at once: it changes with everything that any site does, and goes along
    /// with the next entry if there is one.
    fn spread_news(&mut self, now_ms: u64) {
        let (last, rows_version) = (self.log.last(), self.record.rows_version);
        for progress in self.progress.values_mut() {
            if progress.have == Some(last) && progress.rows_version != rows_version {
                progress.next_ms = progress.next_ms.min(now_ms + NEWS_MS);
                progress.pause_ms = 0;
            }
        }
    }

    /// What one site has given up as too late is too late. That site may forget it with its disk, and this one's clock
    /// starts anew with every start: whoever gets it from here later, gets it with no time left.
    fn hear_expired(&mut self, results: &[Result], have: u64, shared: &Shared) {
        // Beyond what both logs have, an index means something else there.
        let expired = results
            .iter()
            .filter(|result| result.stage == Stage::Expired && result.index <= have);
        for Result { index, .. } in expired {
            self.log.end_time(*index);
            if let Some(at) = self.deadlines.get_mut(index) {
                *at = shared.now_ms.min(*at);
            }
        }
    }

    /// The first success is the answer.
    fn hear_results(&mut self, results: Vec<Result>, shared: &mut Shared, out: &mut Output) {
        for result in results {
            let Some(kept) = self.log.get(result.index) else {
                continue;
            };
            let Body::Run(op) = &kept.entry.body else {
                continue;
            };
            let (id, digest) = (op.id, op.digest);
            let open = !shared.answers.is_answered(id);
            let status = match (result.stage, self.record.form) {
                (Stage::Applied(status), _) | (Stage::Refused(status), Form::Queue) => status,
                // It is settled where the create is found void.
                (Stage::Covered, _) if self.was_never_made() => continue,
                (Stage::Covered, _) => 200,
                (Stage::Expired, Form::Queue) if open => {
                    shared.conclude(id, digest, Answer::Cancelled, out);
                    continue;
                }
                _ => continue,
            };
            if open {
                let meta = self.record.meta.clone();
                shared.conclude(
                    id,
                    digest,
                    Answer::Service {
                        status,
                        body: Vec::new(),
                        meta,
                    },
                    out,
                );
            }
        }
    }

    /// What every site has refused never was.
    fn void_refused(&mut self, shared: &mut Shared, out: &mut Output) {
        let refused = |row: &Row| match (row.state, row.note) {
            (ReplicaState::Diverged, Some((index, status))) => Some((index, status)),
            _ => None,
        };
        let mut all = self.record.rows.values().map(refused);
        let Some(Some((index, status))) = all.next() else {
            return;
        };
        if !all.all(|other| other.is_some_and(|(same, _)| same == index)) {
            return;
        }
        let Some(Body::Run(op)) = self.log.get(index).map(|kept| kept.entry.body.clone()) else {
            return;
        };
        if self.log.is_void(op.id) {
            return;
        }
        self.append(Body::Void(op.id), Stage::Void, shared, out);
        self.forget_refused(op.id);
        let answer = Answer::Service {
            status,
            body: Vec::new(),
            meta: self.record.meta.clone(),
        };
        shared.conclude(op.id, op.digest, answer, out);
        if op.kind == Kind::Create {
            self.tell_never_made(shared, out);
        }
    }

    /// The create is void: it never was.
    pub(super) fn was_never_made(&self) -> bool {
        self.log.is_void(OperationId(self.record.id.0))
    }

    /// Nothing happened to what never was, whatever was to happen to it.
    pub(super) fn tell_never_made(&self, shared: &mut Shared, out: &mut Output) {
        let open = |op: &&Operation| !shared.answers.is_answered(op.id);
        let runs = self.log.iter().filter_map(|kept| match &kept.entry.body {
            Body::Run(op) if op.kind != Kind::Create => Some(op),
            _ => None,
        });
        let untold: Vec<_> = runs.filter(open).map(|op| (op.id, op.digest)).collect();
        for (op, digest) in untold {
            shared.conclude(op, digest, Answer::Gone, out);
        }
    }

    /// Folds what every site has done.
    pub(super) fn compact(&mut self, shared: &mut Shared, out: &mut Output) {
        if shared.planted(Bug::NeverCompact) {
            return;
        }
        let mut done = self.row(&shared.me).applied;
        for site in self.others(&shared.me) {
            let progress = self.progress.get(&site);
            done = done.min(
                progress
                    .and_then(|p| p.have.map(|have| have.min(p.applied)))
                    .unwrap_or(0),
            );
        }
        // The delete itself stays until the tombstone goes.
        let delete =
            |kept: &Kept| matches!(&kept.entry.body, Body::Run(op) if op.kind == Kind::Delete);
        if self.record.form == Form::Replica && self.log.iter().any(delete) {
            return;
        }
        if done >= self.log.base.index + COMPACT_EVERY as u64 {
            self.compact_to(done, shared, out);
        }
        self.stop_waiting(done, shared, out);
    }

    /// A site that is away for too long keeps its duty but loses its queue: it will be settled. What is not state,
    /// actions and queued requests, is kept for it.
    fn stop_waiting(&mut self, done: u64, shared: &mut Shared, out: &mut Output) {
        if self.record.form == Form::Queue {
            return;
        }
        let is_state = |kept: &Kept| match &kept.entry.body {
            Body::Run(op) => op.kind != Kind::Action,
            Body::Park(_) | Body::Void(_) => true,
        };
        let unrun = self
            .log
            .iter()
            .find(|kept| kept.entry.index > done && !is_state(kept));
        let most = unrun.map_or(u64::MAX, |kept| kept.entry.index - 1);
        let upto = self.too_old(shared).max(self.too_much(shared));
        let applied = self.row(&shared.me).applied;
        self.compact_to(upto.min(most).min(applied), shared, out);
    }

    /// Up to where the log is more than is kept for anybody.
    fn too_much(&self, shared: &Shared) -> u64 {
        let tuning = &shared.tuning;
        let many = self.log.len() > tuning.retain_entries;
        let heavy = self.log.bytes() > tuning.retain_bytes;
        let few = self
            .log
            .last()
            .saturating_sub(tuning.retain_entries as u64 / 2);
        let light = self.log.lightest(tuning.retain_bytes / 2);
        (if many { few } else { 0 }).max(if heavy { light } else { 0 })
    }

    /// Up to where only sites lack it that were not heard of for too long.
    fn too_old(&self, shared: &Shared) -> u64 {
        let last = self.log.last();
        let progress = |site: &SiteName| {
            let known = self.progress.get(site);
            let done = known.and_then(|known| known.have.map(|have| have.min(known.applied)));
            (
                done.unwrap_or(0),
                known.map_or(shared.now_ms, |known| known.heard_ms),
            )
        };
        let gone = |(done, heard_ms): &(u64, u64)| {
            *done < last && shared.now_ms >= heard_ms.saturating_add(shared.tuning.retain_ms)
        };
        let others = self.others(&shared.me);
        let (away, here): (Vec<_>, Vec<_>) = others.iter().map(progress).partition(gone);
        if away.is_empty() {
            return 0;
        }
        here.into_iter().map(|(done, _)| done).min().unwrap_or(last)
    }

    pub(super) fn compact_to(&mut self, index: u64, shared: &mut Shared, out: &mut Output) {
        if index <= self.log.base.index || shared.planted(Bug::NeverCompact) {
            return;
        }
        let folded = self.log.compact(index);
        let index = self.log.base.index;
        self.deadlines.retain(|at, _| *at > index);
        for kept in &folded {
            match &kept.entry.body {
                Body::Run(op) => {
                    shared.fold(self.record.id, op.id, op.digest, out);
                    shared.finish(op);
                }
                // Nobody lets it in again.
                Body::Park(_) | Body::Void(_) => {
                    self.record.ran.remove(&kept.entry.body.operation());
                }
            }
        }
        self.drop_records(&folded, out);
    }

    pub(super) fn drop_records(&mut self, kept: &[Kept], out: &mut Output) {
        for kept in kept {
            out.write(
                Table::Log,
                log_key(self.record.id.0, kept.entry.index),
                None,
            );
        }
    }

    /// True once every member has confirmed the delete: the tombstone may go.
    pub(super) fn is_dead_everywhere(&self, shared: &Shared) -> bool {
        let last = self.log.last();
        let dead = |row: &Row| row.state == ReplicaState::Deleted && row.applied == last;
        let confirmed = |site: &SiteName| {
            let progress = self.progress.get(site);
            *site == shared.me
                || progress.is_some_and(|p| p.have == Some(last) && p.applied == last)
        };
        let forgotten = |site: &SiteName| self.progress.get(site).is_some_and(|p| p.forgotten);
        last > 0
            && self.strays(shared).iter().all(forgotten)
            && (shared.planted(Bug::ForgetTombstone) && dead(self.row(&shared.me))
                || self
                    .record
                    .rows
                    .iter()
                    .all(|(site, row)| forgotten(site) || (dead(row) && confirmed(site))))
    }

    /// Asks the others to remove their tombstones; true once all have.
    pub(super) fn forget(&mut self, shared: &mut Shared, out: &mut Output) -> bool {
        if !self.record.forgetting && self.is_dead_everywhere(shared) {
            self.record.forgetting = true;
        }
        if !self.record.forgetting {
            return false;
        }
        let epoch: Epoch = self.record.epoch.clone();
        let mut all = true;
        for site in self.others(&shared.me) {
            let progress = self.progress.entry(site.clone()).or_default();
            if progress.forgotten {
                continue;
            }
            all = false;
            if progress.next_ms <= shared.now_ms {
                progress.pause_ms = (progress.pause_ms * 2).clamp(RESEND_MS.0, RESEND_MS.1);
                progress.next_ms = shared.now_ms + progress.pause_ms;
                let message = Message::Forget {
                    replicant: self.record.id,
                    epoch: epoch.clone(),
                };
                shared.send(&site, message, out);
            }
        }
        all || (shared.planted(Bug::ForgetTombstone))
    }
}

impl Progress {
    /// True if it can be sent what it was not sent yet. What it was sent first comes from [`Progress::say_again`].
    fn takes_more(&self, last: u64) -> bool {
        let room = self.have.unwrap_or(0) + IN_FLIGHT_MAX as u64;
        self.sent.is_some_and(|sent| sent < last && sent < room)
    }

    /// True if it has answered everything that was sent to it.
    fn has_nothing_under_way(&self, report: &Report, shared: &Shared) -> bool {
        let (boot, sent_ms) = report.heard;
        let answered = boot == shared.boot && sent_ms >= self.sent_ms;
        self.sent.is_none() || (answered && !shared.planted(Bug::TrustSent))
    }

    /// From what it is known to have, at once.
    pub(super) fn say_again(&mut self, now_ms: u64) {
        self.next_ms = now_ms;
        self.pause_ms = 0;
        self.sent = None;
    }
}

/// What a follower told.
pub(super) struct Report {
    pub(super) epoch: Epoch,
    pub(super) promised: Epoch,
    pub(super) runs: super::log::Runs,
    pub(super) rows_version: u64,
    pub(super) row: Row,
    pub(super) results: Vec<Result>,
    pub(super) recovering: bool,
    pub(super) heard: (Boot, u64),
}
