//! Where a replicant lives: changed by an entry of its log. A new site is brought up like one that was away; a site
//! that goes is drained, then covered by another replica, then deletes its own, and only then has left.

use cheops_model::SiteName;

use super::log::{Body, Stage};
use super::message::{Header, Message, ReplicaState, Row};
use super::outbox::deposed;
use super::replicant::{Doing, Mend, Recovery, Replicant};
use super::shared::{Shared, Timer};
use super::site::Site;
use crate::ids::{Epoch, Position, ReplicantId};
use crate::limits::{MEMBERS_MAX, NO_ROOM_MS, RETRY_MS};
use crate::operation::{Answer, Fields, Form, Kind, Operation, Outcome};
use crate::output::{Call, Output};

impl Replicant {
    /// The place of the newest entry.
    pub(super) fn end(&self) -> Option<Position> {
        let index = self.log.last();
        let epoch = self.log.runs().epoch_at(index)?.clone();
        Some(Position { epoch, index })
    }

    /// Calls the local service.
    pub(super) fn begin(
        &mut self,
        call: Call,
        doing: Doing,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        self.attempts = self.attempts.saturating_add(1);
        let id = shared.call(self.record.id, &self.record.service, call, out);
        self.call = Some((id, doing));
    }

    /// Gives a position to a change of sites. Whoever leads is one of them: to move the leader, promote another first.
    pub(super) fn rescope(&mut self, op: Operation, shared: &mut Shared, out: &mut Output) {
        let (id, digest) = (op.id, op.digest);
        let gone = |site: &SiteName| shared.record.removed.contains(site);
        let sound = op.sites.contains(&shared.me)
            && op.sites.len() <= MEMBERS_MAX
            && !op.sites.iter().any(gone);
        if !sound {
            return shared.conclude(id, digest, Answer::Conflict, out);
        }
        let body = Body::Run(op);
        let stage = body.first_stage();
        self.append(body, stage, shared, out);
        let answer = Answer::Service {
            status: 200,
            body: Vec::new(),
            meta: self.record.meta.clone(),
        };
        shared.conclude(id, digest, answer, out);
        self.woken = true;
    }

    /// The leader has a row for everybody the log names.
    pub(super) fn seat_members(&mut self, shared: &Shared) {
        let Some((since, members)) = self.log.members() else {
            return;
        };
        for site in members {
            if !self.is_involved(&site) && !shared.record.removed.contains(&site) {
                let incarnation = shared.incarnation_of(&site);
                let row = Row {
                    since,
                    ..Row::pending(incarnation)
                };
                // Whatever it said when it had left, it has to be told again.
                self.progress.remove(&site);
                self.record.rows.insert(site, row);
                self.record.rows_version += 1;
            }
        }
    }

    /// A reign of this site is over, and its log has parted from the new one: sites that only this one has brought in
    /// are named to the new leader. Which of the two logs is right about where it lives, a person decides.
    pub(super) fn commend(
        &self,
        header: &Header,
        fork: u64,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        let led = self.record.epoch.site == shared.me && fork < self.log.last();
        let unknown = |site: &&SiteName| !header.rows.contains_key(*site);
        let unknown: Vec<SiteName> = self.record.rows.keys().filter(unknown).cloned().collect();
        if !led || unknown.is_empty() || self.record.form == Form::Queue {
            return;
        }
        self.name_members_of(&self.record.epoch, unknown, fork, shared, out);
    }

    /// A follower remembers of a reign of this site what its own disk does not. If somebody else leads by then, it does not
    /// know whom that reign had brought in.
    pub(super) fn name_forgotten_members(
        &self,
        header: &Header,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        let forgotten = header.epoch.site == shared.me && header.epoch >= self.record.epoch;
        let unknown = header.rows.keys();
        let unknown: Vec<SiteName> = unknown
            .filter(|site| !self.record.rows.contains_key(*site))
            .cloned()
            .collect();
        if forgotten && !unknown.is_empty() && self.record.form != Form::Queue {
            // Behind everything: it is to be known, and not to be done.
            self.name_members_of(&header.epoch, unknown, 0, shared, out);
        }
    }

    fn name_members_of(
        &self,
        epoch: &Epoch,
        sites: Vec<SiteName>,
        fork: u64,
        shared: &mut Shared,
        out: &mut Output,
    ) {
        let id = shared.key.members_of(self.record.id, epoch);
        let mut names = Operation::new(id, self.record.id, Kind::Rescope, shared.me.clone());
        names.sites = sites;
        shared.keep_in_outbox(deposed(names, self, fork), out);
    }

    /// Sites that a parked change of sites may have brought in: no member knows whether they have a replica, so they
    /// are told who leads, and say.
    pub(super) fn strays(&self, shared: &Shared) -> Vec<SiteName> {
        let named = self.log.parked().flat_map(|op| &op.sites);
        let stray =
            |site: &&SiteName| !self.is_involved(site) && !shared.record.removed.contains(*site);
        named.filter(stray).cloned().collect()
    }

    pub(super) fn is_leaving(&self, site: &SiteName) -> bool {
        let members = self.log.members();
        members.is_some_and(|(_, members)| !members.contains(site))
    }

    /// True if this site is to have no replica. Whoever leads stays until another was promoted.
    pub(super) fn is_to_leave(&self, shared: &Shared) -> bool {
        self.is_leaving(&shared.me) && self.record.epoch.site != shared.me
    }

    /// True if a site was to go and has nothing left.
    pub(super) fn has_left(&self, site: &SiteName) -> bool {
        let row = self.record.rows.get(site);
        row.is_some_and(|row| row.state == ReplicaState::Deleted) && self.is_leaving(site)
    }

    /// Drained, covered, deleted.
    pub(super) fn leave(&mut self, shared: &mut Shared, out: &mut Output) {
        if self.row(&shared.me).local.is_none() {
            return self.bury(shared, out);
        }
        let Some((since, members)) = self.log.members() else {
            return;
        };
        let applied = self.row(&shared.me).applied;
        if applied < since && !self.is_blocked(shared) {
            return self.apply_next(shared, out);
        }
        let covers = |(site, row): (&SiteName, &Row)| {
            *site != shared.me
                && members.contains(site)
                && row.state == ReplicaState::Live
                && row.applied >= applied
        };
        if self.record.rows.iter().any(covers) {
            let call = self.delete_call(Vec::new(), shared);
            return self.begin(call, Doing::Leave, shared, out);
        }
        // Until it is covered it is a replica like the others.
        match self.record.mend {
            Mend::Settle => self.settle(shared, out),
            Mend::Nothing | Mend::Skipped => self.apply_next(shared, out),
        }
    }

    pub(super) fn leave_outcome(&mut self, outcome: Outcome, shared: &mut Shared) {
        match outcome {
            Outcome::Applied { .. } => {
                self.calm();
                self.note_done(&Kind::Delete, &Fields::new(), None, shared);
                self.woken = true;
            }
            Outcome::NotSent => self.back_off(shared.now_ms, RETRY_MS),
            Outcome::Refused { .. } | Outcome::Waits(_) => {
                self.retry_ms = shared.now_ms + NO_ROOM_MS;
            }
            Outcome::Unknown | Outcome::Found(_) => {
                self.retry_ms = shared.now_ms + shared.tuning.settle_ms;
            }
        }
    }

    /// What a leader does when a site has no record: it has left, or has to be told again.
    pub(super) fn see_off(&mut self, site: &SiteName) {
        self.progress.remove(site);
        if !self.is_involved(site) {
            self.progress.entry(site.clone()).or_default().forgotten = true;
        }
        if self.has_left(site) {
            self.record.rows.remove(site);
            self.record.rows_version += 1;
        }
    }

    /// True if nothing of it is left here to do or to tell.
    fn is_vacated(&self, shared: &Shared) -> bool {
        let id = self.record.id;
        let taken = |kept: &super::shared::OutboxRecord| kept.submission.op.replicant == id;
        let making = self.record.making.as_ref();
        self.is_to_leave(shared)
            && self.row(&shared.me).local.is_none()
            && self.call.is_none()
            && making.is_none_or(|making| matches!(making.stage, Stage::Refused(_)))
            && !shared.outbox.values().any(taken)
    }
}

impl Site {
    /// The leader knows that this site has left.
    pub(super) fn on_left(
        &mut self,
        from: &SiteName,
        id: ReplicantId,
        epoch: &Epoch,
        out: &mut Output,
    ) {
        if let Some(replicant) = self.replicants.get_mut(&id) {
            let said_by_leader = epoch.site == *from && *epoch >= replicant.record.promised;
            // A site is let go only after it has said that it has nothing, even if its disk has forgotten it since.
            let ended = replicant.is_hollow()
                || replicant.record.recovery == Recovery::Asking
                || replicant.is_vacated(&self.shared);
            if !said_by_leader || !ended {
                return;
            }
            if let Some(create) = &replicant.record.create {
                // A retry of the create finds what became of it, and does not make it again.
                let answer = Answer::Service {
                    status: 200,
                    body: Vec::new(),
                    meta: replicant.record.meta.clone(),
                };
                let (create, digest) = (create.id, create.digest);
                let shared = &mut self.shared;
                shared.remember(create, digest, Some(answer), None, out);
            }
            replicant.erase(out);
            self.lose(id);
            self.shared.arm(Timer::Replicant(id), None);
        }
        self.shared
            .send(from, Message::Unknown { replicant: id }, out);
    }
}
