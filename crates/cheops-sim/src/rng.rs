//! Chance from a seed: xoshiro256**, so that a number is a whole world.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// From a seed, by splitmix64.
    pub fn new(seed: u64) -> Rng {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Rng([next(), next(), next(), next()])
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Any wide number.
    pub fn wide(&mut self) -> u128 {
        (u128::from(self.draw()) << 64) | u128::from(self.draw())
    }

    /// From `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high - low + 1)
    }

    /// An index below `len`.
    pub fn below(&mut self, len: usize) -> usize {
        (self.draw() % len as u64) as usize
    }

    /// True that many times in a million.
    pub fn chance(&mut self, millionths: u64) -> bool {
        self.draw() % 1_000_000 < millionths
    }
}
