//! What sites say to each other. Everything fits one datagram.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::coordinate::Packed;
use super::key::Key;
use super::member::State;
use super::near::Near;
use super::standing::Standing;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Datagram<K> {
    /// Who says it.
    pub from: K,
    /// To whom: at an address there may be somebody else by now.
    pub to: K,
    /// The sender's own incarnation.
    pub incarnation: u64,
    /// Where the sender lies, and which of its places that is.
    pub place: Packed,
    /// See `place`.
    pub place_version: u16,
    /// What it is about.
    pub body: Body<K>,
    /// News, on every message.
    pub updates: Vec<Update<K>>,
}

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body<K> {
    /// Are you there?
    Ping {
        /// To be returned; nobody can guess it.
        nonce: u64,
    },
    /// I am here.
    Ack {
        /// As asked.
        nonce: u64,
    },
    /// I have no answer from `target`: have you?
    Ask {
        /// To be returned.
        nonce: u64,
        /// Who is to be tried.
        target: K,
    },
    /// It answered me.
    Vouch {
        /// As asked.
        nonce: u64,
        /// Who answered.
        target: K,
    },
    /// What do you know that I do not?
    Compare {
        /// One number for each share of the sites.
        digest: Vec<u32>,
    },
    /// This, of the shares in which we differ.
    Records {
        /// What the sender knows.
        records: Vec<Record<K>>,
        /// Shares of which it wants the same in return.
        wanted: u64,
    },
}

/// News of one site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Update<K> {
    /// Its state changed.
    State(Record<K>),
    /// Somebody had no answer from it.
    Suspect {
        /// Of whom.
        site: K,
        /// The incarnation that did not answer.
        incarnation: u64,
        /// Who had no answer.
        by: K,
    },
    /// Where it lies.
    Place {
        /// Who.
        site: K,
        /// Which of its places.
        version: u16,
        /// Where.
        place: Packed,
    },
    /// An operator decided something.
    Standing {
        /// Of whom.
        site: K,
        /// What.
        standing: Standing<K>,
    },
    /// Whom it measured as its nearest.
    Near {
        /// Who.
        site: K,
        /// Which of its measurements.
        version: u16,
        /// The nearest first.
        near: Vec<Near>,
    },
}

/// What is known of one site, in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record<K> {
    /// Who.
    pub site: K,
    /// Its incarnation.
    pub incarnation: u64,
    /// Its state; never [`State::Suspect`], which is told with who suspects.
    pub state: State,
    /// Where it says that it is reached.
    pub address: Arc<str>,
    /// Tells whether an announcement is its latest.
    pub said: u32,
    /// What an operator decided of it.
    pub standing: Option<Standing<K>>,
}

impl<K: Key> Record<K> {
    /// Bytes it takes in a message, at most.
    pub(super) fn wire_bytes(&self) -> usize {
        // Incarnation up to 10, state 1, length 1, said up to 5, presence 1.
        let standing = self.standing.as_ref();
        let standing = standing.map_or(0, |standing| standing.by.wire_bytes() + 11);
        self.site.wire_bytes() + self.address.len() + 18 + standing
    }
}

impl<K: Key> Update<K> {
    /// Of whom it is.
    pub fn site(&self) -> &K {
        match self {
            Update::State(record) => &record.site,
            Update::Suspect { site, .. }
            | Update::Place { site, .. }
            | Update::Near { site, .. }
            | Update::Standing { site, .. } => site,
        }
    }

    /// Bytes it takes in a message, at most.
    pub(super) fn wire_bytes(&self) -> usize {
        1 + match self {
            Update::State(record) => record.wire_bytes(),
            Update::Suspect { site, by, .. } => site.wire_bytes() + by.wire_bytes() + 10,
            // Each part of a place takes up to 3 bytes.
            Update::Place { site, .. } => site.wire_bytes() + 3 + 21,
            Update::Near { site, near, .. } => site.wire_bytes() + 4 + near.len() * 7,
            Update::Standing { site, standing } => {
                site.wire_bytes() + standing.by.wire_bytes() + 11
            }
        }
    }
}
