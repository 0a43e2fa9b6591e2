//! What is known of one other site.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::coordinate::Packed;
use super::limits::MISSES_TO_CUT;
use super::near::Nearest;
use super::standing::Standing;
use super::suspicion::Suspicion;

/// What the mesh believes of a site's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// It answers somebody.
    Alive,
    /// Somebody had no answer; it may still refute.
    Suspect,
    /// Nobody heard it, and it did not refute in time.
    Away,
    /// It said that it leaves.
    Left,
}

/// How this site's own path to another is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Not tried yet.
    Untried,
    /// It answers us.
    Direct,
    /// It hears nothing of us, though we hear it.
    OneWay,
    /// Only others hear it.
    Indirect,
    /// Nobody hears it.
    None,
}

impl Reach {
    /// The word shown to people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Reach::Untried => "untried",
            Reach::Direct => "direct",
            Reach::OneWay => "one-way",
            Reach::Indirect => "indirect",
            Reach::None => "none",
        }
    }
}

/// One other site.
#[derive(Clone, Debug)]
pub struct Member<K> {
    /// Which word about it is the latest: only the site itself raises it.
    pub incarnation: u64,
    /// What is believed of it.
    pub state: State,
    /// Where it says that it is reached.
    pub address: Arc<str>,
    /// Tells whether what it announces of itself is what we have of it.
    pub said: u32,
    /// Where it lies.
    pub place: Option<Packed>,
    pub(super) place_version: u16,
    /// When it answered us last; 0 is never.
    pub(super) heard_ms: u64,
    /// Probes since then that only others had answered.
    pub(super) misses: u8,
    /// It spoke to us since the first of them.
    pub(super) spoke: bool,
    /// The round trip to it, if we measured it.
    pub trip_ms: Option<f64>,
    /// When it was last measured because it may be near.
    pub(super) measured_ms: u64,
    /// Whom it measured as its nearest.
    pub near: Option<Nearest<K>>,
    pub(super) near_version: u16,
    pub(super) suspicion: Option<Box<Suspicion<K>>>,
    /// What an operator decided of it.
    pub standing: Option<Box<Standing<K>>>,
}

impl<K> Member<K> {
    pub(super) fn new(incarnation: u64, state: State, address: Arc<str>, said: u32) -> Member<K> {
        Member {
            incarnation,
            state,
            address,
            said,
            place: None,
            place_version: 0,
            heard_ms: 0,
            misses: 0,
            spoke: false,
            trip_ms: None,
            measured_ms: 0,
            near: None,
            near_version: 0,
            suspicion: None,
            standing: None,
        }
    }

    /// How our own path to it is.
    pub fn reach(&self) -> Reach {
        match self.state {
            State::Away | State::Left => Reach::None,
            State::Alive | State::Suspect if self.misses >= MISSES_TO_CUT => {
                if self.spoke {
                    Reach::OneWay
                } else {
                    Reach::Indirect
                }
            }
            State::Alive | State::Suspect if self.heard_ms > 0 => Reach::Direct,
            State::Alive | State::Suspect => Reach::Untried,
        }
    }

    /// Whether it takes part: probed, asked, compared with.
    pub(super) fn takes_part(&self) -> bool {
        matches!(self.state, State::Alive | State::Suspect) && !self.is_out()
    }

    /// Whether an operator took it out.
    pub(super) fn is_out(&self) -> bool {
        self.standing.as_ref().is_some_and(|s| s.word.is_out())
    }
}
