//! Somebody does not want a request any more that is kept for another site.

use cheops_core::operation::Form;
use cheops_core::{Answer, ClientId, Event, OperationId, Submission};

use crate::world::{Happening, World};

/// A request may have been brought to its site by then, or not, or be on its way.
const WITHIN_MS: u64 = 4_000;

/// Millionths of requests in queues.
const CHANCE: u64 = 400_000;

impl World {
    /// Whether somebody will want it not to happen. Asked once or twice.
    pub(crate) fn draw_cancel(&mut self, host: usize, submission: &Submission) {
        if submission.form != Form::Queue || !self.aside.chance(CHANCE) {
            return;
        }
        for _ in 0..self.aside.between(1, 2) {
            let at_ms = self.now_ms + self.aside.between(1, WITHIN_MS);
            let op = submission.op.id;
            self.at(at_ms, Happening::Cancel { host, op });
        }
    }

    pub(crate) fn client_cancels(&mut self, host: usize, op: OperationId) {
        // From the other end: clients that want something count from 1.
        let client = ClientId(u64::MAX - self.cancelling.len() as u64);
        self.cancelling.insert(client, op);
        self.tell(|world| format!("{} is told: cancel {op:?}", world.hosts[host].name));
        // Whether the agent stops at it is not for the chance that the rest of the world hangs on.
        std::mem::swap(&mut self.rng, &mut self.aside);
        self.step(host, Event::Cancel { client, op });
        std::mem::swap(&mut self.rng, &mut self.aside);
    }

    /// True if the answer was to somebody who wants a request not to happen.
    pub(crate) fn canceller_hears(
        &mut self,
        host: usize,
        client: ClientId,
        answer: &Answer,
    ) -> bool {
        let Some(op) = self.cancelling.get(&client) else {
            return false;
        };
        if *answer == Answer::Cancelled {
            self.counts.cancels += 1;
            let told = (host, self.now_ms);
            self.history.cancelled.entry(*op).or_insert(told);
        }
        true
    }
}
