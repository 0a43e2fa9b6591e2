//! How long a service may take: its time runs while it is the service that is waited for.
//!
//! A long upload over a thin line is no sign of a slow service, so every piece of the request's
//! body that goes by starts the time anew.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

/// When the body of a request last moved; at first, when the request began.
#[derive(Clone)]
pub(crate) struct Pulse(Rc<Cell<Instant>>);

impl Pulse {
    pub(crate) fn new(started: Instant) -> Pulse {
        Pulse(Rc::new(Cell::new(started)))
    }

    /// The body moved.
    pub(crate) fn beat(&self) {
        self.0.set(Instant::now());
    }

    /// What is left of `deadline` since the body last moved.
    pub(crate) fn time_left(&self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.0.get().elapsed())
    }

    /// What `work` comes to, unless `deadline` passes with nothing moving.
    pub(crate) async fn within<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            let left = self.time_left(deadline);
            match timeout(left, work.as_mut()).await {
                Ok(done) => return Some(done),
                Err(_) if self.time_left(deadline).is_zero() => return None,
                // The body moved meanwhile.
                Err(_) => (),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_time_begins_anew_whenever_the_body_moves() {
        let second = Duration::from_secs(1);
        let long_ago = Instant::now().checked_sub(3 * second).unwrap();
        let pulse = Pulse::new(long_ago);
        assert_eq!(pulse.time_left(second), Duration::ZERO);
        assert_eq!(
            pulse.within(second, std::future::pending::<()>()).await,
            None
        );
        pulse.beat();
        assert!(pulse.time_left(second) > Duration::ZERO);
        assert_eq!(pulse.within(second, async { 7 }).await, Some(7));
    }
}
