//! How long a service may take: its time runs while it is the service that is waited for.
//!
//! A long upload over a thin line is no sign of a slow service, so every piece of the request's
//! body that goes by starts the time anew.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// When the body of a request last moved (at first, when the request began), and whether all of it
/// has come.
#[derive(Clone)]
pub(crate) struct Pulse(Rc<(Cell<Instant>, Cell<bool>)>);

impl Pulse {
    pub(crate) fn new(started: Instant) -> Pulse {
        Pulse(Rc::new((Cell::new(started), Cell::new(false))))
    }

    /// The body moved.
    pub(crate) fn beat(&self) {
        self.0.0.set(Instant::now());
    }

    /// All of the body has come.
    pub(crate) fn end(&self) {
        self.0.1.set(true);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.1.get()
    }

    /// What is left of `limit` since the body last moved.
    pub(crate) fn time_left(&self, limit: Duration, now: Instant) -> Duration {
        limit.saturating_sub(now.saturating_duration_since(self.0.0.get()))
    }
}

/// How long a service may take, and since when.
#[derive(Clone)]
pub(crate) struct Patience {
    pub(crate) pulse: Pulse,
    pub(crate) limit: Duration,
}

impl Patience {
    /// Whether nothing has moved for too long.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.time_left(now).is_zero()
    }

    pub(crate) fn time_left(&self, now: Instant) -> Duration {
        self.pulse.time_left(self.limit, now)
    }
}
