//! How well coordinates tell round trips that were measured.

use cheops_core::membership::{Chance, Coordinate};

use crate::matrix::Matrix;

/// Coordinates of every site of a matrix.
#[derive(Clone, Debug)]
pub struct Places {
    places: Vec<Coordinate>,
    chance: Chance,
}

/// How a question of distance is answered.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Of the sites told, the share that is really so near.
    pub precision: f64,
    /// Of the sites really so near, the share that is told.
    pub recall: f64,
}

impl Places {
    /// Nobody knows anything.
    pub fn new(matrix: &Matrix, seed: u64) -> Places {
        Places {
            places: vec![Coordinate::default(); matrix.sites()],
            chance: Chance::new(seed),
        }
    }

    /// Each site measures that many others, one by one, chosen by chance as probes are.
    pub fn sample(&mut self, matrix: &Matrix, samples: usize) {
        let sites = matrix.sites();
        for _ in 0..samples {
            for site in 0..sites {
                let other = (site + 1 + self.chance.below(sites - 1)) % sites;
                let Some(trip_ms) = matrix.trip_ms(site, other) else {
                    continue;
                };
                // Queues on the way: up to a twentieth more.
                let trip_ms = trip_ms * (1.0 + self.chance.unit() * 0.05);
                let place = self.places[other];
                self.places[site].learn(&place, trip_ms, &mut self.chance);
            }
        }
    }

    /// The median of how far estimates are off, relative to the truth; of all pairs, or of one site.
    pub fn median_error(&self, matrix: &Matrix, of: Option<usize>) -> f64 {
        let mut errors = Vec::new();
        for a in 0..matrix.sites() {
            for b in 0..a {
                let wanted = of.is_none_or(|site| site == a || site == b);
                if let Some(trip_ms) = matrix.trip_ms(a, b).filter(|_| wanted) {
                    let estimate = self.places[a].estimate(&self.places[b]);
                    errors.push((estimate.ms - trip_ms).abs() / trip_ms);
                }
            }
        }
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// `around(x, radius)` for every x, against the truth.
    pub fn around(&self, matrix: &Matrix, radius_ms: f64) -> Found {
        let (mut told, mut near, mut right) = (0usize, 0usize, 0usize);
        for a in 0..matrix.sites() {
            for b in (0..matrix.sites()).filter(|b| *b != a) {
                let Some(trip_ms) = matrix.trip_ms(a, b) else {
                    continue;
                };
                let said = self.places[a].estimate(&self.places[b]).ms <= radius_ms;
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
