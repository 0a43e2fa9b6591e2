//! Hand-over: a new reign adopts the longest log among those it hears; what others had beyond is offered again.

use std::collections::{BTreeMap, BTreeSet};

use cheops_model::SiteName;

use super::log::{Base, Body, Entry, Kept, Runs, Stage};
use super::message::{Header, Message};
use super::outbox::{WHERE_CONFLICTS_PART, deposed};
use super::planted::Bug;
use super::replicant::{Mend, Recovery, Replicant};
use super::shared::Shared;
use crate::ids::Epoch;
use crate::limits::{LEASE_TRUST_MS, PROMOTE_PATIENCE_MS, RESEND_MS};
use crate::operation::{Handover, Kind, Operation};
use crate::output::Output;

/// Whose promise is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quorum {
    /// Whoever answers in time: somebody has decided.
    Heard,
    /// More than half: nobody has.
    Majority,
    /// Everybody: this disk has forgotten what it did.
    All,
}

/// On the way to lead. Only the promise to itself is on disk.
pub(crate) struct Candidacy {
    pub(crate) epoch: Epoch,
    quorum: Quorum,
    since_ms: u64,
    pub(crate) next_ms: u64,
    votes: BTreeMap<SiteName, Vote>,
    unknown: BTreeSet<SiteName>,
}

struct Vote {
    header: Header,
    entries: Vec<Entry>,
    base: Option<Base>,
}

impl Vote {
    fn rank(&self) -> (Option<&Epoch>, u64) {
        self.header.runs.rank()
    }
}

impl Replicant {
    /// Wants to lead.
    pub(super) fn stand(&mut self, quorum: Quorum, shared: &mut Shared) {
        let counter = self.record.promised.counter.max(self.record.epoch.counter) + 1;
        let epoch = Epoch {
            counter,
            site: shared.me.clone(),
        };
        self.record.promised = epoch.clone();
        let (votes, unknown) = (BTreeMap::new(), BTreeSet::new());
        let now_ms = shared.now_ms;
        self.candidacy = Some(Candidacy {
            epoch,
            quorum,
            since_ms: now_ms,
            next_ms: now_ms,
            votes,
            unknown,
        });
        shared.touched.insert(self.record.id);
    }

    /// Asks those who have not answered, and takes the lead when enough have.
    pub(super) fn canvass(&mut self, shared: &mut Shared, out: &mut Output) {
        self.watch_vacancy(shared);
        self.stand_if_needed(shared);
        let Some(candidacy) = &mut self.candidacy else {
            return;
        };
        if candidacy.next_ms <= shared.now_ms {
            candidacy.next_ms = shared.now_ms + RESEND_MS.0 * 2;
            let (epoch, runs) = (candidacy.epoch.clone(), self.log.runs());
            let silent = |site: &SiteName| {
                !candidacy.votes.contains_key(site) && !candidacy.unknown.contains(site)
            };
            let sites: Vec<SiteName> = self
                .record
                .rows
                .keys()
                .filter(|site| **site != shared.me && silent(site))
                .cloned()
                .collect();
            for site in sites {
                let replicant = self.record.id;
                shared.send(
                    &site,
                    Message::Prepare {
                        replicant,
                        epoch: epoch.clone(),
                        runs: runs.clone(),
                    },
                    out,
                );
            }
        }
        let members = self.record.rows.len();
        let candidacy = self.candidacy.as_ref().expect("it stands");
        let heard = candidacy.votes.len() + candidacy.unknown.len() + 1;
        let patient = shared.now_ms < candidacy.since_ms + PROMOTE_PATIENCE_MS;
        let enough = match candidacy.quorum {
            Quorum::Heard => heard == members || !patient,
            Quorum::Majority => heard * 2 > members && (heard == members || !patient),
            Quorum::All => heard == members,
        };
        if enough && self.record.gate.is_none() && self.call.is_none() {
            self.enthrone(shared, out);
        }
    }

    /// Without being told: after a restore, or when a leader with a lease is gone.
    fn stand_if_needed(&mut self, shared: &mut Shared) {
        if self.candidacy.is_some() {
            return;
        }
        let mine = self.record.epoch.site == shared.me || self.record.promised.site == shared.me;
        if self.record.recovery == Recovery::Asking && mine && self.report_ms <= shared.now_ms {
            self.report_ms = shared.now_ms + RESEND_MS.1;
            return self.stand(Quorum::All, shared);
        }
        if self
            .vacancy_ends(shared)
            .is_some_and(|at_ms| at_ms <= shared.now_ms)
        {
            self.vacant_since_ms = None;
            return self.stand(self.usual_quorum(), shared);
        }
        let auto = self.record.handover == Handover::Auto && self.record.recovery == Recovery::Done;
        if auto
            && !self.leads(&shared.me)
            && !self.is_to_leave(shared)
            && self.log.last() > 0
            && self.patience_ends(shared) <= shared.now_ms
        {
            self.granted_until_ms = shared.now_ms;
            self.stand(Quorum::Majority, shared);
        }
    }

    pub(super) fn usual_quorum(&self) -> Quorum {
        match self.record.handover {
            Handover::ByHand => Quorum::Heard,
            Handover::Auto => Quorum::Majority,
        }
    }

    /// A reign was promised and has not begun: its leader-to-be tries again, and if it is gone, the leader before.
    pub(super) fn vacancy_ends(&self, shared: &Shared) -> Option<u64> {
        let since_ms = self.vacant_since_ms?;
        let me = &shared.me;
        if self.record.promised.site == *me {
            Some(since_ms + PROMOTE_PATIENCE_MS / 2)
        } else if self.record.epoch.site == *me {
            Some(since_ms + 3 * PROMOTE_PATIENCE_MS)
        } else {
            None
        }
    }

    fn watch_vacancy(&mut self, shared: &Shared) {
        let vacant = self.record.promised != self.record.epoch
            && self.candidacy.is_none()
            && self.record.recovery == Recovery::Done
            && self.record.form == crate::operation::Form::Replica;
        if vacant {
            self.vacant_since_ms.get_or_insert(shared.now_ms);
        } else {
            self.vacant_since_ms = None;
        }
    }

    /// When a follower gives its leader up; one after the other, so that the first can win.
    pub(super) fn patience_ends(&self, shared: &Shared) -> u64 {
        let rank = self
            .record
            .rows
            .keys()
            .position(|site| *site == shared.me)
            .unwrap_or(0) as u64;
        self.granted_until_ms + (rank + 1) * PROMOTE_PATIENCE_MS
    }

    pub(super) fn has_lease(&self, shared: &Shared) -> bool {
        let fresh = |at: Option<u64>| at.is_some_and(|at| at + LEASE_TRUST_MS > shared.now_ms);
        // Whoever has removed the tombstone grants nothing any more, and nobody can write to what is deleted.
        let grants = |site: &&SiteName| {
            let progress = self.progress.get(*site);
            progress.is_some_and(|known| fresh(known.leased_ms) || known.forgotten)
        };
        let granted = self.record.rows.keys().filter(grants).count();
        (granted + 1) * 2 > self.record.rows.len() || self.log.last() == 0
    }

    pub(super) fn on_prepare(
        &mut self,
        from: &SiteName,
        epoch: Epoch,
        runs: Runs,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        if epoch.site != *from {
            return;
        }
        let involved = self.is_involved(from);
        if !involved && self.leads(&shared.me) {
            return shared.send(from, self.left_message(), out);
        }
        let leased = involved
            && self.record.handover == Handover::Auto
            && self.granted_until_ms > shared.now_ms
            && self.record.epoch.site != *from;
        if epoch < self.record.promised || leased {
            // Also to a site that left and has forgotten it with its disk: it hears who leads now, and asks there.
            let promised = self.record.promised.clone();
            return shared.send(
                from,
                Message::Decline {
                    replicant: self.record.id,
                    epoch,
                    promised,
                },
                out,
            );
        }
        if !involved {
            return;
        }
        self.record.promised = epoch.clone();
        self.candidacy = None;
        let fork = self.log.fork(&runs);
        let base = (self.log.base.index > fork).then(|| self.whole_base(shared));
        let entries = self.log.iter().map(|kept| self.aged(kept, shared));
        let entries = entries.filter(|entry| entry.index > fork).collect();
        self.note_all_brought(&shared.me);
        shared.send(
            from,
            Message::Promise {
                epoch,
                header: self.header(),
                entries,
                base,
            },
            out,
        );
    }

    pub(super) fn on_promise(
        &mut self,
        from: &SiteName,
        epoch: Epoch,
        header: Header,
        entries: Vec<Entry>,
        base: Option<Base>,
    ) {
        if let Some(candidacy) = self
            .candidacy
            .as_mut()
            .filter(|candidacy| candidacy.epoch == epoch)
        {
            candidacy.votes.insert(
                from.clone(),
                Vote {
                    header,
                    entries,
                    base,
                },
            );
        }
    }

    pub(super) fn on_decline(&mut self, epoch: &Epoch, promised: Epoch, shared: &Shared) {
        let stands = |candidacy: &Candidacy| candidacy.epoch == *epoch;
        let stood = self.candidacy.as_ref().is_some_and(stands);
        let follows = self.candidacy.is_none() && self.record.epoch == *epoch;
        if !stood && !follows {
            return;
        }
        if promised > self.record.promised {
            self.record.promised = promised;
        }
        if follows {
            return;
        }
        self.candidacy = None;
        self.granted_until_ms = shared.now_ms;
        self.report_ms = shared.now_ms + RESEND_MS.1;
    }

    /// A member has no record of it.
    pub(super) fn on_unknown(&mut self, from: &SiteName, shared: &mut Shared) {
        match &mut self.candidacy {
            Some(candidacy) if self.record.rows.contains_key(from) => {
                candidacy.unknown.insert(from.clone());
            }
            Some(_) => (),
            None if self.record.epoch.site == *from
                && self.record.recovery != Recovery::Stranded =>
            {
                // Its leader has lost it, or it was forgotten everywhere but here: ask everybody.
                self.record.recovery = Recovery::Asking;
                self.stand(Quorum::All, shared);
            }
            None => (),
        }
    }

    fn enthrone(&mut self, shared: &mut Shared, out: &mut Output) {
        let candidacy = self.candidacy.take().expect("it stands");
        let asking = self.record.recovery == Recovery::Asking;
        let replica = self.record.form == crate::operation::Form::Replica;
        if asking && replica && candidacy.votes.is_empty() && !candidacy.unknown.is_empty() {
            self.record.recovery = Recovery::Stranded;
            return;
        }
        for vote in candidacy.votes.values() {
            self.suspect_untold(&vote.header, shared);
        }
        if let Some(best) = self.choose(&candidacy.votes) {
            self.adopt(best, shared, out);
        }
        let sites: Vec<SiteName> = self.record.rows.keys().cloned().collect();
        for vote in candidacy.votes.values() {
            for site in &sites {
                let (Some(told), Some(known)) =
                    (vote.header.rows.get(site), self.record.rows.get(site))
                else {
                    continue;
                };
                if *site != shared.me && told.is_newer_than(known) {
                    self.record.rows.insert(site.clone(), told.clone());
                }
            }
            if asking {
                self.relearn(&vote.header, shared);
            }
        }
        self.record.epoch = candidacy.epoch.clone();
        self.record.promised = candidacy.epoch;
        self.record.rows_version += 1;
        self.record.recovery = Recovery::Done;
        // Also of those who had no record when they were asked: the one who led may have told them since.
        self.progress.clear();
        if let Some(op) = self.record.create.clone().filter(|_| self.log.last() == 0) {
            // It was at the gate when the backup was made.
            self.record.ran.remove(&op.id);
            if self.row(&shared.me).local.is_some() {
                // Others know what it is called here.
                self.append(Body::Run(op), Stage::Applied(201), shared, out);
                self.record.mend = Mend::Settle;
                self.woken = true;
                return;
            }
            self.record.gate = Some(super::replicant::Gate {
                op,
                stage: Stage::Calling,
            });
            self.recover_gate(shared, out);
        }
        self.woken = true;
        shared.arm_no_later(super::shared::Timer::Outbox, shared.now_ms);
    }

    /// The log to go on with, if it is not this site's own: the longest of the latest reign, unless somebody has
    /// folded what that one never had and could take back what it has instead.
    fn choose<'a>(&self, votes: &'a BTreeMap<SiteName, Vote>) -> Option<&'a Vote> {
        let mine = self.log.runs();
        let longest = votes.values().max_by(|a, b| a.rank().cmp(&b.rank()));
        let longest = longest.filter(|best| best.rank() > mine.rank());
        let best = longest.map_or(&mine, |best| &best.header.runs);
        let binds = |runs: &Runs| {
            let fork = best.fork(runs);
            runs.has_folded_past(fork) && !best.has_folded_past(fork)
        };
        let binding = votes.values().filter(|vote| binds(&vote.header.runs));
        let binding = binding.max_by(|a, b| a.rank().cmp(&b.rank()));
        match binding {
            Some(vote) => Some(vote),
            None if longest.is_some() && binds(&mine) => None,
            None => longest,
        }
    }

    fn adopt(&mut self, best: &Vote, shared: &mut Shared, out: &mut Output) {
        let fork = self.log.fork(&best.header.runs);
        match &best.base {
            Some(base) => self.take_base(base.clone(), fork, shared, out),
            // What this site has folded binds that one.
            None if fork < self.log.base.index => return,
            None => self.cut(fork, shared, out),
        }
        for entry in &best.entries {
            if entry.index == self.log.last() + 1 {
                self.take_entry(entry.clone(), shared, out);
            }
        }
    }

    /// Follows a new reign. False: not now, something is being called; the leader will say it again.
    pub(super) fn follow(
        &mut self,
        header: &Header,
        shared: &mut Shared,
        out: &mut Output,
    ) -> bool {
        if self.record.gate.is_some() || self.call.is_some() {
            return false;
        }
        let fork = self.log.fork(&header.runs);
        self.record.promised = self.record.promised.clone().max(header.epoch.clone());
        self.candidacy = None;
        self.commend(header, fork, shared, out);
        let lacks_base = header.runs.has_folded_past(fork);
        if self.log.base.index > fork && !lacks_base {
            // It can take back what it has since; this site cannot.
            let leader = header.epoch.site.clone();
            self.report(&leader, shared, out);
            return false;
        }
        if lacks_base {
            self.record.recovery = Recovery::Rebasing;
        } else {
            self.cut(fork, shared, out);
            if self.record.recovery == Recovery::Rebasing {
                // The reign before had folded what this one still has.
                self.record.recovery = Recovery::Done;
            }
        }
        self.record.epoch = header.epoch.clone();
        self.fail_pending(shared, out);
        self.confirmed = (0, 0);
        self.confirmed_applied = 0;
        self.progress.clear();
        true
    }

    /// What waited for the gate was not done and will not be, here.
    pub(super) fn fail_pending(&mut self, shared: &mut Shared, out: &mut Output) {
        for pending in std::mem::take(&mut self.pending) {
            if shared.outbox.contains_key(&pending.op.id) {
                continue;
            }
            let problem = crate::operation::Problem::NotLeader(self.record.promised.site.clone());
            shared.void(pending.op.id, pending.op.digest, problem, out);
        }
    }

    /// Takes out what the new reign does not have. What may have been acknowledged is kept to be offered again.
    pub(super) fn cut(&mut self, fork: u64, shared: &mut Shared, out: &mut Output) {
        let mut cut: Vec<Kept> = self.log.truncate(fork);
        self.drop_records(&cut, out);
        for kept in &mut cut {
            // Its time goes on while it has no position.
            let left = self
                .deadlines
                .get(&kept.entry.index)
                .map(|at| at.saturating_sub(shared.now_ms));
            if let (Body::Run(op), Some(left)) = (&mut kept.entry.body, left) {
                op.ttl_ms = Some(left);
            }
        }
        self.deadlines.retain(|index, _| *index <= fork);
        let row = self.row_mut(&shared.me);
        row.applied = row.applied.min(fork);
        for kept in &cut {
            if let Body::Void(id) = kept.entry.body {
                self.unvoid(id, shared);
            }
        }
        let id = self.record.id;
        let earlier: Vec<_> = shared
            .outbox
            .values()
            .filter(|kept| kept.submission.op.replicant == id)
            .cloned()
            .collect();
        for mut kept in earlier {
            if let Some(before) = kept.fork.filter(|before| *before > fork) {
                kept.fork = Some(fork.min(before));
                shared.keep_in_outbox(kept, out);
            }
        }
        for kept in cut {
            let (op, fork) = match kept.entry.body {
                Body::Run(op) => (op, fork),
                Body::Park(op) => (op, WHERE_CONFLICTS_PART),
                Body::Void(_) => continue,
            };
            self.unseat(op, kept.stage, fork, shared, out);
        }
    }

    /// Loses its position here, and nothing else.
    pub(super) fn unseat(
        &mut self,
        op: Operation,
        stage: Stage,
        fork: u64,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        let touched = !matches!(
            stage,
            Stage::Queued | Stage::Void | Stage::Waiting(_) | Stage::Refused(_)
        );
        let runs = !self.keeps_a_queue(&shared.me);
        if touched && runs && !matches!(op.kind, Kind::Create | Kind::Rescope) {
            if !shared.planted(Bug::ForgetRan) {
                self.record.ran.insert(op.id, stage);
            }
            if op.kind != Kind::Action {
                self.record.mend = Mend::Settle;
            }
            if op.kind == Kind::Delete {
                // Whether anything is left to settle shows when it is written.
                self.record.written.clear();
            }
        }
        if !shared.planted(Bug::DropDeposedSuffix) {
            shared.keep_in_outbox(deposed(op, self, fork), out);
        }
    }
}
