//! Requests whose content is still coming in: the gate's service is asked while it does, but gets the end of it only
//! after it is whole on this site's disk. So a request that was streaming when its agent stopped was never done.

use super::gate::Fate;
use super::log::Stage;
use super::replicant::{Gate, Replicant};
use super::shared::{Asker, Shared, Timer};
use super::site::Site;
use crate::ids::OperationId;
use crate::operation::{Answer, Kind, Operation, Problem, Submission};
use crate::output::{ClientId, Effect, Output};

impl Site {
    pub(super) fn stream(&mut self, client: ClientId, submission: Submission, out: &mut Output) {
        let me = &self.shared.me;
        let op = &submission.op;
        let leader = match self.replicants.held(op.replicant) {
            Some(replicant) if replicant.leads(me) => me.clone(),
            Some(replicant) => replicant.record.epoch.site.clone(),
            None if op.kind == Kind::Create && submission.sites.contains(me) => me.clone(),
            None => submission.sites.first().unwrap_or(me).clone(),
        };
        if leader != *me {
            let answer = Answer::Unavailable(Problem::NotLeader(leader));
            return out.wish(Effect::Answer { client, answer });
        }
        self.shared.streaming.insert(op.id);
        self.accept(Asker::Client(client), submission, None, out);
    }

    pub(super) fn complete(
        &mut self,
        client: ClientId,
        op: Operation,
        wait_ms: u64,
        out: &mut Output,
    ) {
        let replicant = self.replicants.get_mut(&op.replicant);
        let streamed = self.shared.streaming.remove(&op.id);
        let completed = streamed && replicant.is_some_and(|replicant| replicant.complete(&op));
        let answer = match completed {
            true => {
                self.shared.touched.insert(op.replicant);
                let until_ms = self.shared.now_ms.saturating_add(wait_ms);
                self.shared.wait_until(op.id, until_ms);
                // They asked for what is known of it only now.
                for waiter in self.shared.waiters.get_mut(&op.id).into_iter().flatten() {
                    waiter.digest = op.digest;
                }
                Answer::Accepted
            }
            // Given up meanwhile.
            false => Answer::Unavailable(Problem::TooLate),
        };
        out.wish(Effect::Answer { client, answer });
    }
}

impl Shared {
    /// What is asked of a service is in doubt if the agent stops; what is still streaming is not. Whoever brings it
    /// waits without an end until it is whole.
    pub(super) fn first_stage_at_gate(&mut self, op: OperationId) -> Stage {
        if !self.streaming.contains(&op) {
            return Stage::Calling;
        }
        self.wait_until(op, u64::MAX);
        Stage::Streaming
    }

    fn wait_until(&mut self, op: OperationId, until_ms: u64) {
        for waiter in self.waiters.get_mut(&op).into_iter().flatten() {
            waiter.deadline_ms = until_ms;
        }
        self.arm(Timer::Waiters(op), Some(until_ms));
    }
}

impl Replicant {
    /// Takes the whole in the place of what was known of it. False if it does not wait for the gate and is not there.
    fn complete(&mut self, whole: &Operation) -> bool {
        let at_gate = self.record.gate.as_mut();
        let streaming = |gate: &&mut Gate| gate.op.id == whole.id && gate.stage == Stage::Streaming;
        let at_gate = at_gate.filter(streaming);
        let at_gate = at_gate.map(|gate| {
            gate.stage = Stage::Calling;
            &mut gate.op
        });
        let pending = self.pending.iter_mut().map(|pending| &mut pending.op);
        let mut waiting = pending.chain(at_gate);
        let Some(streamed) = waiting.find(|op| op.id == whole.id) else {
            return false;
        };
        let made_by = self.record.create.as_mut();
        let made_by = made_by.filter(|create| create.id == whole.id);
        for op in made_by.into_iter().chain([streamed]) {
            op.fields = whole.fields.clone();
            op.rest = whole.rest.clone();
            op.digest = whole.digest;
        }
        true
    }

    /// The service would not have it now, and there is no content to try it with again: nothing happened.
    pub(super) fn break_off(
        &mut self,
        op: Operation,
        shared: &mut Shared,
        out: &mut Output,
    ) -> Fate {
        self.record.gate = None;
        shared.void(op.id, op.digest, Problem::TooLate, out);
        match self.log.last() == 0 && self.leads(&shared.me) {
            true => Fate::NeverWas,
            false => Fate::Stays,
        }
    }
}
