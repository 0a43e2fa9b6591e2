//! What a step wants written and what it wants said: the second cannot be had before the first is durable.

use cheops_model::SiteName;

use crate::ids::ReplicantId;
use crate::link::Envelope;
use crate::operation::{Answer, DoubtBy, Fields, Operation};
use crate::record::Table;

/// One call to a service; its outcome comes back with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// One client that waits for an answer. Chosen by whoever hands in the submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// What to ask of the local service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Make it, with these fields, marked with the operation where the profile can. Never over one that exists.
    Create {
        /// The operation it belongs to.
        op: Operation,
        /// What it is to have.
        fields: Fields,
    },
    /// Run the operation on that resource.
    Run {
        /// The operation.
        op: Operation,
        /// The resource; none if it is queued and names its own.
        local: Option<String>,
    },
    /// Write these fields by the profile's update call.
    Settle {
        /// The resource.
        local: String,
        /// What differs.
        fields: Fields,
        /// What is not to be there.
        unset: Vec<String>,
    },
    /// Remove it.
    Delete {
        /// The resource.
        local: String,
        /// Only while it still has these (it was found by match, not by proof).
        only_if: Option<Fields>,
        /// Replicants below it that may go along; others are a [`Refusal::Children`](crate::operation::Refusal).
        knows: Vec<ReplicantId>,
    },
    /// Look whether a create was done.
    Probe {
        /// How.
        how: DoubtBy,
        /// The create.
        op: Operation,
        /// What it was to have.
        fields: Fields,
    },
}

/// A wish, to be fulfilled after the batch is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// To a peer. May be lost.
    Send {
        /// Whom.
        to: SiteName,
        /// What.
        envelope: Envelope,
    },
    /// To the local service. Its outcome must come back as an event.
    Call {
        /// With this.
        id: CallId,
        /// For whom.
        replicant: ReplicantId,
        /// Which API.
        service: String,
        /// What.
        call: Call,
    },
    /// To a client.
    Answer {
        /// Whom.
        client: ClientId,
        /// What.
        answer: Answer,
    },
    /// Step with `Tick` at this time, at the latest.
    Wake {
        /// On the monotonic clock.
        at_ms: u64,
    },
}

/// One change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub table: Table,
    /// Under which key.
    pub key: Vec<u8>,
    /// Written, or removed if none.
    pub value: Option<Vec<u8>>,
}

/// Collects what steps want. Several steps may share one output, and so one write.
#[derive(Debug, Default)]
pub struct Output {
    changes: Vec<Change>,
    effects: Vec<Effect>,
    bytes: usize,
    /// Something is to be written, or said to somebody.
    speaks: bool,
}

impl Output {
    /// Nothing yet.
    pub fn new() -> Output {
        Output::default()
    }

    /// How much is to be written: keys and values together. Whoever shares one output among several steps stops
    /// before a batch of its store is full.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many records are to be written or removed.
    pub fn records(&self) -> usize {
        self.changes.len()
    }

    /// True if nothing is to be written.
    pub fn is_silent(&self) -> bool {
        self.changes.is_empty() && self.effects.is_empty()
    }

    /// True if something is to be written, or said to somebody other than a clock.
    pub(crate) fn speaks(&self) -> bool {
        self.speaks
    }

    /// Hands the changes to `persist`, which returns when they are durable, all or none; then gives the effects.
    /// After an error the state in memory is ahead of the disk: drop it, and start again from the records.
    pub fn commit<E>(
        self,
        persist: impl FnOnce(Vec<Change>) -> Result<(), E>,
    ) -> Result<Vec<Effect>, E> {
        if !self.changes.is_empty() {
            persist(self.changes)?;
        }
        Ok(self.effects)
    }

    pub(crate) fn write(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.speaks = true;
        self.changes.push(Change { table, key, value });
    }

    pub(crate) fn wish(&mut self, effect: Effect) {
        self.speaks |= !matches!(effect, Effect::Wake { .. });
        self.effects.push(effect);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_knows_what_a_batch_of_it_weighs() {
        let mut out = Output::new();
        assert_eq!(out.bytes(), 0);
        out.write(Table::Log, vec![0; 24], Some(vec![0; 100]));
        out.write(Table::Log, vec![0; 24], None);
        let counted = out.bytes();
        let weigh = |changes: Vec<Change>| {
            let one =
                |change: &Change| change.key.len() + change.value.as_ref().map_or(0, Vec::len);
            assert_eq!(changes.iter().map(one).sum::<usize>(), counted);
            Ok::<(), ()>(())
        };
        assert_eq!(out.commit(weigh), Ok(Vec::new()));
    }
}
