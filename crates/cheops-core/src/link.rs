//! One link to each peer: what arrives is new, and in the order it was sent. Messages may be lost, not repeated.
//!
//! Every envelope names the run of the agent it was meant for and a number. What was meant for an earlier run, or
//! comes after something newer, is dropped: for everything above, reordering and duplication are loss. So nothing
//! sent before a tombstone was forgotten can be heard after it.

use serde::{Deserialize, Serialize};

use crate::eventual::Message;
use crate::ids::Boot;

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The run of the sender.
    pub from: Boot,
    /// The run of the receiver as the sender knows it.
    pub to: Option<Boot>,
    /// Counts within this pair of runs.
    pub number: u64,
    /// None: only to say which run this is.
    pub message: Option<Message>,
}

/// What to do with an envelope.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Hand it on.
    Take(Message),
    /// The peer does not know this run: tell it.
    Introduce,
    /// A run of the peer that was not known: what waits for it may be sent now.
    Met,
    /// From an earlier run of the peer, or from a disk that has forgotten the later ones: it is told which is known.
    Stale,
    /// Old, or nothing.
    Drop,
}

/// This end of a link.
#[derive(Debug, Default)]
pub(crate) struct Link {
    peer: Option<Boot>,
    sent: u64,
    heard: u64,
}

impl Link {
    /// The run of the peer that was heard last.
    pub(crate) fn peer(&self) -> Option<Boot> {
        self.peer
    }

    pub(crate) fn wrap(&mut self, me: Boot, message: Option<Message>) -> Envelope {
        self.sent += 1;
        Envelope {
            from: me,
            to: self.peer,
            number: self.sent,
            message,
        }
    }

    pub(crate) fn unwrap(&mut self, me: Boot, envelope: Envelope) -> Verdict {
        let known = self.peer;
        if known.is_some_and(|known| envelope.from < known) {
            return Verdict::Stale;
        }
        if known != Some(envelope.from) {
            *self = Link {
                peer: Some(envelope.from),
                sent: self.sent,
                heard: 0,
            };
        }
        let Some(message) = envelope.message else {
            return if known == self.peer {
                Verdict::Drop
            } else {
                Verdict::Met
            };
        };
        if envelope.to != Some(me) {
            return Verdict::Introduce;
        }
        if envelope.number <= self.heard {
            return Verdict::Drop;
        }
        self.heard = envelope.number;
        Verdict::Take(message)
    }
}
