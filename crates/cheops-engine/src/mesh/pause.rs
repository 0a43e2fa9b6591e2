//! Pauses between tries to reach a peer: longer each time, never the same for two agents.

use std::time::Duration;

use crate::limits::{PAUSE_FIRST, PAUSE_MAX, PAUSE_MIN, PAUSE_REFUSED};

/// What a try came to, if not a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Not in reach; may be at any moment.
    Unreachable,
    /// Somebody has to act first.
    Refused,
}

/// The next pause.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(super) fn new() -> Pauses {
        Pauses { next: PAUSE_FIRST }
    }

    pub(super) fn reset(&mut self) {
        *self = Pauses::new();
    }

    /// How long to wait after a try that took `took`. The pause runs from the start of the try:
    /// one that waited for its deadline is not waited for again. `jitter` is from 0 to 1.
    pub(super) fn after(&mut self, failure: Failure, took: Duration, jitter: f64) -> Duration {
        let whole = match failure {
            Failure::Unreachable => self.next,
            Failure::Refused => PAUSE_REFUSED,
        };
        self.next = (self.next * 2).min(PAUSE_MAX);
        whole
            .mul_f64(1.0 - jitter / 2.0)
            .saturating_sub(took)
            .max(PAUSE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second_and_count_from_the_start_of_the_try() {
        let ms = Duration::from_millis;
        let mut pauses = Pauses::new();
        let mut pause = |took, jitter| pauses.after(Failure::Unreachable, took, jitter);
        assert_eq!(pause(ms(0), 0.0), ms(200));
        assert_eq!(pause(ms(0), 1.0), ms(200));
        assert_eq!(pause(ms(100), 0.0), ms(700));
        assert_eq!(pause(ms(0), 0.0), ms(1000));
        assert_eq!(pause(ms(2000), 0.0), PAUSE_MIN);
        assert_eq!(pauses.after(Failure::Refused, ms(0), 0.0), PAUSE_REFUSED);
        pauses.reset();
        assert_eq!(pauses.after(Failure::Unreachable, ms(0), 0.0), ms(200));
    }
}
