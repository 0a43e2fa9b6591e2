//! The state of a link: what was set at run time, and since when.
//!
//! Controls write it, lines follow it. Nothing is carried here.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::shape::{Direction, Shape};

/// When bytes left, and how long they take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) sent_at: Instant,
    pub(crate) latency: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    open: bool,
    open_since: Instant,
}

/// What holds on the link at present.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) delay: Duration,
    /// How often streams were refused: who began before the last time is to be reset.
    pub(crate) refusals: u64,
    to_target: Way,
    from_target: Way,
}

impl State {
    fn way(&self, direction: Direction) -> Way {
        match direction {
            Direction::ToTarget => self.to_target,
            Direction::FromTarget => self.from_target,
        }
    }

    fn way_mut(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::ToTarget => &mut self.to_target,
            Direction::FromTarget => &mut self.from_target,
        }
    }

    pub(crate) fn is_open(&self, direction: Direction) -> bool {
        self.way(direction).open
    }

    /// When bytes of a stream arrive; `None` while the way is cut. What met a cut is sent again
    /// when it heals.
    pub(crate) fn arrival(&self, direction: Direction, stamp: Stamp) -> Option<Instant> {
        let way = self.way(direction);
        way.open
            .then(|| stamp.sent_at.max(way.open_since) + stamp.latency)
    }

    /// Whether a datagram met no cut since it left.
    pub(crate) fn survives(&self, direction: Direction, stamp: Stamp) -> bool {
        let way = self.way(direction);
        way.open && way.open_since <= stamp.sent_at
    }

    /// Whether either way was opened anew after `instant`.
    pub(crate) fn was_cut_since(&self, instant: Instant) -> bool {
        self.to_target.open_since.max(self.from_target.open_since) > instant
    }

    /// When a handshake that began at `begun_at` is through; `None` while either way is cut.
    pub(crate) fn established(&self, begun_at: Instant) -> Option<Instant> {
        let there = Stamp {
            sent_at: begun_at,
            latency: self.delay,
        };
        let arrived = self.arrival(Direction::ToTarget, there)?;
        let back = Stamp {
            sent_at: arrived,
            latency: self.delay,
        };
        self.arrival(Direction::FromTarget, back)
    }
}

/// The controls of a link.
#[derive(Debug)]
pub(crate) struct Controls(watch::Sender<State>);

impl Controls {
    pub(crate) fn new(shape: &Shape) -> Controls {
        let way = Way {
            open: true,
            open_since: Instant::now(),
        };
        let state = State {
            delay: shape.delay,
            refusals: 0,
            to_target: way,
            from_target: way,
        };
        Controls(watch::Sender::new(state))
    }

    pub(crate) fn follow(&self) -> watch::Receiver<State> {
        self.0.subscribe()
    }

    pub(crate) fn set_delay(&self, delay: Duration) {
        self.0.send_modify(|state| state.delay = delay);
    }

    pub(crate) fn cut(&self, direction: Direction) {
        self.0
            .send_modify(|state| state.way_mut(direction).open = false);
    }

    pub(crate) fn refuse(&self) {
        self.0.send_modify(|state| {
            state.refusals += 1;
            state.to_target.open = false;
            state.from_target.open = false;
        });
    }

    pub(crate) fn heal(&self) {
        let now = Instant::now();
        self.0.send_modify(|state| {
            for way in [&mut state.to_target, &mut state.from_target] {
                if !way.open {
                    *way = Way {
                        open: true,
                        open_since: now,
                    };
                }
            }
        });
    }
}

/// The relay is gone, and with it all that it carried.
#[derive(Debug)]
pub(crate) struct Gone;

/// Waits for an instant that moves with the state; `None` is never.
pub(crate) async fn wait_for(
    state: &mut watch::Receiver<State>,
    instant: impl Fn(&State) -> Option<Instant>,
) -> Result<(), Gone> {
    loop {
        let due = instant(&state.borrow_and_update());
        tokio::select! {
            () = sleep_until(due) => return Ok(()),
            changed = state.changed() => changed.map_err(|_| Gone)?,
        }
    }
}

/// Sleeps until `due`, or for ever. A timer has a grain of a millisecond: what is due is not given
/// to it, or every chunk would cost one.
pub(crate) async fn sleep_until(due: Option<Instant>) {
    match due {
        None => std::future::pending().await,
        Some(due) if due <= Instant::now() => (),
        Some(due) => tokio::time::sleep_until(due).await,
    }
}
