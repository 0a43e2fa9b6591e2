//! The follower's side: what the leader says is written, applied, and reported.

use cheops_model::SiteName;

use super::log::{Base, Body, Entry, Stage};
use super::message::{Header, Message, ReplicaState, Result};
use super::outbox::{WHERE_CONFLICTS_PART, deposed};
use super::planted::Bug;
use super::replicant::{Mend, Recovery, Replicant};
use super::shared::Shared;
use crate::limits::{BATCH_ENTRIES_MAX, RESEND_MS};
use crate::operation::{Kind, Operation};
use crate::output::Output;

impl Replicant {
    /// From whoever says it leads. `None`: nothing to reply now.
    pub(super) fn on_append(
        &mut self,
        from: &SiteName,
        header: Header,
        entries: Vec<Entry>,
        base: Option<Base>,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        if header.epoch.site != *from {
            return;
        }
        if !header.rows.contains_key(&shared.me) {
            if header.epoch > self.record.epoch && self.log.last() > 0 {
                // The reign this site came by is over, and this one has not heard of it.
                self.report(from, shared, out);
            }
            return;
        }
        if self.record.recovery == Recovery::Stranded {
            // Nobody knew it when this disk asked; now somebody leads it.
            self.record.recovery = Recovery::Asking;
        }
        let old = header.epoch < self.record.promised || header.epoch < self.record.epoch;
        if old && !shared.planted(Bug::IgnorePromise) {
            return self.report(from, shared, out);
        }
        if self.record.recovery == Recovery::Asking {
            self.relearn(&header, shared);
        }
        if header.epoch > self.record.epoch {
            self.suspect_untold(&header, shared);
        }
        if header.epoch > self.record.epoch && !self.follow(&header, shared, out) {
            return;
        }
        if header.epoch != self.record.epoch && !shared.planted(Bug::IgnorePromise) {
            return;
        }
        self.heard = Some(header.sent);
        self.granted_until_ms = shared.now_ms + crate::limits::LEASE_MS;
        self.leader_last = header.runs.last;
        if self.record.recovery == Recovery::Asking {
            self.trust(&header, shared);
        }
        let lacking = self.record.recovery == Recovery::Rebasing;
        if let Some(base) = base.filter(|base| lacking || base.index > self.log.last()) {
            let fork = self.log.fork(&header.runs);
            self.take_base(base, fork, shared, out);
        }
        if self.record.recovery == Recovery::Rebasing {
            return self.report(from, shared, out);
        }
        for entry in entries {
            if entry.index == self.log.last() + 1 {
                self.take_entry(entry, shared, out);
            }
        }
        self.merge(&header, shared);
        self.compact_to(
            header.runs.base.min(self.row(&shared.me).applied),
            shared,
            out,
        );
        self.walk(shared);
        self.refresh_row(shared);
        self.report(from, shared, out);
    }

    pub(super) fn take_entry(&mut self, entry: Entry, shared: &mut Shared, out: &mut Output) {
        let op = entry.body.operation();
        shared.drop_outbox(op, out);
        if let Some(left) = entry.ttl_left_ms {
            self.deadlines
                .insert(entry.index, shared.now_ms.saturating_add(left));
        }
        let carrier = self.row(&shared.me).state == ReplicaState::Carrier;
        let earlier = entry.index <= self.row(&shared.me).since;
        // It may have been done here under another reign, and been folded there.
        let folded = shared.answers.is_folded(self.record.id, op);
        let ran = self.take_ran(&entry.body);
        let ran = ran.or(folded.then_some(Stage::Covered));
        let stage = match (&entry.body, ran) {
            _ if carrier => Stage::Void,
            (Body::Run(op), _) if earlier && op.kind != Kind::Create => {
                self.record.mend = Mend::Settle;
                Stage::Covered
            }
            (Body::Run(_), Some(ran)) => self.rejoin(&entry.body, ran),
            _ => entry.body.first_stage(),
        };
        if let Body::Void(id) = entry.body {
            self.forget_refused(id);
        }
        self.log.push(entry, stage);
    }

    /// What this site lacks was folded: it takes over what that came to, and will be settled.
    pub(super) fn take_base(
        &mut self,
        mut base: Base,
        fork: u64,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        if fork < self.log.base.index {
            self.leave_remains(&base, fork, shared, out);
        }
        if fork >= self.log.base.index || !shared.planted(Bug::DropBesideRemains) {
            self.cut(fork.max(self.log.base.index), shared, out);
        }
        let shared_past = self.log.truncate(self.log.base.index);
        self.drop_records(&shared_past, out);
        self.record.mend = Mend::Settle;
        if self.record.recovery == Recovery::Rebasing {
            self.record.recovery = Recovery::Done;
        }
        for parked in &base.parked {
            shared.drop_outbox(parked.id, out);
        }
        self.row_mut(&shared.me).applied = base.index;
        for (op, digest) in std::mem::take(&mut base.recent) {
            shared.fold(self.record.id, op, digest, out);
        }
        self.log.base = base;
    }

    /// Both sides of a fork have folded since: what this one's came to is parked as a conflict, nothing is dropped.
    fn leave_remains(&mut self, theirs: &Base, fork: u64, shared: &mut Shared, out: &mut Output) {
        let mine = &self.log.base;
        let differs =
            |(field, value): &(&String, &String)| theirs.fields.get(*field) != Some(*value);
        let fields = mine.fields.iter().filter(differs);
        let id = shared
            .key
            .remains_of(self.record.id, &self.record.epoch, mine.index);
        let mut remains = Operation::new(id, self.record.id, Kind::Update, shared.me.clone());
        remains.fields = fields.map(|(f, v)| (f.clone(), v.clone())).collect();
        if mine.members != theirs.members {
            remains.sites = mine.members.iter().flatten().cloned().collect();
        }
        // Also if nothing differs: what actions there were, nobody knows any more.
        let parked = mine.parked.iter().cloned();
        let parked = parked.map(|op| (op, WHERE_CONFLICTS_PART));
        for (op, fork) in parked.chain([(remains, fork)]) {
            shared.keep_in_outbox(deposed(op, self, fork), out);
        }
    }

    /// Takes over what others know of each other; nobody else knows more of this site than itself.
    pub(super) fn merge(&mut self, header: &Header, shared: &Shared) {
        if self.record.meta.is_none() {
            self.record.meta = header.meta.clone();
        }
        if self.record.create.is_none() {
            self.record.create = header.create.clone();
            self.record.parent = header.parent;
            self.record.about = header.about.clone();
        }
        if let Some(mine) = header.rows.get(&shared.me) {
            self.confirmed = (mine.incarnation, mine.version);
            self.confirmed_applied = mine.applied;
        }
        for (site, row) in header.rows.iter().filter(|(site, _)| **site != shared.me) {
            let known = self.record.rows.get(site);
            let mut row = row.clone();
            if row.version == 0 {
                // Another reign was told what it is called there; should its disk forget it, nobody else could say. One that
                // left and came back has another.
                let same = known.filter(|known| known.since == row.since);
                row.local = same.and_then(|known| known.local.clone());
            }
            self.record.rows.insert(site.clone(), row);
        }
        self.record
            .rows
            .retain(|site, _| *site == shared.me || header.rows.contains_key(site));
        self.record.rows_version = header.rows_version;
    }

    /// Tells the leader how far this site is.
    pub(super) fn report(&mut self, to: &SiteName, shared: &mut Shared, out: &mut Output) {
        if to == &shared.me {
            return;
        }
        let row = self.row(&shared.me).clone();
        let unknown = self
            .log
            .iter()
            .filter(|kept| kept.entry.index > self.confirmed_applied);
        let results = unknown
            .filter(|kept| kept.stage != Stage::Queued)
            .take(BATCH_ENTRIES_MAX)
            .map(|kept| Result {
                index: kept.entry.index,
                stage: kept.stage.clone(),
            })
            .collect();
        let report = Message::Report {
            replicant: self.record.id,
            epoch: self.record.epoch.clone(),
            promised: self.record.promised.clone(),
            runs: self.log.runs(),
            rows_version: self.record.rows_version,
            row,
            results,
            recovering: self.record.recovery == Recovery::Asking,
            heard: self.heard.unwrap_or_default(),
        };
        shared.send(to, report, out);
        self.report_pause_ms = (self.report_pause_ms * 2).clamp(RESEND_MS.0, RESEND_MS.1);
        self.report_ms = shared.now_ms + self.report_pause_ms;
    }

    /// Says it again until the leader's messages show that it was heard.
    pub(super) fn report_if_unheard(&mut self, shared: &mut Shared, out: &mut Output) {
        let row = self.row(&shared.me);
        let heard = self.confirmed == (row.incarnation, row.version)
            && self.record.recovery == Recovery::Done;
        if heard {
            self.report_pause_ms = 0;
            self.report_ms = shared.now_ms;
        } else if self.report_ms <= shared.now_ms {
            let (leader, next) = (&self.record.epoch.site, &self.record.promised.site);
            let (leader, next) = (leader.clone(), next.clone());
            self.report(&leader, shared, out);
            if next != leader {
                self.report(&next, shared, out);
            }
        }
    }

    pub(super) fn is_unheard(&self, shared: &Shared) -> bool {
        let row = self.row(&shared.me);
        self.confirmed != (row.incarnation, row.version) || self.record.recovery != Recovery::Done
    }
}
