//! Links between sites: cut whole, in part or one way; messages lost, repeated, late.

use crate::rng::Rng;
use crate::settings::Settings;

/// Which directions are cut.
#[derive(Debug)]
pub struct Network {
    cut: Vec<Vec<bool>>,
    /// When the last message arrives, by direction: a connection keeps the order while nothing breaks it.
    last_ms: Vec<Vec<u64>>,
}

impl Network {
    /// Everything connected.
    pub fn new(sites: usize) -> Network {
        Network {
            cut: vec![vec![false; sites]; sites],
            last_ms: vec![vec![0; sites]; sites],
        }
    }

    /// How many copies arrive, and whether that is a mishap.
    pub fn copies(
        &self,
        from: usize,
        to: usize,
        hostile: bool,
        settings: &Settings,
        rng: &mut Rng,
    ) -> (u64, bool) {
        if self.cut[from][to] {
            return (0, true);
        }
        if !hostile {
            return (1, false);
        }
        if rng.chance(settings.loss) {
            return (0, true);
        }
        if rng.chance(settings.repeat) {
            (2, true)
        } else {
            (1, false)
        }
    }

    /// When a copy arrives.
    pub fn arrival_ms(
        &mut self,
        now_ms: u64,
        link: (usize, usize),
        hostile: bool,
        settings: &Settings,
        rng: &mut Rng,
    ) -> u64 {
        if hostile && rng.chance(settings.late) {
            return now_ms + rng.between(20, 6_000);
        }
        let last_ms = &mut self.last_ms[link.0][link.1];
        *last_ms = (now_ms + rng.between(1, 40)).max(*last_ms);
        *last_ms
    }

    /// Cuts something: one direction, a pair, a site, or the world in two.
    pub fn tear(&mut self, rng: &mut Rng) {
        let sites = self.cut.len();
        let (a, b) = (rng.below(sites), rng.below(sites));
        match rng.below(4) {
            0 => self.set(a, b, true),
            1 => {
                self.set(a, b, true);
                self.set(b, a, true);
            }
            2 => (0..sites).for_each(|other| {
                self.set(a, other, true);
                self.set(other, a, true);
            }),
            _ => self.split(rng.draw()),
        }
    }

    /// Cuts the world in two halves.
    pub fn halve(&mut self) {
        self.split((1 << (self.cut.len() / 2)) - 1);
    }

    /// Cuts the sites whose bit is set from those whose is not.
    fn split(&mut self, side: u64) {
        let sites = self.cut.len();
        for one in 0..sites {
            for other in 0..sites {
                if (side >> one) & 1 != (side >> other) & 1 {
                    self.set(one, other, true);
                }
            }
        }
    }

    fn set(&mut self, from: usize, to: usize, cut: bool) {
        if from != to {
            self.cut[from][to] = cut;
        }
    }

    /// True if nothing gets from one to the other.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut[from][to]
    }

    /// Connects everything.
    pub fn heal(&mut self) {
        self.cut.iter_mut().flatten().for_each(|cut| *cut = false);
    }
}
