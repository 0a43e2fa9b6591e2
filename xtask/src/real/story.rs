//! Steps that hold or do not, told one by one and counted.

use std::fmt;
use std::time::{Duration, Instant};

use crate::bench::say;

/// How many steps held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Tells a step; `seen` is what to show if it does not hold.
    pub(super) fn check(&mut self, what: &str, holds: bool, seen: impl FnOnce() -> String) {
        match holds {
            true => {
                self.passed += 1;
                say(&format!("  ok    {what}"));
            }
            false => {
                self.failed += 1;
                say(&format!("  FAIL  {what}: {}", seen()));
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Asks again until it holds; false if it never does.
pub(super) fn eventually(mut holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<bool> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let until = Instant::now() + PATIENCE;
    loop {
        if holds()? {
            return Ok(true);
        }
        if Instant::now() > until {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
