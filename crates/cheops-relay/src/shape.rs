//! What a link is like.

use std::num::NonZeroU64;
use std::time::Duration;

/// The most that is on its way in one direction of one stream: more is not read (TCP, the sender
/// has to wait) or dropped (UDP).
pub const IN_FLIGHT_BYTES_MAX: usize = 4 << 20;

/// A million: the whole, in parts per million.
pub(crate) const PPM: u32 = 1_000_000;

/// What a link does to what crosses it. Both directions are alike.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// The time from one end to the other: half a round trip.
    pub delay: Duration,
    /// The most that is added to the delay, drawn evenly. It reorders datagrams, never streams.
    pub jitter: Duration,
    /// How many datagrams of a million are lost. Streams lose nothing: TCP would send it again.
    pub loss_ppm: u32,
    /// The bandwidth of each direction, shared by all that crosses it; without end if `None`.
    pub bytes_per_s_max: Option<NonZeroU64>,
    /// Where the draws of jitter and loss begin: the same seed draws the same.
    pub seed: u64,
}

impl Shape {
    /// A link with a delay and nothing else.
    pub fn with_delay(delay: Duration) -> Shape {
        Shape {
            delay,
            ..Shape::default()
        }
    }
}

/// One of the two ways over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From those who connect to the relay, towards the target.
    ToTarget,
    /// From the target back.
    FromTarget,
}

impl Direction {
    pub(crate) fn opposite(self) -> Direction {
        match self {
            Direction::ToTarget => Direction::FromTarget,
            Direction::FromTarget => Direction::ToTarget,
        }
    }
}
