//! The two clocks: one that only goes forward, by which everything goes, and one that people set.

use std::time::{Instant, SystemTime};

use crate::limits::CLOCK_JUMP;

/// Both clocks, read once per event.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) time: SystemTime,
}

impl Now {
    pub(super) fn read() -> Now {
        Now {
            instant: Instant::now(),
            time: SystemTime::now(),
        }
    }
}

/// Both clocks as they last stood.
pub(super) struct Clocks(Now);

impl Clocks {
    pub(super) fn new(now: Now) -> Clocks {
        Clocks(now)
    }

    /// By how many seconds the clock was set since the last time, if it was: negative is back.
    pub(super) fn jumped_s(&mut self, now: Now) -> Option<i64> {
        let before = std::mem::replace(&mut self.0, now);
        let expected = before.time + now.instant.saturating_duration_since(before.instant);
        let (by, sign) = match now.time.duration_since(expected) {
            Ok(ahead) => (ahead, 1),
            Err(fault) => (fault.duration(), -1),
        };
        (by > CLOCK_JUMP).then(|| by.as_secs_f64().round() as i64 * sign)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_was_set_is_noticed_once_and_time_that_passed_is_not() {
        let start = Now::read();
        let mut clocks = Clocks::new(start);
        let mut after = |passed_s: u64, set_s: i64| {
            let time = start.time + Duration::from_secs(passed_s);
            let set = Duration::from_secs(set_s.unsigned_abs());
            let time = if set_s < 0 { time - set } else { time + set };
            clocks.jumped_s(Now {
                instant: start.instant + Duration::from_secs(passed_s),
                time,
            })
        };
        assert_eq!(after(1, 0), None);
        assert_eq!(after(2, -3600), Some(-3600), "set back an hour");
        assert_eq!(after(3, -3600), None, "and left so");
        assert_eq!(after(7203, -3600), None, "a long time passed");
        assert_eq!(after(7204, 0), Some(3600), "and forward");
        assert_eq!(after(7205, 5), None, "adjusted a little");
    }
}
