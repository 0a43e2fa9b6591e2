//! What a seed decides about its world: how many sites, how rough, how long.

use crate::rng::Rng;

/// Drawn once per world. Chances are in millionths.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many sites.
    pub sites: usize,
    /// Chance that an agent stops at a write.
    pub crash: u64,
    /// Chance that a message is lost.
    pub loss: u64,
    /// Chance that it arrives twice.
    pub repeat: u64,
    /// Chance that it is late.
    pub late: u64,
    /// Chance that a call goes wrong after it was sent.
    pub flaky: u64,
    /// How many requests there will be.
    pub requests: u64,
    /// Between faults, on average.
    pub fault_every_ms: u64,
    /// How long the rough part lasts.
    pub rough_ms: u64,
    /// Chance per fault that a disk is put back.
    pub restore: u64,
    /// One site refuses what others accept.
    pub picky: bool,
    /// Chance that a replicant has failover=auto.
    pub auto: u64,
    /// Chance per fault that somebody is told to lead.
    pub promote: u64,
    /// Chance that a change is one of where the resource lives.
    pub rescope: u64,
    /// How long a call may take, each way.
    pub slow_ms: u64,
    /// How long a client may wait at least.
    pub hasty_ms: u64,
    /// Chance that a request is about the first resource.
    pub hot: u64,
    /// Entries kept for a site that is away, how much, and for how long.
    pub retain: (usize, usize, u64),
    /// Replicants kept in memory though nothing is under way with them. Not drawn: from the number of the seed.
    pub idle_max: usize,
    /// Replicants told at once to a disk that was put back. Not drawn either.
    pub shared_max: usize,
    /// The world is in two halves for nearly as long as it is rough, and each goes on by itself. Not drawn either.
    pub apart: bool,
}

impl Settings {
    /// From chance.
    pub fn draw(rng: &mut Rng) -> Settings {
        let calm = rng.chance(150_000);
        let rough = |value: u64| if calm { 0 } else { value };
        Settings {
            sites: rng.between(2, 5) as usize + if rng.chance(150_000) { 2 } else { 0 },
            crash: rough([0, 2_000, 8_000, 20_000][rng.below(4)]),
            loss: rough([0, 10_000, 50_000, 200_000][rng.below(4)]),
            repeat: rough([0, 20_000, 100_000][rng.below(3)]),
            late: rough([0, 20_000, 100_000][rng.below(3)]),
            flaky: rough([0, 20_000, 80_000, 200_000][rng.below(4)]),
            requests: rng.between(15, 50),
            fault_every_ms: [500, 1_500, 4_000][rng.below(3)],
            rough_ms: rng.between(10_000, 30_000),
            restore: if rng.chance(250_000) { 60_000 } else { 0 },
            picky: rng.chance(150_000),
            auto: [0, 0, 300_000][rng.below(3)],
            promote: [0, 50_000, 200_000][rng.below(3)],
            rescope: [0, 0, 100_000][rng.below(3)],
            slow_ms: [60, 450, 1_000][rng.below(3)],
            hasty_ms: [500, 500, 80][rng.below(3)],
            hot: [0, 300_000, 800_000][rng.below(3)],
            retain: [
                (256, 1 << 20, 1 << 40),
                (6, 1 << 20, 1 << 40),
                (3, 1 << 20, 1 << 40),
                (256, 60, 1 << 40),
                (256, 1 << 20, 4_000),
            ][rng.below(5)],
            idle_max: 0,
            shared_max: 1,
            apart: false,
        }
    }

    /// A world of two halves: both have somebody who leads, and so much to do that both fold their logs beyond the
    /// fork. Chance alone nearly never leads there.
    pub fn in_two_halves(self) -> Settings {
        Settings {
            sites: self.sites.max(3),
            crash: self.crash.min(2_000),
            requests: self.requests + 40,
            fault_every_ms: 500,
            promote: 200_000,
            hot: 800_000,
            retain: (3, 1 << 20, 1 << 40),
            apart: true,
            ..self
        }
    }
}
