//! A disk that is new, or older than it was: nothing is done before the others have told what there is.
//!
//! Positions given since the backup must not be given again, so a leader starts a new reign with everybody's help.
//! Calls made since the backup may have been executed, so what others know to be in the log is in doubt here.

use cheops_model::SiteName;

use super::log::Stage;
use super::message::{Header, Message};
use super::planted::Bug;
use super::replicant::{Mend, Recovery, Replicant};
use super::shared::{OutboxRecord, Shared, Timer};
use super::site::Site;
use crate::ids::ReplicantId;
use crate::limits::{RESEND_MS, SHARED_AWAKE_MAX, SHARED_BYTES_MAX};
use crate::output::Output;

impl Site {
    /// Asks every peer that has not told everything yet.
    pub(super) fn ask_what_is_shared(&mut self, out: &mut Output) {
        let unasked: Vec<SiteName> = self.shared.record.unasked.iter().cloned().collect();
        if unasked.is_empty() {
            return;
        }
        for site in unasked {
            self.ask_what_comes_next(&site, out);
        }
        self.shared
            .arm(Timer::Restored, Some(self.shared.now_ms + RESEND_MS.1 / 2));
    }

    fn ask_what_comes_next(&mut self, site: &SiteName, out: &mut Output) {
        let question = Message::Restored {
            incarnation: self.shared.boot.incarnation,
            after: self.told.get(site).copied(),
        };
        self.shared.send(site, question, out);
    }

    pub(super) fn on_restored(
        &mut self,
        from: &SiteName,
        incarnation: u64,
        after: Option<ReplicantId>,
        out: &mut Output,
    ) {
        let most = self.shared.tuning.shared_max;
        let ids = self.replicants.shared_with(from, after, most);
        // Whoever has told a full page may have more.
        let mut next = ids.last().copied().filter(|_| ids.len() == most);
        let (mut headers, mut bytes) = (Vec::new(), 0);
        for id in ids {
            let Some(replicant) = self.replicants.get_mut(&id) else {
                continue;
            };
            // Also what this site is not sure of itself: the other need not be the first to make it.
            if replicant.log.last() > 0 {
                let header = replicant.header();
                bytes += header.weight();
                headers.push(header);
                replicant.progress.remove(from);
                self.shared.touched.insert(id);
            }
            if bytes >= SHARED_BYTES_MAX {
                next = Some(id);
                break;
            }
        }
        let told = Message::Shared {
            incarnation,
            after,
            headers,
            next,
        };
        self.shared.send(from, told, out);
    }

    pub(super) fn on_shared(
        &mut self,
        from: &SiteName,
        (incarnation, after): (u64, Option<ReplicantId>),
        (headers, next): (Vec<Header>, Option<ReplicantId>),
        out: &mut Output,
    ) {
        let asked = self.shared.record.unasked.contains(from)
            && incarnation == self.shared.boot.incarnation
            && after == self.told.get(from).copied();
        if !asked {
            return;
        }
        for header in headers {
            self.hear_shared(header, out);
        }
        match next.filter(|_| !self.shared.planted(Bug::HearOnePage)) {
            Some(next) => {
                self.told.insert(from.clone(), next);
                // While there is much to do, what comes next waits for the timer.
                if self.replicants.len().0 < SHARED_AWAKE_MAX {
                    self.ask_what_comes_next(from, out);
                }
            }
            None => {
                self.told.remove(from);
                self.shared.record.unasked.remove(from);
                self.save_site(out);
                self.go_on_making();
            }
        }
    }

    /// What is to be made waits until everybody has told whether it was.
    pub(super) fn go_on_making(&mut self) {
        let unmade = |replicant: &&Replicant| replicant.is_unmade(&self.shared);
        let waiting = self.replicants.awake().filter(unmade);
        let waiting: Vec<ReplicantId> = waiting.map(|replicant| replicant.record.id).collect();
        self.shared.touched.extend(waiting);
    }

    /// One replicant that both are involved in, as somebody else knows it.
    fn hear_shared(&mut self, header: Header, out: &mut Output) {
        let id = header.id;
        let Some(row) = header.rows.get(&self.shared.me) else {
            return;
        };
        if self.shared.is_buried(id) {
            return;
        }
        let first = self.is_first(row);
        if first && !self.replicants.contains_key(&id) {
            // New to this disk and to every one before: it will come by itself.
            return;
        }
        let replicant = self
            .replicants
            .get_or_insert_with(id, || Replicant::from_header(&header, Recovery::Asking));
        replicant.name_forgotten_members(&header, &mut self.shared, out);
        if replicant.record.recovery == Recovery::Asking {
            replicant.relearn(&header, &self.shared);
        } else if !first || replicant.record.doubt_until > 0 {
            replicant.suspect(header.runs.last, &self.shared);
            replicant.recall(&header, &self.shared);
        }
        self.shared.touched.insert(id);
    }
}

impl Replicant {
    /// The disk is another one than it was.
    pub(super) fn distrust(&mut self, shared: &mut Shared, out: &mut Output) {
        if shared.planted(Bug::ReuseIndexAfterRestore) {
            return;
        }
        if self.leads(&shared.me) {
            self.doubt_outbox(shared, out);
        }
        self.record.recovery = Recovery::Asking;
        self.end_times(shared);
        // Also what was in no message when the backup was made may have been in one since.
        self.note_all_brought(&shared.me);
        if let Some(gate) = self.record.gate.take()
            && gate.stage != Stage::Streaming
        {
            self.record.ran.insert(gate.op.id, Stage::InDoubt);
        }
        self.doubt(shared, self.log.last().max(1));
    }

    /// Nobody knows how long this disk was away: what was to be done in time may have been given up since.
    fn end_times(&mut self, shared: &Shared) {
        if shared.planted(Bug::RunExpiredOnOldDisk) {
            return;
        }
        let open = self.log.iter().filter(|kept| !kept.stage.is_final());
        let timed = open.filter(|kept| kept.entry.ttl_left_ms.is_some());
        let timed: Vec<u64> = timed.map(|kept| kept.entry.index).collect();
        for index in timed {
            self.log.end_time(index);
            self.deadlines.insert(index, shared.now_ms);
        }
    }

    /// What was taken here and had no position yet may have had one since: it comes back as what a deposed leader
    /// offers, and not over what was changed meanwhile.
    fn doubt_outbox(&self, shared: &mut Shared, out: &mut Output) {
        let id = self.record.id;
        let mine = |kept: &&OutboxRecord| kept.submission.op.replicant == id && kept.fork.is_none();
        let taken: Vec<OutboxRecord> = shared.outbox.values().filter(mine).cloned().collect();
        for mut kept in taken {
            kept.fork = Some(self.log.last());
            shared.keep_in_outbox(kept, out);
        }
    }

    fn doubt(&mut self, shared: &Shared, until: u64) {
        if shared.planted(Bug::TrustOldDisk) {
            return;
        }
        self.record.doubt_until = self.record.doubt_until.max(until);
        self.record.written.clear();
        // What the disk before this one had sent may still be executed, and nobody here knows what it was.
        let settled_ms = shared.started_ms + shared.tuning.settle_ms;
        self.retry_ms = self.retry_ms.max(settled_ms);
        if let Some(making) = &mut self.record.making {
            making.stage = Stage::InDoubt;
        }
        if self.row(&shared.me).local.is_some() {
            self.record.mend = Mend::Settle;
        }
    }

    /// What others remember of this site.
    pub(super) fn relearn(&mut self, header: &Header, shared: &Shared) {
        if let Some(told) = header.rows.get(&shared.me) {
            let row = self.row_mut(&shared.me);
            if told.version > row.version || row.local.is_none() {
                row.local = told.local.clone();
            }
            row.version = row.version.max(told.version);
        }
        if header.epoch > self.record.promised {
            self.record.promised = header.epoch.clone();
        }
        self.doubt(shared, header.runs.last.max(1));
    }

    /// What it is called here, told by somebody who knows more than the leader.
    fn recall(&mut self, header: &Header, shared: &Shared) {
        let told = header.rows.get(&shared.me);
        let told = told.and_then(|told| told.local.clone());
        if told.is_some() && self.is_unmade(shared) {
            self.row_mut(&shared.me).local = told;
            self.record.making = None;
            self.record.mend = Mend::Settle;
        }
    }

    fn is_unmade(&self, shared: &Shared) -> bool {
        let idle = self.call.is_none() && self.record.gate.is_none();
        idle && self.record.doubt_until > 0 && self.row(&shared.me).local.is_none()
    }

    /// An earlier disk of this site may have made it, and somebody who would know has not told yet.
    pub(super) fn may_be_told(&self, shared: &Shared) -> bool {
        let silent = |site: &SiteName| shared.record.unasked.contains(site);
        self.record.doubt_until > 0 && self.record.rows.keys().any(silent)
    }

    /// A log that is not the one trusted first may hold what an earlier disk of this site has done.
    pub(super) fn suspect(&mut self, until: u64, shared: &Shared) {
        if !shared.planted(Bug::TrustOldDisk) && shared.boot.incarnation > 1 {
            self.record.doubt_until = self.record.doubt_until.max(until);
        }
    }

    /// The same, of whatever is heard while somebody who may know more has not told.
    pub(super) fn suspect_untold(&mut self, header: &Header, shared: &Shared) {
        let silent = |site: &SiteName| shared.record.unasked.contains(site);
        if self.record.doubt_until > 0 && header.rows.keys().any(silent) {
            self.suspect(header.runs.last, shared);
        }
    }

    /// The leader has told what there is.
    pub(super) fn trust(&mut self, header: &Header, shared: &Shared) {
        self.relearn(header, shared);
        self.record.recovery = Recovery::Done;
    }
}
