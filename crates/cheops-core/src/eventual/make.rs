//! The create on this site: called once, looked for when in doubt.

use super::log::Stage;
use super::planted::Bug;
use super::replicant::{Doing, Making, Mend, Replicant};
use super::settle::Cover;
use super::shared::Shared;
use crate::limits::RETRY_MS;
use crate::operation::{DoubtBy, Found, Kind, Outcome};
use crate::output::{Call, Output};

impl Replicant {
    /// Not there yet: make it.
    pub(super) fn make(&mut self, shared: &mut Shared, out: &mut Output) {
        let behind = !self.leads(&shared.me) && self.log.last() < self.leader_last;
        if self.log.last() == 0 || (self.record.doubt_until > 0 && behind) {
            // What to look for is in the log.
            return;
        }
        if self.may_be_told(shared) {
            return;
        }
        match self
            .record
            .making
            .as_ref()
            .map(|making| making.stage.clone())
        {
            None if self.record.doubt_until > 0 => {
                let fields = self
                    .record
                    .create
                    .as_ref()
                    .map(|op| op.fields.clone())
                    .unwrap_or_default();
                self.record.making = Some(Making {
                    fields,
                    upto: 1,
                    stage: Stage::InDoubt,
                });
                self.probe(shared, out);
            }
            None | Some(Stage::Queued | Stage::Waiting(_)) => self.call_create(shared, out),
            Some(Stage::InDoubt) => self.probe(shared, out),
            Some(_) => (),
        }
    }

    pub(super) fn call_create(&mut self, shared: &mut Shared, out: &mut Output) {
        let Some(op) = self.record.create.clone() else {
            return;
        };
        let first = self.log.get(self.row(&shared.me).applied + 1);
        let in_turn = first.is_some_and(|kept| kept.entry.body.operation() == op.id);
        let upto = if in_turn && self.record.mend == Mend::Nothing {
            first
                .map(|kept| kept.entry.index)
                .expect("it is in its turn")
        } else {
            self.log.last()
        };
        let fields = self.log.desired(upto).fields;
        self.record.making = Some(Making {
            fields: fields.clone(),
            upto,
            stage: Stage::Calling,
        });
        let call = Call::Create { op, fields };
        self.begin(call, Doing::Make, shared, out);
    }

    pub(super) fn probe(&mut self, shared: &mut Shared, out: &mut Output) {
        let (Some(op), Some(making)) = (self.record.create.clone(), &self.record.making) else {
            return;
        };
        if self.record.doubt == DoubtBy::Nothing {
            return;
        }
        let mut fields = making.fields.clone();
        if self.record.doubt_until > 0 {
            // This disk does not know with what it was made: what clients never changed must be there.
            let desired = self.log.desired(self.log.last()).fields;
            fields = op.fields.clone();
            fields.retain(|field, value| desired.get(field) == Some(value));
        }
        if fields.is_empty() && self.record.doubt == DoubtBy::Match {
            return;
        }
        let call = Call::Probe {
            how: self.record.doubt,
            fields,
            op,
        };
        self.begin(call, Doing::MakeProbe, shared, out);
    }

    /// Deleted, and nothing is there; unless a create is in doubt, which is looked into first.
    pub(super) fn bury(&mut self, shared: &mut Shared, out: &mut Output) {
        if self.record.making.is_none() && self.row(&shared.me).applied == self.log.last() {
            return;
        }
        let doubtful = self.record.doubt_until > 0 && self.record.create.is_some();
        match &self.record.making {
            Some(making) if matches!(making.stage, Stage::InDoubt | Stage::Calling) => {
                self.probe(shared, out)
            }
            None if doubtful => self.make(shared, out),
            _ => {
                self.record.making = None;
                self.cover(self.log.last(), Cover::Everything);
                self.record.mend = Mend::Nothing;
                self.walk(shared);
            }
        }
    }

    pub(super) fn make_outcome(&mut self, outcome: Outcome, shared: &mut Shared) {
        let now_ms = shared.now_ms;
        let making = self
            .record
            .making
            .clone()
            .expect("a create is on disk before it is called");
        let stage = match outcome {
            Outcome::Applied { local, .. } => return self.made(making, local, shared),
            Outcome::Refused { class, status, .. } => self.weigh(1, class, status, shared),
            Outcome::NotSent => {
                self.back_off(now_ms, RETRY_MS);
                Stage::Queued
            }
            Outcome::Waits(why) => self.wait_for(why, shared),
            Outcome::Unknown | Outcome::Found(_) if shared.planted(Bug::RetryTimeout) => {
                Stage::Queued
            }
            Outcome::Unknown | Outcome::Found(_) => {
                self.retry_ms = now_ms + shared.tuning.settle_ms;
                Stage::InDoubt
            }
        };
        self.record.making = Some(Making { stage, ..making });
    }

    pub(super) fn made(&mut self, making: Making, local: Option<String>, shared: &mut Shared) {
        self.calm();
        self.note_done(&Kind::Create, &making.fields, local, shared);
        self.cover(making.upto, Cover::State);
        self.walk(shared);
    }

    pub(super) fn make_probed(&mut self, outcome: Outcome, shared: &mut Shared) {
        let making = self
            .record
            .making
            .clone()
            .expect("only doubt is looked into");
        match outcome {
            Outcome::Found(Found::Ours(local)) => {
                self.record.matched = self.record.doubt == DoubtBy::Match;
                self.made(making, Some(local), shared);
                if self.record.doubt_until > 0 {
                    // What was written since the backup is not known.
                    self.record.written.clear();
                    self.record.mend = Mend::Settle;
                }
            }
            Outcome::Found(Found::None) if self.is_certainly_none(shared) => {
                self.calm();
                self.record.making = Some(Making {
                    stage: Stage::Queued,
                    ..making
                });
            }
            Outcome::Found(Found::None) => self.look_again(shared),
            Outcome::Found(Found::Several) => self.back_off(shared.now_ms, (60_000, 600_000)),
            _ => self.back_off(shared.now_ms, RETRY_MS),
        }
    }
}
