//! Round trips of a link: the shortest of the last few is the path, the rest is noise.

use std::time::Duration;

/// How many samples count.
const SAMPLES: usize = 8;

/// The round trip to a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// The shortest of the last eight.
    pub value: Duration,
    /// How far the average of them is above it.
    pub error: Duration,
}

/// The last few samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Trips {
    samples: [Duration; SAMPLES],
    taken: usize,
}

impl Trips {
    pub(super) fn add(&mut self, sample: Duration) {
        self.samples[self.taken % SAMPLES] = sample;
        self.taken += 1;
    }

    pub(super) fn estimate(&self) -> Option<RoundTrip> {
        let samples = &self.samples[..self.taken.min(SAMPLES)];
        let value = *samples.iter().min()?;
        let average = samples.iter().sum::<Duration>() / samples.len() as u32;
        Some(RoundTrip {
            value,
            error: average - value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_the_last_eight_counts() {
        let ms = Duration::from_millis;
        let mut trips = Trips::default();
        assert_eq!(trips.estimate(), None);
        trips.add(ms(1));
        assert_eq!(
            trips.estimate(),
            Some(RoundTrip {
                value: ms(1),
                error: ms(0)
            })
        );
        (0..4).for_each(|_| trips.add(ms(10)));
        (0..4).for_each(|_| trips.add(ms(14)));
        assert_eq!(
            trips.estimate(),
            Some(RoundTrip {
                value: ms(10),
                error: ms(2)
            })
        );
    }
}
