//! How well a mesh knows round trips that were measured: its coordinates, and what `around` finds.

use cheops_core::membership::Estimate;

use crate::matrix::Matrix;
use crate::site::Site;
use crate::world::World;

/// How a question of distance is answered.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Of the sites told, the share that is really so near.
    pub precision: f64,
    /// Of the sites really so near, the share that is told.
    pub recall: f64,
}

/// What the answer is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Coordinates alone, of which each site knows its own.
    Places,
    /// The site itself, from all it knows.
    Itself,
    /// A site somewhere else.
    Another,
}

/// A mesh with the round trips of a matrix.
pub struct Places {
    matrix: Matrix,
    /// It runs there.
    pub world: World,
}

impl Places {
    /// Nobody knows anything.
    pub fn new(matrix: &Matrix, seed: u64) -> Places {
        Places {
            world: World::on(matrix.clone(), 0, seed),
            matrix: matrix.clone(),
        }
    }

    /// Goes on until each site has measured that many round trips more, on average.
    pub fn sample(&mut self, samples: u64) {
        let enough = self.world.samples + samples * self.matrix.sites() as u64;
        while self.world.samples < enough {
            self.world.run_ms(100);
        }
    }

    /// Every way of one site is longer from now on.
    pub fn step(&mut self, site: usize, more_ms: f64) {
        self.matrix = self.matrix.clone().with_step(site, more_ms);
        self.world.move_to(self.matrix.clone());
    }

    /// The median of how far estimates from coordinates are off, relative to the truth; of all pairs,
    /// or of one site.
    pub fn median_error(&self, of: Option<usize>) -> f64 {
        let mut errors = Vec::new();
        for a in 0..self.matrix.sites() {
            for b in 0..a {
                let wanted = of.is_none_or(|site| site == a || site == b);
                if let Some(trip_ms) = self.matrix.trip_ms(a, b).filter(|_| wanted) {
                    let ms = self.estimate(a, b).ms;
                    errors.push((ms - trip_ms).abs() / trip_ms);
                }
            }
        }
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn estimate(&self, a: usize, b: usize) -> Estimate {
        let place = |site: usize| self.world.swims[site].coordinate();
        place(a).estimate(place(b))
    }

    /// How far `b` is from `a`, as told.
    fn told_ms(&self, a: usize, b: usize, by: By) -> Option<f64> {
        let asked = match by {
            By::Places => return Some(self.estimate(a, b).ms),
            By::Itself => a,
            // Neither of the two; the same for all questions about `a`.
            By::Another => (a + self.matrix.sites() / 2) % self.matrix.sites(),
        };
        let (a, b) = (Site(a as u16), Site(b as u16));
        let (found, _) = self.world.swims[asked].round_trip(&a, &b)?;
        Some(found.ms)
    }

    /// `around(x, radius)` for every x, against the truth.
    pub fn around(&self, radius_ms: f64, by: By) -> Found {
        let (mut told, mut near, mut right) = (0usize, 0usize, 0usize);
        for a in 0..self.matrix.sites() {
            for b in (0..self.matrix.sites()).filter(|b| *b != a) {
                let Some(trip_ms) = self.matrix.trip_ms(a, b) else {
                    continue;
                };
                let said = self.told_ms(a, b, by).is_some_and(|ms| ms <= radius_ms);
                let is = trip_ms <= radius_ms;
                told += usize::from(said);
                near += usize::from(is);
                right += usize::from(said && is);
            }
        }
        Found {
            precision: right as f64 / told.max(1) as f64,
            recall: right as f64 / near.max(1) as f64,
        }
    }
}
