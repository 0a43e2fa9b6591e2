//! A link, and one direction of it as one stream sees it: it stamps what enters.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::controls::{Controls, Gone, Stamp, State, wait_for};
use crate::draw::Draw;
use crate::shape::{Direction, PPM, Shape};

/// What all streams over one link share.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) target: SocketAddr,
    pub(crate) state: watch::Receiver<State>,
    shape: Shape,
    to_target: Pace,
    from_target: Pace,
}

impl Link {
    pub(crate) fn new(target: SocketAddr, shape: Shape, controls: &Controls) -> Link {
        let pace = || Pace::new(shape.bytes_per_s_max);
        let (to_target, from_target) = (pace(), pace());
        Link {
            target,
            state: controls.follow(),
            shape,
            to_target,
            from_target,
        }
    }

    /// What entered that way so far.
    pub(crate) fn carried(&self, direction: Direction) -> u64 {
        self.pace(direction).carried.load(Ordering::Relaxed)
    }

    fn pace(&self, direction: Direction) -> &Pace {
        match direction {
            Direction::ToTarget => &self.to_target,
            Direction::FromTarget => &self.from_target,
        }
    }
}

/// The bandwidth of one direction: when what entered before has left.
#[derive(Debug)]
struct Pace {
    bytes_per_s_max: Option<NonZeroU64>,
    free_at: Mutex<Instant>,
    carried: AtomicU64,
}

impl Pace {
    fn new(bytes_per_s_max: Option<NonZeroU64>) -> Pace {
        Pace {
            bytes_per_s_max,
            free_at: Mutex::new(Instant::now()),
            carried: AtomicU64::new(0),
        }
    }

    /// When the last of `bytes` has left, behind all that came before.
    fn departure(&self, bytes: usize) -> Instant {
        self.carried.fetch_add(bytes as u64, Ordering::Relaxed);
        let now = Instant::now();
        let Some(bytes_per_s) = self.bytes_per_s_max else {
            return now;
        };
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(bytes_per_s.get());
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = now.max(*free_at) + Duration::from_nanos(nanos as u64);
        *free_at
    }
}

/// One direction of a link for one stream, with draws of its own.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    link: &'a Link,
    direction: Direction,
    state: watch::Receiver<State>,
    draw: Draw,
}

impl<'a> Line<'a> {
    /// The `number` tells streams apart: each draws in its own order.
    pub(crate) fn new(link: &'a Link, direction: Direction, number: u64) -> Line<'a> {
        let stream = number * 2 + u64::from(direction == Direction::FromTarget);
        let draw = Draw::new(link.shape.seed, stream);
        Line {
            link,
            direction,
            state: link.state.clone(),
            draw,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.borrow().is_open(self.direction)
    }

    /// The stamp of bytes that enter now.
    pub(crate) fn stamp(&mut self, bytes: usize) -> Stamp {
        let jitter_ns = self.link.shape.jitter.as_nanos() as u64;
        let jitter = Duration::from_nanos(self.draw.below(jitter_ns.saturating_add(1)));
        let latency = self.state.borrow().delay + jitter;
        Stamp {
            sent_at: self.link.pace(self.direction).departure(bytes),
            latency,
        }
    }

    /// Draws whether the next datagram is lost.
    pub(crate) fn loses_next(&mut self) -> bool {
        self.draw.below(u64::from(PPM)) < u64::from(self.link.shape.loss_ppm)
    }

    pub(crate) fn arrival(&self, stamp: Stamp) -> Option<Instant> {
        self.state.borrow().arrival(self.direction, stamp)
    }

    pub(crate) fn survives(&self, stamp: Stamp) -> bool {
        self.state.borrow().survives(self.direction, stamp)
    }

    /// Waits until the state is another than when this returned last.
    pub(crate) async fn changed(&mut self) -> Result<(), Gone> {
        self.state.changed().await.map_err(|_| Gone)
    }

    /// Waits as long as news take from the end of this line back to its beginning.
    pub(crate) async fn cross_back(&mut self) -> Result<(), Gone> {
        let stamp = Stamp {
            sent_at: Instant::now(),
            latency: self.state.borrow().delay,
        };
        let back = self.direction.opposite();
        wait_for(&mut self.state, |state| state.arrival(back, stamp)).await
    }
}
