//! Moments in which the machine stood still: a beat between agents that is late for want of CPU looks
//! like a cut, and no fault of ours explains it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long it sleeps each time.
const NAP: Duration = Duration::from_millis(50);

/// What counts: half of what a beat may be late.
const NOTABLE: Duration = Duration::from_millis(375);

/// A stall matters to what fails this long after it.
const SOON: Duration = Duration::from_secs(5);

/// When a sleep took too long, and by how much.
#[derive(Default)]
pub(super) struct Stalls(Mutex<Vec<(Instant, Duration)>>);

impl Stalls {
    /// Sleeps and wakes until told to stop.
    pub(super) fn watch(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            let before = Instant::now();
            std::thread::sleep(NAP);
            let late = before.elapsed().saturating_sub(NAP);
            if late > NOTABLE {
                super::lock(&self.0).push((Instant::now(), late));
            }
        }
    }

    /// What to say of a failure now.
    pub(super) fn lately(&self) -> String {
        let stalls = super::lock(&self.0);
        let lately = stalls.iter().filter(|(at, _)| at.elapsed() < SOON);
        match lately.map(|(_, late)| *late).max() {
            Some(late) => format!(
                "the machine stood still for {} ms just before",
                late.as_millis()
            ),
            None => "the machine did not stand still".to_owned(),
        }
    }

    pub(super) fn summary(&self) -> String {
        let stalls = super::lock(&self.0);
        let longest = stalls.iter().map(|(_, late)| late.as_millis()).max();
        format!(
            "the machine stood still for more than {} ms {} times, {} ms at most",
            NOTABLE.as_millis(),
            stalls.len(),
            longest.unwrap_or_default()
        )
    }
}
