//! One site: events in, records and effects out.

use std::collections::{BTreeMap, BTreeSet};

use cheops_model::SiteName;

use super::gate::Fate;
use super::message::{Message, Row};
use super::places::Places;
use super::planted::Bug;
use super::replicant::{Doing, Recovery, Replicant};
use super::send::Report;
use super::shared::{Asker, OutboxRecord, Shared, Timer};
use super::shelf::Shelf;
use super::submit::Forward;
use crate::ids::{OperationId, ReplicantId};
use crate::link::{Envelope, Verdict};
use crate::operation::{Form, Operation, Outcome, Submission};
use crate::output::{CallId, ClientId, Effect, Output};
use crate::record::{RecordFault, Table};

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
    /// A client wants something whose content is still coming in. Ordered by this site or by nobody: 503 tells to bring
    /// it again when it is whole.
    Stream {
        /// Whom to answer.
        client: ClientId,
        /// What, as far as it is known.
        submission: Submission,
    },
    /// The content of a streamed request is whole and on the disk; before this is answered with
    /// [`Answer::Accepted`](crate::Answer), the service must not get the end of it.
    Complete {
        /// Whom to answer.
        client: ClientId,
        /// What it is now: fields, rest and digest are taken over.
        op: Operation,
        /// How long its own client waits from now on.
        wait_ms: u64,
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
    /// Somebody has resolved a conflict: what was parked is not done. Ordered by whoever leads; others do nothing.
    Resolve {
        /// In whose log.
        replicant: ReplicantId,
        /// What was parked.
        op: OperationId,
    },
    /// What waits may go on: there is room, or there are credentials, or what it depends on is there.
    Hurry(ReplicantId),
    /// A site has left the mesh for good.
    Remove(SiteName),
    /// A site that may have been removed is part of the mesh. What it had is not given back.
    Readmit(SiteName),
}

/// Records as they are found, in key order per table.
pub type Found<'a> = Box<dyn Iterator<Item = (Table, Vec<u8>, Vec<u8>)> + 'a>;

/// A record that cannot be read. It is left where it is; the rest serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Where.
    pub table: Table,
    /// Under which key.
    pub key: Vec<u8>,
    /// Why.
    pub error: RecordFault,
}

/// The protocol of one site.
pub struct Site {
    pub(super) replicants: Shelf,
    /// Whose each operation is that is not finished.
    pub(super) places: Places,
    pub(super) forwards: BTreeMap<OperationId, Forward>,
    /// Changed by reports that nothing has followed from yet: not written.
    pub(super) heard: BTreeSet<ReplicantId>,
    pub(super) shared: Shared,
    /// How far peers have told what they share with this disk, of those that have told a part.
    pub(super) told: BTreeMap<SiteName, ReplicantId>,
    pub(super) quarantined: Vec<Quarantined>,
    pub(super) wake_ms: Option<u64>,
}

impl Site {
    /// Takes one event. Never fails; what is late, repeated or unknown changes nothing.
    pub fn step(&mut self, now: Now, event: Event, out: &mut Output) {
        self.shared.now_ms = self.shared.now_ms.max(now.monotonic_ms);
        self.wake_for(&event);
        match event {
            Event::Submit { client, submission } => self.submit(client, submission, out),
            Event::Stream { client, submission } => self.stream(client, submission, out),
            Event::Complete {
                client,
                op,
                wait_ms,
            } => self.complete(client, op, wait_ms, out),
            Event::Message { from, envelope } => self.receive(from, envelope, out),
            Event::Outcome { call, outcome } => self.on_outcome(call, outcome, out),
            Event::Up(site) => {
                // Whoever has forgotten its earlier runs hears of them before it does anything.
                if !self.shared.record.removed.contains(&site) {
                    self.shared.introduce(&site, out);
                }
                self.on_up(&site);
            }
            Event::Down(site) => self.lose_touch(site, out),
            Event::Tick => (),
            Event::Promote(id) => self.promote(id),
            Event::Repair { replicant, how } => self.repair(replicant, how),
            Event::Cancel { client, op } => self.cancel(client, op, out),
            Event::Resolve { replicant, op } => self.resolve(replicant, op, out),
            Event::Hurry(id) => self.hurry(id),
            Event::Remove(site) => self.remove(&site, out),
            Event::Readmit(site) => self.readmit(&site, out),
        }
        self.finish(out);
    }

    /// Timers that are due, then every replicant that something happened to, then the next timer.
    pub(super) fn finish(&mut self, out: &mut Output) {
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
        self.retire(out);
        self.save_heard(out);
        self.quarantined.append(&mut self.replicants.unreadable);
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
        self.replicants.stir(&id);
        let Some(replicant) = self.replicants.get_mut(&id) else {
            return;
        };
        let shared = &mut self.shared;
        loop {
            replicant.woken = false;
            replicant.canvass(shared, out);
            if replicant.leads(&shared.me) {
                replicant.open_gate(shared, out);
            }
            replicant.probe_gate(shared, out);
            replicant.apply(shared, out);
            if !replicant.woken && !replicant.is_gate_open(shared) {
                break;
            }
        }
        if replicant.leads(&shared.me) && replicant.is_given_up() {
            replicant.erase(out);
            self.lose(id);
            return self.shared.arm(Timer::Replicant(id), None);
        }
        replicant.refresh_row(shared);
        let mut dead = false;
        if !shared.waiters.is_empty() {
            replicant.answer_done(shared, out);
        }
        if replicant.leads(&shared.me) {
            replicant.seat_members(shared);
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
            self.lose(id);
            return;
        }
        replicant.place(&mut self.places);
        let next = replicant.wake_at(shared);
        shared.arm(Timer::Replicant(id), next);
        let wrote = self.save(id, next, out);
        self.settle_down(id, (wrote, next), out);
    }

    fn receive(&mut self, from: SiteName, envelope: Envelope, out: &mut Output) {
        let sound = envelope.message.as_ref().is_none_or(Message::is_sound);
        if self.shared.record.removed.contains(&from) || !sound {
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
            Verdict::Met => {
                self.shared.incarnations.insert(from.clone(), incarnation);
                self.on_up(&from);
            }
            Verdict::Drop | Verdict::Stale if self.shared.planted(Bug::TakeLateMessages) => {
                if let Some(message) = late {
                    self.on_message(&from, message, out);
                }
            }
            Verdict::Introduce | Verdict::Stale => self.shared.introduce(&from, out),
            Verdict::Drop => (),
        }
    }

    fn on_message(&mut self, from: &SiteName, message: Message, out: &mut Output) {
        match message {
            Message::Submit { submission, epoch } => {
                self.accept(Asker::Peer(from.clone()), submission, epoch, out)
            }
            Message::Answered {
                op,
                attempt,
                answer,
            } => self.answered(from, op, attempt, answer, out),
            Message::NotLeader {
                op,
                attempt,
                epoch,
                now: _,
            } => self.not_led(from, op, attempt, epoch),
            Message::Restored { incarnation, after } => {
                self.on_restored(from, incarnation, after, out)
            }
            Message::Shared {
                incarnation,
                after,
                headers,
                next,
            } => self.on_shared(from, (incarnation, after), (headers, next), out),
            Message::Append {
                header,
                entries,
                base,
            } => {
                let id = header.id;
                if self.shared.is_buried(id) && !self.replicants.contains_key(&id) {
                    return self
                        .shared
                        .send(from, Message::Forgotten { replicant: id }, out);
                }
                if !self.replicants.contains_key(&id) && !header.rows.contains_key(&self.shared.me)
                {
                    return self
                        .shared
                        .send(from, Message::Unknown { replicant: id }, out);
                }
                if !self.meet(&header, from) {
                    return;
                }
                let replicant = self.replicants.get_mut(&id).expect("it was just met");
                replicant.on_append(from, header, entries, base, &mut self.shared, out);
                self.shared.touched.insert(id);
            }
            Message::Forget { replicant, epoch } => self.on_forget(from, replicant, &epoch, out),
            Message::Left { replicant, epoch } => self.on_left(from, replicant, &epoch, out),
            Message::Resubmit { op, fork, epoch } => {
                let id = op.replicant;
                let Some(replicant) = self.replicants.get_mut(&id) else {
                    return;
                };
                if !replicant.leads(&self.shared.me) || *replicant.reign() != epoch {
                    return;
                }
                if let Some(answer) = self.shared.folded_answer(id, op.id) {
                    let (op, attempt) = (op.id, 0);
                    let answered = Message::Answered {
                        op,
                        attempt,
                        answer,
                    };
                    self.shared.send(from, answered, out);
                } else {
                    replicant.readmit(op, fork, &mut self.shared, out);
                    self.shared.touched.insert(id);
                }
            }
            Message::Report {
                replicant: id,
                epoch,
                promised,
                runs,
                rows_version,
                row,
                results,
                recovering,
                heard,
            } => {
                let report = Report {
                    epoch,
                    promised,
                    runs,
                    rows_version,
                    row,
                    results,
                    recovering,
                    heard,
                };
                match self.replicants.get_mut(&id) {
                    Some(replicant) => replicant.on_report(from, report, &mut self.shared, out),
                    None => self
                        .shared
                        .send(from, Message::Unknown { replicant: id }, out),
                }
                self.heard.insert(id);
                self.shared.touched.insert(id);
            }
            Message::Prepare {
                replicant: id,
                epoch,
                runs,
            } => {
                match self.replicants.get_mut(&id) {
                    Some(replicant) => {
                        replicant.on_prepare(from, epoch, runs, &mut self.shared, out)
                    }
                    None => self
                        .shared
                        .send(from, Message::Unknown { replicant: id }, out),
                }
                self.shared.touched.insert(id);
            }
            Message::Promise {
                epoch,
                header,
                entries,
                base,
            } => {
                let id = header.id;
                if let Some(replicant) = self.replicants.get_mut(&id) {
                    replicant.on_promise(from, epoch, header, entries, base);
                    self.shared.touched.insert(id);
                }
            }
            Message::Decline {
                replicant: id,
                epoch,
                promised,
            } => {
                if let Some(replicant) = self.replicants.get_mut(&id) {
                    replicant.on_decline(&epoch, promised, &self.shared);
                    self.shared.touched.insert(id);
                }
            }
            Message::Unknown { replicant: id } => {
                let Some(replicant) = self.replicants.get_mut(&id) else {
                    return;
                };
                // Of a queue nobody else would know.
                let told = replicant.record.recovery == Recovery::Done
                    || replicant.record.form == Form::Queue;
                if told && replicant.is_hollow() && replicant.record.epoch.site == *from {
                    replicant.erase(out);
                    self.lose(id);
                    return self.shared.arm(Timer::Replicant(id), None);
                }
                if replicant.leads(&self.shared.me) {
                    replicant.see_off(from);
                }
                replicant.on_unknown(from, &mut self.shared);
                self.shared.touched.insert(id);
            }
            Message::Forgotten { replicant: id } => {
                if let Some(replicant) = self.replicants.get_mut(&id) {
                    let deleted = replicant.log.is_deleted();
                    let stray = !replicant.is_involved(from);
                    let progress = replicant.progress.entry(from.clone()).or_default();
                    progress.forgotten = deleted || stray;
                    if !progress.forgotten {
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
            return false;
        };
        if header.epoch.site != *from {
            return false;
        }
        let silent = |site: &SiteName| self.shared.record.unasked.contains(site);
        let told = self.shared.boot.incarnation == 1 || !header.rows.keys().any(silent);
        let recovery = if told && self.is_first(row) {
            Recovery::Done
        } else {
            Recovery::Asking
        };
        let mut replicant = Replicant::from_header(header, recovery);
        if row.version > 0 && row.incarnation == self.shared.boot.incarnation {
            // This very disk had a record, and has left: it starts anew, and runs nothing that was before.
            let mine = Row {
                version: row.version,
                since: header.runs.last,
                ..Row::pending(row.incarnation)
            };
            replicant.record.rows.insert(self.shared.me.clone(), mine);
        }
        self.replicants.insert(header.id, replicant);
        true
    }

    /// True if no earlier disk of this site can have acted on it.
    pub(super) fn is_first(&self, row: &super::message::Row) -> bool {
        let only = self.shared.boot.incarnation == 1;
        row.incarnation == self.shared.boot.incarnation
            || (only && row.incarnation == 0 && row.version == 0)
    }

    fn on_forget(
        &mut self,
        from: &SiteName,
        id: ReplicantId,
        epoch: &crate::ids::Epoch,
        out: &mut Output,
    ) {
        if let Some(replicant) = self.replicants.get_mut(&id) {
            // Every member has confirmed, also this one, even if its disk has forgotten it since.
            if *epoch < replicant.record.promised || epoch.site != *from {
                return;
            }
            let names = |kept: &OutboxRecord| {
                let op = &kept.submission.op;
                op.replicant == id && kept.fork.is_some() && !op.sites.is_empty()
            };
            if self.shared.outbox.values().any(names) {
                // Its leader has not heard yet of sites that may have a replica.
                return;
            }
            replicant.remember_gone(&mut self.shared, out);
            replicant.erase(out);
            self.lose(id);
            self.shared.arm(Timer::Replicant(id), None);
        }
        self.shared
            .send(from, Message::Forgotten { replicant: id }, out);
    }

    fn on_outcome(&mut self, call: CallId, outcome: Outcome, out: &mut Output) {
        let Some(id) = self.shared.calls.remove(&call) else {
            return;
        };
        let Some(replicant) = self.replicants.get_mut(&id) else {
            return;
        };
        let Some((_, doing)) = replicant.call.take_if(|(known, _)| *known == call) else {
            return;
        };
        let shared = &mut self.shared;
        shared.touched.insert(id);
        match doing {
            Doing::Gate => {
                if replicant.gate_outcome(outcome, shared, out) == Fate::NeverWas {
                    replicant.fail_pending(shared, out);
                    replicant.erase(out);
                    self.lose(id);
                }
            }
            Doing::GateProbe => replicant.gate_probed(outcome, shared, out),
            Doing::Make => replicant.make_outcome(outcome, shared),
            Doing::MakeProbe => replicant.make_probed(outcome, shared),
            Doing::Entry(index) => replicant.entry_outcome(index, outcome, shared),
            Doing::Bury(index) => replicant.bury_outcome(index, outcome, shared),
            Doing::Settle {
                upto,
                fields,
                unset,
            } => {
                replicant.settle_outcome((upto, fields, unset), outcome, shared);
            }
            Doing::Leave => replicant.leave_outcome(outcome, shared),
        }
    }

    /// Everything that waits for that site is said again now.
    fn on_up(&mut self, site: &SiteName) {
        self.shared.down.remove(site);
        let now_ms = self.shared.now_ms;
        // Whoever rests lacks nothing, and nobody lacks anything of it.
        for (id, replicant) in self.replicants.awake_mut() {
            if !replicant.is_involved(site) {
                continue;
            }
            if let Some(progress) = replicant.progress.get_mut(site) {
                progress.say_again(now_ms);
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
}
