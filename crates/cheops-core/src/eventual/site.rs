//! One site: events in, records and effects out.

use std::collections::BTreeMap;

use cheops_model::SiteName;

use super::gate::Fate;
use super::log::{Kept, Log, Stage};
use super::message::{Message, ReplicaState};
use super::planted::Bug;
use super::replicant::{Doing, Mend, Record, Recovery, Replicant};
use super::send::Report;
use super::shared::{Asker, AnswerRecord, OutboxRecord, Shared, SiteRecord, Timer, Tuning};
use super::submit::Forward;
use crate::ids::{Boot, MeshKey, OperationId, ReplicantId};
use crate::limits::ANSWERS_MS;
use crate::link::{Envelope, Verdict};
use crate::operation::{Outcome, Submission};
use crate::output::{CallId, ClientId, Effect, Output};
use crate::record::{RecordError, Table, decode, encode};

/// Time, on a clock that never goes back while the agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Milliseconds since whenever.
    pub monotonic_ms: u64,
}

/// How to mend a replica that is diverged or in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Call again, also what may have been done: somebody has looked.
    Retry,
    /// Go on with the next; shown as diverged until settled.
    Skip,
    /// Write what clients have written, and go on.
    Settle,
}

/// What happens to a site.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client wants something.
    Submit {
        /// Whom to answer.
        client: ClientId,
        /// What.
        submission: Submission,
    },
    /// A peer says something.
    Message {
        /// Who, as its certificate says.
        from: SiteName,
        /// What.
        envelope: Envelope,
    },
    /// A service has answered, or not.
    Outcome {
        /// To which call.
        call: CallId,
        /// What.
        outcome: Outcome,
    },
    /// A peer is in reach.
    Up(SiteName),
    /// A peer is known not to be in reach.
    Down(SiteName),
    /// It is as late as [`Effect::Wake`] said.
    Tick,
    /// This site is to lead.
    Promote(ReplicantId),
    /// Somebody has decided about this site's replica.
    Repair {
        /// Which.
        replicant: ReplicantId,
        /// How.
        how: Repair,
    },
    /// Somebody wants an operation not to happen.
    Cancel {
        /// Whom to tell.
        client: ClientId,
        /// Which.
        op: OperationId,
    },
    /// A site has left the mesh for good.
    Remove(SiteName),
}

/// Records as they were found, in key order per table.
pub type Found = Vec<(Table, Vec<u8>, Vec<u8>)>;

/// A record that cannot be read. It is left where it is; the rest serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Where.
    pub table: Table,
    /// Under which key.
    pub key: Vec<u8>,
    /// Why.
    pub error: RecordError,
}

/// The protocol of one site.
pub struct Site {
    pub(super) replicants: BTreeMap<ReplicantId, Replicant>,
    pub(super) forwards: BTreeMap<OperationId, Forward>,
    pub(super) shared: Shared,
    quarantined: Vec<Quarantined>,
    wake_ms: Option<u64>,
}

impl Site {
    /// Starts from what is on disk. `incarnation` names the disk: 1 for the first of this site, greater than any
    /// before if it is new or was restored.
    pub fn start(
        me: SiteName,
        key: MeshKey,
        tuning: Tuning,
        incarnation: u64,
        peers: &[SiteName],
        found: Found,
        now: Now,
        out: &mut Output,
    ) -> Site {
        Site::start_with(me, key, tuning, incarnation, peers, found, now, None, out)
    }

    /// As [`start`](Site::start), with one known bug.
    #[doc(hidden)]
    #[allow(clippy::too_many_arguments)]
    pub fn start_with(
        me: SiteName,
        key: MeshKey,
        tuning: Tuning,
        incarnation: u64,
        peers: &[SiteName],
        found: Found,
        now: Now,
        bug: Option<Bug>,
        out: &mut Output,
    ) -> Site {
        let boot = Boot { incarnation, start: 1 };
        let mut shared = Shared::new(me, key, tuning, boot, now.monotonic_ms);
        shared.bug = bug;
        let (replicants, forwards) = (BTreeMap::new(), BTreeMap::new());
        let mut site = Site { replicants, forwards, shared, quarantined: Vec::new(), wake_ms: None };
        let before = site.recover(found);
        let same_disk = before.is_some_and(|boot| boot.incarnation == incarnation);
        site.shared.boot.start = before.map_or(1, |boot| boot.start + 1);
        site.shared.record.boot = site.shared.boot;
        if !same_disk {
            site.shared.record.unasked = peers.iter().filter(|peer| **peer != site.shared.me).cloned().collect();
            site.replicants.values_mut().for_each(|replicant| replicant.distrust(&site.shared));
        }
        for (id, replicant) in &mut site.replicants {
            replicant.recover_calls(&site.shared);
            replicant.recover_gate(&mut site.shared, out);
            replicant.granted_until_ms = now.monotonic_ms + crate::limits::LEASE_MS;
            site.shared.touched.insert(*id);
        }
        if !site.shared.outbox.is_empty() {
            site.shared.arm(Timer::Outbox, Some(now.monotonic_ms));
        }
        site.save_site(out);
        site.ask_what_is_shared(out);
        site.finish(out);
        site
    }

    /// What could not be read at the start.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// Takes one event. Never fails; what is late, repeated or unknown changes nothing.
    pub fn step(&mut self, now: Now, event: Event, out: &mut Output) {
        self.shared.now_ms = self.shared.now_ms.max(now.monotonic_ms);
        match event {
            Event::Submit { client, submission } => self.submit(client, submission, out),
            Event::Message { from, envelope } => self.receive(from, envelope, out),
            Event::Outcome { call, outcome } => self.on_outcome(call, outcome, out),
            Event::Up(site) => self.on_up(&site),
            Event::Down(site) => _ = self.shared.down.insert(site),
            Event::Tick => (),
            Event::Promote(id) => self.promote(id),
            Event::Repair { replicant, how } => self.repair(replicant, how),
            Event::Cancel { client, op } => self.cancel(client, op, out),
            Event::Remove(site) => self.remove(&site, out),
        }
        self.finish(out);
    }

    /// Timers that are due, then every replicant that something happened to, then the next timer.
    fn finish(&mut self, out: &mut Output) {
        while let Some(timer) = self.shared.take_due() {
            match timer {
                Timer::Replicant(id) => _ = self.shared.touched.insert(id),
                Timer::Waiters(op) => self.end_wait(op, out),
                Timer::Forward(op) => self.send_forward(op, out),
                Timer::Outbox => self.pump_outbox(out),
                Timer::Restored => self.ask_what_is_shared(out),
                Timer::Answers => self.forget_answers(out),
            }
        }
        while let Some(id) = self.shared.touched.pop_first() {
            self.drive(id, out);
        }
        let earliest = self.shared.earliest();
        if earliest != self.wake_ms {
            self.wake_ms = earliest;
            if let Some(at_ms) = earliest {
                out.wish(Effect::Wake { at_ms });
            }
        }
    }

    /// Looks after one replicant: what is to be decided, called, sent and written.
    fn drive(&mut self, id: ReplicantId, out: &mut Output) {
        let Some(replicant) = self.replicants.get_mut(&id) else { return };
        let shared = &mut self.shared;
        loop {
            replicant.woken = false;
            replicant.canvass(shared, out);
            if replicant.leads(&shared.me) {
                replicant.open_gate(shared, out);
            }
            replicant.probe_gate(shared, out);
            replicant.apply(shared, out);
            if !replicant.woken {
                break;
            }
        }
        if replicant.leads(&shared.me) && replicant.is_hollow() && replicant.record.form == crate::operation::Form::Replica {
            // Whoever wanted to make it has given up.
            replicant.erase(out);
            self.replicants.remove(&id);
            return shared.arm(Timer::Replicant(id), None);
        }
        replicant.refresh_row(shared);
        let mut dead = false;
        if replicant.leads(&shared.me) {
            replicant.compact(shared, out);
            dead = replicant.forget(shared, out);
            if !replicant.record.forgetting {
                replicant.send(shared, out);
            }
        } else if replicant.candidacy.is_none() && replicant.record.recovery != Recovery::Stranded {
            replicant.report_if_unheard(shared, out);
        }
        if dead {
            replicant.remember_gone(shared, out);
            replicant.erase(out);
            self.replicants.remove(&id);
            return;
        }
        replicant.save(shared, out);
        let next = replicant.wake_at(shared);
        shared.arm(Timer::Replicant(id), next);
    }

    fn receive(&mut self, from: SiteName, envelope: Envelope, out: &mut Output) {
        if self.shared.record.removed.contains(&from) {
            return;
        }
        let boot = self.shared.boot;
        let incarnation = envelope.from.incarnation;
        let link = self.shared.links.entry(from.clone()).or_default();
        let late = envelope.message.clone();
        match link.unwrap(boot, envelope) {
            Verdict::Take(message) => {
                self.shared.incarnations.insert(from.clone(), incarnation);
                self.shared.down.remove(&from);
                self.on_message(&from, message, out);
            }
            Verdict::Introduce => self.shared.introduce(&from, out),
            Verdict::Met => {
                self.shared.incarnations.insert(from.clone(), incarnation);
                self.on_up(&from);
            }
            Verdict::Drop if self.shared.planted(Bug::TakeLateMessages) => {
                if let Some(message) = late {
                    self.on_message(&from, message, out);
                }
            }
            Verdict::Drop => (),
        }
    }

    fn on_message(&mut self, from: &SiteName, message: Message, out: &mut Output) {
        match message {
            Message::Submit { submission, epoch } => self.accept(Asker::Peer(from.clone()), submission, epoch, out),
            Message::Answered { op, attempt, answer } => self.answered(from, op, attempt, answer, out),
            Message::NotLeader { op, attempt, epoch, now: _ } => self.not_led(from, op, attempt, epoch),
            Message::Restored { incarnation } => self.on_restored(from, incarnation, out),
            Message::Shared { incarnation, headers } => self.on_shared(from, incarnation, headers, out),
            Message::Append { header, entries, base } => {
                let id = header.id;
                if self.shared.is_buried(id) && !self.replicants.contains_key(&id) {
                    return self.shared.send(from, Message::Forgotten { replicant: id }, out);
                }
                if !self.meet(&header, from) {
                    return;
                }
                let replicant = self.replicants.get_mut(&id).expect("it was just met");
                replicant.on_append(from, header, entries, base, &mut self.shared, out);
                self.shared.touched.insert(id);
            }
            Message::Forget { replicant, epoch } => self.on_forget(from, replicant, &epoch, out),
            Message::Resubmit { op, fork, epoch } => {
                let id = op.replicant;
                let Some(replicant) = self.replicants.get_mut(&id) else { return };
                if replicant.leads(&self.shared.me) && *replicant.reign() == epoch {
                    replicant.readmit(op, fork, &mut self.shared, out);
                    self.shared.touched.insert(id);
                }
            }
            Message::Report { replicant: id, epoch, promised, runs, rows_version, row, results, recovering, heard } => {
                let report = Report { epoch, promised, runs, rows_version, row, results, recovering, heard };
                match self.replicants.get_mut(&id) {
                    Some(replicant) => replicant.on_report(from, report, &mut self.shared, out),
                    None => self.shared.send(from, Message::Unknown { replicant: id }, out),
                }
                self.shared.touched.insert(id);
            }
            Message::Prepare { replicant: id, epoch, runs } => {
                match self.replicants.get_mut(&id) {
                    Some(replicant) => replicant.on_prepare(from, epoch, runs, &mut self.shared, out),
                    None => self.shared.send(from, Message::Unknown { replicant: id }, out),
                }
                self.shared.touched.insert(id);
            }
            Message::Promise { epoch, header, entries, base } => {
                let id = header.id;
                if let Some(replicant) = self.replicants.get_mut(&id) {
                    replicant.on_promise(from, epoch, header, entries, base);
                    self.shared.touched.insert(id);
                }
            }
            Message::Decline { replicant: id, epoch, promised } => {
                if let Some(replicant) = self.replicants.get_mut(&id) {
                    replicant.on_decline(&epoch, promised, &self.shared);
                    self.shared.touched.insert(id);
                }
            }
            Message::Unknown { replicant: id } => {
                let Some(replicant) = self.replicants.get_mut(&id) else { return };
                if replicant.is_hollow() && replicant.record.epoch.site == *from {
                    replicant.erase(out);
                    self.replicants.remove(&id);
                    return self.shared.arm(Timer::Replicant(id), None);
                }
                replicant.on_unknown(from, &mut self.shared);
                self.shared.touched.insert(id);
            }
            Message::Forgotten { replicant: id } => {
                if let Some(replicant) = self.replicants.get_mut(&id) {
                    let deleted = replicant.log.desired(replicant.log.last()).deleted;
                    replicant.progress.entry(from.clone()).or_default().forgotten = deleted;
                    if !deleted {
                        // It was deleted everywhere, and old disks have brought it back: a person decides.
                        replicant.record.recovery = Recovery::Stranded;
                    }
                    self.shared.touched.insert(id);
                }
            }
        }
    }

    /// Makes a record of something heard of for the first time, if this site is involved.
    fn meet(&mut self, header: &super::message::Header, from: &SiteName) -> bool {
        if self.replicants.contains_key(&header.id) {
            return true;
        }
        let Some(row) = header.rows.get(&self.shared.me) else {
            if !self.shared.planted(Bug::LeakRecords) {
                return false;
            }
            let mut header = header.clone();
            header.rows.insert(self.shared.me.clone(), super::message::Row::pending(0));
            self.replicants.insert(header.id, Replicant::from_header(&header, Recovery::Done));
            return true;
        };
        if header.epoch.site != *from {
            return false;
        }
        let recovery = if self.is_first(row) { Recovery::Done } else { Recovery::Asking };
        self.replicants.insert(header.id, Replicant::from_header(header, recovery));
        true
    }

    /// True if no earlier disk of this site can have acted on it.
    pub(super) fn is_first(&self, row: &super::message::Row) -> bool {
        let only = self.shared.boot.incarnation == 1;
        row.incarnation == self.shared.boot.incarnation || (only && row.incarnation == 0 && row.version == 0)
    }

    fn on_forget(&mut self, from: &SiteName, id: ReplicantId, epoch: &crate::ids::Epoch, out: &mut Output) {
        if let Some(replicant) = self.replicants.get_mut(&id) {
            // Every member has confirmed, also this one, even if its disk has forgotten it since.
            if *epoch < replicant.record.promised || epoch.site != *from {
                return;
            }
            replicant.remember_gone(&mut self.shared, out);
            replicant.erase(out);
            self.replicants.remove(&id);
            self.shared.arm(Timer::Replicant(id), None);
        }
        self.shared.send(from, Message::Forgotten { replicant: id }, out);
    }

    fn on_outcome(&mut self, call: CallId, outcome: Outcome, out: &mut Output) {
        let Some(id) = self.shared.calls.remove(&call) else { return };
        let Some(replicant) = self.replicants.get_mut(&id) else { return };
        let Some((_, doing)) = replicant.call.take_if(|(known, _)| *known == call) else { return };
        let shared = &mut self.shared;
        shared.touched.insert(id);
        match doing {
            Doing::Gate => {
                if replicant.gate_outcome(outcome, shared, out) == Fate::NeverWas {
                    replicant.fail_pending(shared, out);
                    replicant.erase(out);
                    self.replicants.remove(&id);
                }
            }
            Doing::GateProbe => replicant.gate_probed(outcome, shared, out),
            Doing::Make => replicant.make_outcome(outcome, shared),
            Doing::MakeProbe => replicant.make_probed(outcome, shared),
            Doing::Entry(index) => replicant.entry_outcome(index, outcome, shared),
            Doing::Bury(index) => replicant.bury_outcome(index, outcome, shared),
            Doing::Settle { upto, fields, unset } => {
                replicant.settle_outcome((upto, fields, unset), outcome, shared);
            }
        }
    }

    /// Everything that waits for that site is said again now.
    fn on_up(&mut self, site: &SiteName) {
        self.shared.down.remove(site);
        let now_ms = self.shared.now_ms;
        for (id, replicant) in &mut self.replicants {
            if !replicant.is_involved(site) {
                continue;
            }
            if let Some(progress) = replicant.progress.get_mut(site) {
                progress.next_ms = now_ms;
            }
            replicant.report_ms = replicant.report_ms.min(now_ms);
            if let Some(candidacy) = &mut replicant.candidacy {
                candidacy.next_ms = now_ms;
            }
            self.shared.touched.insert(*id);
        }
        if !self.shared.outbox.is_empty() {
            self.shared.arm_no_later(Timer::Outbox, now_ms);
        }
        if self.shared.record.unasked.contains(site) {
            self.shared.arm_no_later(Timer::Restored, now_ms);
        }
        for op in self.forwards.keys() {
            self.shared.arm_no_later(Timer::Forward(*op), now_ms);
        }
    }

    fn promote(&mut self, id: ReplicantId) {
        let Some(replicant) = self.replicants.get_mut(&id) else { return };
        let ready = replicant.record.recovery == Recovery::Done && replicant.record.form == crate::operation::Form::Replica;
        if ready && !replicant.leads(&self.shared.me) && replicant.log.last() > 0 {
            replicant.stand(replicant.usual_quorum(), &mut self.shared);
        }
    }

    fn repair(&mut self, id: ReplicantId, how: Repair) {
        let Some(replicant) = self.replicants.get_mut(&id) else { return };
        if replicant.call.is_some() || replicant.record.gate.is_some() {
            return;
        }
        replicant.calm();
        self.shared.touched.insert(id);
        let next = replicant.row(&self.shared.me).applied + 1;
        let stage = replicant.log.get(next).map(|kept| kept.stage.clone());
        let held = matches!(stage, Some(Stage::Refused(_) | Stage::InDoubt | Stage::Waiting(_)));
        match how {
            Repair::Retry => {
                replicant.record.making = None;
                replicant.record.doubt_until = 0;
                if held {
                    replicant.log.set_stage(next, Stage::Queued);
                }
            }
            Repair::Skip => {
                if held && replicant.row(&self.shared.me).local.is_some() {
                    replicant.log.set_stage(next, Stage::Covered);
                    replicant.record.mend = Mend::Skipped;
                }
            }
            Repair::Settle => {
                replicant.record.mend = Mend::Settle;
                let making = replicant.record.making.as_ref();
                if making.is_some_and(|making| matches!(making.stage, Stage::Refused(_))) {
                    replicant.record.making = None;
                }
                if held && matches!(stage, Some(Stage::InDoubt)) {
                    // An action in doubt is not state: somebody has looked, and goes on.
                    replicant.log.set_stage(next, Stage::Covered);
                }
            }
        }
    }

    fn remove(&mut self, gone: &SiteName, out: &mut Output) {
        self.shared.record.removed.insert(gone.clone());
        for (id, replicant) in &mut self.replicants {
            if !replicant.is_involved(gone) {
                continue;
            }
            self.shared.touched.insert(*id);
            if *gone == self.shared.me {
                replicant.record.recovery = Recovery::Stranded;
                continue;
            }
            replicant.record.rows.remove(gone);
            replicant.record.rows_version += 1;
            replicant.progress.remove(gone);
            let first = replicant.record.rows.keys().next() == Some(&self.shared.me);
            if replicant.record.epoch.site == *gone && first {
                replicant.stand(super::promote::Quorum::Heard, &mut self.shared);
            }
        }
        self.shared.record.unasked.remove(gone);
        self.save_site(out);
    }

    fn forget_answers(&mut self, out: &mut Output) {
        let now_ms = self.shared.now_ms;
        let old = self.shared.answers.iter().filter(|(_, (_, until))| *until <= now_ms);
        for op in old.map(|(op, _)| *op).collect::<Vec<_>>() {
            self.shared.answers.remove(&op);
            out.write(Table::Answers, crate::record::key_of(op.0), None);
        }
        let next = self.shared.answers.values().map(|(_, until)| *until).min();
        self.shared.arm(Timer::Answers, next);
    }

    pub(super) fn save_site(&mut self, out: &mut Output) {
        out.write(Table::Site, Vec::new(), Some(encode(&self.shared.record)));
    }

    /// Reads what can be read. Gives the run before, if there was one.
    fn recover(&mut self, found: Found) -> Option<Boot> {
        let (mut before, mut records, mut logs) = (None, Vec::new(), BTreeMap::<u128, Vec<Kept>>::new());
        for (table, key, value) in found {
            let read = match table {
                Table::Site => decode::<SiteRecord>(&value).map(|record| {
                    before = Some(record.boot);
                    self.shared.record = record;
                }),
                Table::Replicants => decode::<Record>(&value).map(|record| records.push(record)),
                Table::Log => decode::<Kept>(&value).map(|kept| {
                    let id = key.get(..16).map_or(0, |id| u128::from_be_bytes(id.try_into().expect("16 bytes")));
                    logs.entry(id).or_default().push(kept);
                }),
                Table::Answers => decode::<AnswerRecord>(&value).map(|record| {
                    self.shared.answers.insert(OperationId(id_of(&key)), (record, self.shared.now_ms + ANSWERS_MS));
                }),
                Table::Outbox => decode::<OutboxRecord>(&value).map(|record| {
                    if let Some(left) = record.submission.op.ttl_ms {
                        let until = self.shared.now_ms.saturating_add(left);
                        self.shared.outbox_until.insert(record.submission.op.id, until);
                    }
                    self.shared.outbox.insert(record.submission.op.id, record);
                }),
            };
            if let Err(error) = read {
                self.quarantined.push(Quarantined { table, key, error });
            }
        }
        for record in records {
            if !record.rows.contains_key(&self.shared.me) {
                continue;
            }
            let kept = logs.remove(&record.id.0).unwrap_or_default();
            let log = Log::recover(record.base.clone(), kept);
            let mut replicant = Replicant::new(record, log);
            replicant.recover_deadlines(self.shared.now_ms);
            self.replicants.insert(replicant.record.id, replicant);
        }
        before
    }
}

fn id_of(key: &[u8]) -> u128 {
    key.get(..16).map_or(0, |id| u128::from_be_bytes(id.try_into().expect("16 bytes")))
}

impl Replicant {
    /// Heard of, and nothing more.
    fn is_hollow(&self) -> bool {
        let nothing = self.log.last() == 0 && self.record.gate.is_none() && self.record.making.is_none();
        nothing && self.record.ran.is_empty() && self.pending.is_empty() && self.call.is_none()
    }

    /// A retry of the create, with its key, does not make it again after the tombstone is gone.
    fn remember_gone(&self, shared: &mut Shared, out: &mut Output) {
        if let Some(create) = &self.record.create {
            shared.bury(create.id, create.digest, out);
        }
    }

    fn recover_deadlines(&mut self, now_ms: u64) {
        let timed = self.log.iter().filter_map(|kept| kept.entry.ttl_left_ms.map(|left| (kept.entry.index, left)));
        self.deadlines = timed.map(|(index, left)| (index, now_ms.saturating_add(left))).collect();
    }

    /// When this replicant wants to be looked after again.
    fn wake_at(&self, shared: &Shared) -> Option<u64> {
        let mut next: Option<u64> = None;
        let mut at = |ms: u64| {
            let ms = ms.max(shared.now_ms + 1);
            next = Some(next.map_or(ms, |before| before.min(ms)));
        };
        if self.record.recovery == Recovery::Stranded {
            return None;
        }
        if self.call.is_none() && self.retry_ms > shared.now_ms {
            at(self.retry_ms);
        }
        let auto = self.record.handover == crate::operation::Handover::Auto;
        if let Some(at_ms) = self.vacancy_ends(shared) {
            at(at_ms);
        }
        if let Some(candidacy) = &self.candidacy {
            at(candidacy.next_ms);
        } else if self.leads(&shared.me) {
            let last = self.log.last();
            for progress in self.progress.values() {
                let lacks = progress.have != Some(last) || progress.rows_version != self.record.rows_version;
                if (lacks || auto || self.record.forgetting) && !progress.forgotten {
                    at(progress.next_ms);
                }
            }
        } else {
            if self.is_unheard(shared) {
                at(self.report_ms);
            }
            if auto && self.log.last() > 0 {
                at(self.patience_ends(shared));
            }
        }
        if let Some(first) = self.deadlines.values().filter(|at| **at > shared.now_ms).min() {
            let waits = self.row(&shared.me).applied < self.log.last();
            if waits && self.call.is_none() && self.row(&shared.me).state != ReplicaState::Carrier {
                at(*first);
            }
        }
        next
    }
}
