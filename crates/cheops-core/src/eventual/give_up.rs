//! Requests that are given up: by whoever waited for them, or by somebody who does not want them any more.

use super::planted::Bug;
use super::shared::Timer;
use super::site::Site;
use crate::ids::OperationId;
use crate::operation::{Answer, Problem};
use crate::output::{ClientId, Effect, Output};

impl Site {
    /// Somebody has waited long enough.
    pub(super) fn end_wait(&mut self, op: OperationId, out: &mut Output) {
        let now_ms = self.shared.now_ms;
        let Some(waiters) = self.shared.waiters.get_mut(&op) else {
            return;
        };
        let (late, rest): (Vec<_>, Vec<_>) = waiters
            .drain(..)
            .partition(|waiter| waiter.deadline_ms <= now_ms);
        *waiters = rest;
        let next = waiters.iter().map(|waiter| waiter.deadline_ms).min();
        if waiters.is_empty() {
            self.shared.waiters.remove(&op);
        }
        self.shared.arm(Timer::Waiters(op), next);
        let idle = next.is_none();
        let dropped = if idle {
            self.drop_pending(op, out)
        } else {
            None
        };
        let sure = match self.forwards.get(&op) {
            Some(forward) if self.is_known(&forward.submission) => None,
            Some(forward) => (forward.is_surely_not_done()
                || self.shared.planted(Bug::RunAfter503))
            .then_some(forward.submission.op.digest),
            None => dropped,
        };
        if idle && self.forwards.remove(&op).is_some() && sure.is_some() {
            self.shared.be_sure(op);
        }
        for waiter in late {
            match sure {
                Some(digest) => self
                    .shared
                    .void_one(op, digest, waiter, Problem::TooLate, out),
                None => self.shared.tell(op, waiter, Answer::OutcomeUnknown, out),
            }
        }
    }

    /// Takes a request back that was not called yet. Gives its digest.
    fn drop_pending(&mut self, op: OperationId, out: &mut Output) -> Option<u64> {
        if self.shared.outbox.contains_key(&op) {
            return None;
        }
        let id = self.place_of(op)?.record.id;
        let replicant = self.replicants.get_mut(&id)?;
        let at = replicant
            .pending
            .iter()
            .position(|pending| pending.op.id == op)?;
        let digest = replicant
            .pending
            .remove(at)
            .map(|pending| pending.op.digest);
        if id.0 == op.0 && replicant.record.gate.is_none() && replicant.log.last() == 0 {
            // It was to be made by this very request.
            replicant.erase(out);
            self.lose(id);
        }
        digest
    }

    /// Gives a request up, if no site was called for it.
    pub(super) fn cancel(&mut self, client: ClientId, op: OperationId, out: &mut Output) {
        let mine = self.cancellable(op);
        if mine.is_some() {
            self.shared.drop_outbox(op, out);
        }
        let digest = self.drop_pending(op, out).or(mine);
        let digest = digest.or_else(|| self.withdraw(op));
        let answer = match digest {
            Some(digest) => {
                self.shared.conclude(op, digest, Answer::Cancelled, out);
                Answer::Cancelled
            }
            None => Answer::Conflict,
        };
        out.wish(Effect::Answer { client, answer });
    }

    /// Its digest, if it waits here for a position that only this site could have given it.
    fn cancellable(&self, op: OperationId) -> Option<u64> {
        let kept = self.shared.outbox.get(&op)?;
        let asked = &kept.submission.op;
        let led = self
            .replicants
            .held(asked.replicant)
            .is_none_or(|r| r.leads(&self.shared.me));
        let free = kept.fork.is_none() && led && !self.is_called(op);
        free.then_some(asked.digest)
    }

    fn is_called(&self, op: OperationId) -> bool {
        let place = self.place_of(op);
        place.is_some_and(|replicant| replicant.operations().contains(&op))
    }
}
