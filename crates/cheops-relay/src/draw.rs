//! Numbers that look random and are the same for the same seed (SplitMix64).

/// A stream of draws.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// Every `stream` of a seed draws numbers of its own.
    pub(crate) fn new(seed: u64, stream: u64) -> Draw {
        let mut streams = Draw(stream);
        Draw(seed ^ streams.next())
    }

    /// Evenly from `0..bound`; 0 if the bound is.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_another_stream_does_not() {
        let draws = |seed, stream| {
            let mut draw = Draw::new(seed, stream);
            (0..8).map(|_| draw.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(1, 2), draws(1, 2));
        assert_ne!(draws(1, 2), draws(1, 3));
        assert_ne!(draws(1, 2), draws(2, 2));
        assert!(draws(1, 2).iter().all(|n| *n < 1000));
    }
}
