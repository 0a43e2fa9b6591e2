//! How long a suspicion lasts: shorter, the more others share it.

use super::limits::{SUSPICION_MS, SUSPICION_SHARED, SUSPICION_STRETCH, digits};

/// A site that did not answer somebody.
#[derive(Clone, Debug)]
pub(super) struct Suspicion<K> {
    since_ms: u64,
    by: Vec<K>,
}

impl<K: PartialEq> Suspicion<K> {
    pub(super) fn new(now_ms: u64, by: K) -> Suspicion<K> {
        Suspicion {
            since_ms: now_ms,
            by: vec![by],
        }
    }

    /// Somebody else had no answer either. True if that is new and makes it shorter.
    pub(super) fn share(&mut self, by: K) -> bool {
        let new = self.by.len() <= SUSPICION_SHARED && !self.by.contains(&by);
        if new {
            self.by.push(by);
        }
        new
    }

    /// When it becomes belief, in a mesh of that many sites.
    pub(super) fn ends_ms(&self, sites: usize) -> u64 {
        let shortest = (SUSPICION_MS * digits(sites)) as f64;
        let longest = shortest * SUSPICION_STRETCH as f64;
        // Few sites cannot share more than they are: this one and the suspected one do not count.
        let needed = SUSPICION_SHARED.min(sites.saturating_sub(2));
        let shared = (self.by.len() - 1).min(needed);
        let share = if needed == 0 {
            1.0
        } else {
            ((shared + 1) as f64).ln() / ((needed + 1) as f64).ln()
        };
        self.since_ms + (longest - (longest - shortest) * share) as u64
    }

    /// This agent stood still: the time does not count.
    pub(super) fn put_off(&mut self, by_ms: u64) {
        self.since_ms += by_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_suspicion_is_shorter() {
        let mut suspicion = Suspicion::new(0, 1);
        assert_eq!(suspicion.ends_ms(1000), 6 * 4 * SUSPICION_MS);
        assert!(!suspicion.share(1), "the same one again");
        for by in 2..=4 {
            let before = suspicion.ends_ms(1000);
            assert!(suspicion.share(by));
            assert!(suspicion.ends_ms(1000) < before);
        }
        assert_eq!(suspicion.ends_ms(1000), 4 * SUSPICION_MS);
        assert!(!suspicion.share(5), "enough is enough");
        assert_eq!(
            Suspicion::new(0, 1).ends_ms(2),
            SUSPICION_MS,
            "nobody else is there"
        );
    }
}
