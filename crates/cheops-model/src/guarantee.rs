//! What a request on several sites is promised.

use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// The promise of a replicated, spanning or queued request. Options are `None` unless given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Guarantee {
    /// Sent to each site once, not followed.
    None,
    /// Every site applies it in the end, in the leader's order.
    Eventual {
        /// Forgotten if not run within this time.
        ttl: Option<Duration>,
        /// Who leads after the leader is gone.
        failover: Option<Failover>,
    },
    /// Every site may write at any time; order follows cause and effect.
    Causal {
        /// Who decides between concurrent writes.
        on_conflict: Option<OnConflict>,
    },
    /// All sites or none in the end.
    Transactional {
        /// How long sites that are away are waited for.
        wait: Option<Duration>,
    },
    /// One order for all, agreed by a majority before the answer.
    Strong {
        /// What a read may see.
        read: Option<StrongRead>,
    },
}

/// How an eventual replicant gets a new leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failover {
    /// By itself: the leader holds a lease from a majority.
    Auto,
}

/// Who decides between concurrent writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// The later write, field by field.
    Lww,
    /// Both, by the profile's rules.
    Merge,
    /// Nobody: reads return every version until somebody picks.
    Keep,
    /// A person.
    Manual,
    /// A handler of that name.
    Custom(String),
}

/// What a read under `strong` may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StrongRead {
    /// The latest agreed write.
    Linear,
    /// Whatever this site has.
    Local,
}

impl Guarantee {
    /// `eventual`, the default of `&` and `+`, with nothing said.
    pub const EVENTUAL: Guarantee = Guarantee::Eventual {
        ttl: None,
        failover: None,
    };

    /// The word that names it in a scope and in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Guarantee::None => "none",
            Guarantee::Eventual { .. } => "eventual",
            Guarantee::Causal { .. } => "causal",
            Guarantee::Transactional { .. } => "transactional",
            Guarantee::Strong { .. } => "strong",
        }
    }

    /// True if the guarantee on a single site means taking the request now and running it there
    /// when that site can be reached.
    pub fn queues_on_one_site(&self) -> bool {
        match self {
            Guarantee::None | Guarantee::Eventual { .. } => true,
            Guarantee::Causal { .. }
            | Guarantee::Transactional { .. }
            | Guarantee::Strong { .. } => false,
        }
    }
}

impl OnConflict {
    /// The word after `on-conflict=`.
    pub fn word(&self) -> String {
        match self {
            OnConflict::Lww => "lww".into(),
            OnConflict::Merge => "merge".into(),
            OnConflict::Keep => "keep".into(),
            OnConflict::Manual => "manual".into(),
            OnConflict::Custom(name) => format!("custom.{name}"),
        }
    }
}

impl Failover {
    /// The word after `failover=`.
    pub fn word(self) -> &'static str {
        match self {
            Failover::Auto => "auto",
        }
    }
}

impl StrongRead {
    /// The word after `read=`.
    pub fn word(self) -> &'static str {
        match self {
            StrongRead::Linear => "linear",
            StrongRead::Local => "local",
        }
    }
}

/// `{"kind": "eventual", "ttl_ms": 86400000}`: options only if given.
impl Serialize for Guarantee {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind())?;
        match self {
            Guarantee::None => (),
            Guarantee::Eventual { ttl, failover } => {
                ttl.map(|t| entry_ms(&mut map, "ttl_ms", t)).transpose()?;
                failover
                    .map(|f| map.serialize_entry("failover", f.word()))
                    .transpose()?;
            }
            Guarantee::Causal { on_conflict } => {
                let word = on_conflict.as_ref().map(OnConflict::word);
                word.map(|w| map.serialize_entry("on_conflict", &w))
                    .transpose()?;
            }
            Guarantee::Transactional { wait } => {
                wait.map(|w| entry_ms(&mut map, "wait_ms", w)).transpose()?;
            }
            Guarantee::Strong { read } => {
                read.map(|r| map.serialize_entry("read", r.word()))
                    .transpose()?;
            }
        }
        map.end()
    }
}

/// Milliseconds: whole where they are whole, so that `24h` is `86400000` and not `86400000.0`.
fn entry_ms<M: SerializeMap>(map: &mut M, key: &str, value: Duration) -> Result<(), M::Error> {
    if value.subsec_nanos().is_multiple_of(1_000_000) {
        map.serialize_entry(key, &(value.as_millis() as u64))
    } else {
        map.serialize_entry(key, &(value.as_nanos() as f64 / 1e6))
    }
}
