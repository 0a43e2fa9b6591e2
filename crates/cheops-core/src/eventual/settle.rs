//! Settle: the one way to mend. Brings one replica to what clients have written, and never deletes.

use super::apply::UNKNOWN;
use super::log::{Body, Stage};
use super::planted::Bug;
use super::replicant::{Doing, Mend, Replicant};
use super::shared::Shared;
use crate::limits::{NO_ROOM_MS, RETRY_MS};
use crate::operation::{Fields, Form, Kind, Outcome, Refusal, Wait};
use crate::output::{Call, Output};

/// What the effect of which is there by another way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    /// What clients wrote.
    State,
    Everything,
}

impl Replicant {
    /// Brings the service to the desired representation. Writes only what differs, never deletes.
    pub(super) fn settle(&mut self, shared: &mut Shared, out: &mut Output) {
        let upto = self.log.last();
        let behind = !self.leads(&shared.me) && upto < self.leader_last;
        if upto == 0 || behind {
            // What clients have written is not known here yet.
            return;
        }
        let desired = self.log.desired(upto).fields;
        let written = &self.record.written;
        let differs = |(field, value): &(&String, &String)| written.get(*field) != Some(*value);
        let fields: Fields = desired
            .iter()
            .filter(differs)
            .map(|(f, v)| (f.clone(), v.clone()))
            .collect();
        let unset: Vec<String> = written
            .keys()
            .filter(|field| !desired.contains_key(*field))
            .cloned()
            .collect();
        if fields.is_empty() && unset.is_empty() || shared.planted(Bug::SkipSettleAfterFork) {
            return self.settled(upto, shared);
        }
        let local = self
            .row(&shared.me)
            .local
            .clone()
            .expect("only what is there is settled");
        self.mark_unknown(fields.keys().chain(&unset).cloned().collect());
        if shared.planted(Bug::DeleteAbsentOnHeal) && !unset.is_empty() {
            let call = self.delete_call(Vec::new(), shared);
            let doing = Doing::Settle {
                upto,
                fields,
                unset,
            };
            return self.begin(call, doing, shared, out);
        }
        let call = Call::Settle {
            local,
            fields: fields.clone(),
            unset: unset.clone(),
        };
        let doing = Doing::Settle {
            upto,
            fields,
            unset,
        };
        self.begin(call, doing, shared, out);
    }

    /// Before a call that writes: whatever comes of it, what is there is not known until it has answered.
    pub(super) fn mark_unknown(&mut self, fields: Vec<String>) {
        if self.record.form == Form::Replica {
            self.record
                .written
                .extend(fields.into_iter().map(|field| (field, UNKNOWN.to_string())));
        }
    }

    pub(super) fn settled(&mut self, upto: u64, shared: &Shared) {
        if upto == self.log.last() {
            self.record.mend = Mend::Nothing;
        }
        self.cover(upto, Cover::State);
        self.walk(shared);
        self.woken = true;
    }

    pub(super) fn cover(&mut self, upto: u64, what: Cover) {
        let open = self
            .log
            .iter()
            .filter(|kept| kept.entry.index <= upto && !kept.stage.is_final());
        let state = |body: &Body| matches!(body, Body::Run(op) if matches!(op.kind, Kind::Create | Kind::Update));
        let open = open.filter(|kept| !self.log.is_void(kept.entry.body.operation()));
        let covered = open.filter(|kept| what == Cover::Everything || state(&kept.entry.body));
        for index in covered.map(|kept| kept.entry.index).collect::<Vec<_>>() {
            self.log.set_stage(index, Stage::Covered);
        }
    }

    pub(super) fn settle_outcome(
        &mut self,
        doing: (u64, Fields, Vec<String>),
        outcome: Outcome,
        shared: &mut Shared,
    ) {
        let (upto, fields, unset) = doing;
        match outcome {
            Outcome::Applied { .. } => {
                self.calm();
                self.record.written.extend(fields);
                self.record
                    .written
                    .retain(|field, _| !unset.contains(field));
                self.settled(upto, shared);
            }
            Outcome::Refused {
                class: Refusal::Verdict,
                status: 404 | 410,
                ..
            } => {
                // It is not there: settle makes it.
                self.row_mut(&shared.me).local = None;
                self.record.written.clear();
            }
            Outcome::Refused {
                class: Refusal::Verdict,
                status,
                ..
            } if status == Wait::Credentials.status() => {
                self.retry_ms = shared.now_ms + NO_ROOM_MS;
            }
            Outcome::Refused {
                class: Refusal::Verdict | Refusal::Taken | Refusal::Children,
                status,
                ..
            } => {
                self.record.mend = Mend::Skipped;
                let next = self.row(&shared.me).applied + 1;
                if self
                    .log
                    .get(next)
                    .is_some_and(|kept| !kept.stage.is_final())
                {
                    self.log.set_stage(next, Stage::Refused(status));
                }
            }
            Outcome::Refused {
                class: Refusal::NoRoom,
                ..
            }
            | Outcome::Waits(_) => self.retry_ms = shared.now_ms + NO_ROOM_MS,
            Outcome::Refused {
                class: Refusal::NotReady,
                ..
            }
            | Outcome::NotSent => {
                self.back_off(shared.now_ms, RETRY_MS);
            }
            Outcome::Unknown | Outcome::Found(_) => {
                self.back_off(shared.now_ms, RETRY_MS);
                self.retry_ms = self.retry_ms.max(shared.now_ms + shared.tuning.settle_ms);
            }
        }
    }
}
