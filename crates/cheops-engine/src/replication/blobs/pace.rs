//! How fast contents may go to one site.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::limits::BURST_BYTES;

/// A bucket that fills at a rate. Without one, it is never empty.
pub(super) struct Pace {
    /// Bytes per second; 0 without a bound.
    rate: AtomicU64,
    /// When what was taken so far is paid for.
    paid: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(rate: Option<u64>) -> Pace {
        Pace {
            rate: AtomicU64::new(rate.unwrap_or(0)),
            paid: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn set(&self, rate: Option<u64>) {
        self.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
    }

    /// Waits until that many bytes may go.
    pub(super) async fn take(&self, bytes: u64) {
        let wait = self.wait_for(bytes, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn wait_for(&self, bytes: u64, now: Instant) -> Duration {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return Duration::ZERO;
        }
        let time = |bytes: u64| Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut paid = self.paid.lock().unwrap_or_else(|e| e.into_inner());
        let earliest = now.checked_sub(time(BURST_BYTES)).unwrap_or(now);
        *paid = (*paid).max(earliest) + time(bytes);
        paid.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_taken_is_paid_for_with_time() {
        let pace = Pace::new(Some(10 << 20));
        tokio::time::sleep(Duration::from_secs(9)).await;
        let start = Instant::now();
        for _ in 0..21 {
            pace.take(1 << 20).await;
        }
        // The first came out of what had gathered.
        let took = start.elapsed().as_secs_f64();
        assert!((1.9..2.1).contains(&took), "{took}");
        pace.set(None);
        let start = Instant::now();
        pace.take(1 << 40).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
