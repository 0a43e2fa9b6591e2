//! Network coordinates (Vivaldi): where a site lies, so that the round trip between any two can be
//! told without asking either.
//!
//! A site is a point in a small space and a height above it: the space is the backbone, the height
//! is the way to it, which every path pays. Each measured round trip pulls or pushes a site a
//! little, more if the other is sure of its place and less if it is itself.

use serde::{Deserialize, Serialize};

use super::chance::Chance;

/// Dimensions of the space. More fit no real matrix better; fewer fit worse.
const DIMENSIONS: usize = 5;

/// How far one sample moves a site, and how fast its error follows.
const PULL: f64 = 0.25;
const ERROR_PACE: f64 = 0.2;

/// The relative error of a site that knows nothing, and the worst there is.
const ERROR_FIRST: f64 = 1.0;
const ERROR_MAX: f64 = 1.5;
const ERROR_MIN: f64 = 0.01;

/// Below this two sites are in one place, in milliseconds.
const GRAIN_MS: f64 = 0.01;

/// A round trip longer than this is not one.
pub const TRIP_MS_MAX: f64 = 10_000.0;

/// Where a site lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coordinate {
    position: [f64; DIMENSIONS],
    height: f64,
    error: f64,
}

/// A round trip that was not measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The round trip.
    pub ms: f64,
    /// How far off it may be.
    pub error_ms: f64,
}

impl Default for Coordinate {
    fn default() -> Coordinate {
        Coordinate {
            position: [0.0; DIMENSIONS],
            height: GRAIN_MS,
            error: ERROR_FIRST,
        }
    }
}

impl Coordinate {
    /// The estimated round trip to `other`.
    pub fn estimate(&self, other: &Coordinate) -> Estimate {
        let ms = self.flat_distance(other) + self.height + other.height;
        let error = self.error.max(other.error);
        Estimate {
            ms,
            error_ms: ms * error,
        }
    }

    /// Whether a site that moved from one of these places to the other is elsewhere for plans: by
    /// more than the 3 ms that places swing by themselves.
    pub fn is_apart(&self, other: &Coordinate) -> bool {
        let moved = self.flat_distance(other) + (self.height - other.height).abs();
        moved > 3.0
    }

    /// How sure this place is: the relative error of recent estimates, 0.01 to 1.5.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// Moves after a round trip to a site at `other` was measured. Samples that cannot be round
    /// trips change nothing.
    pub fn learn(&mut self, other: &Coordinate, trip_ms: f64, chance: &mut Chance) {
        if !(trip_ms > 0.0 && trip_ms <= TRIP_MS_MAX) {
            return;
        }
        let trip_ms = trip_ms.max(GRAIN_MS);
        let flat = self.flat_distance(other);
        let off = trip_ms - (flat + self.height + other.height);
        let weight = self.error / (self.error + other.error);
        let relative = off.abs() / trip_ms;
        let pace = ERROR_PACE * weight;
        self.error = (relative * pace + self.error * (1.0 - pace)).clamp(ERROR_MIN, ERROR_MAX);
        let force = PULL * weight * off;
        let (direction, share) = self.direction_from(other, flat, chance);
        for (place, unit) in self.position.iter_mut().zip(direction) {
            *place += unit * force * share;
        }
        let height_share = (self.height + other.height) / (flat + self.height + other.height);
        self.height = (self.height + force * height_share).max(GRAIN_MS);
    }

    /// The unit vector away from `other`, and how much of the whole distance lies in the space.
    fn direction_from(
        &self,
        other: &Coordinate,
        flat: f64,
        chance: &mut Chance,
    ) -> ([f64; DIMENSIONS], f64) {
        let mut away = [0.0; DIMENSIONS];
        if flat > GRAIN_MS {
            for (axis, away) in away.iter_mut().enumerate() {
                *away = (self.position[axis] - other.position[axis]) / flat;
            }
            return (away, flat / (flat + self.height + other.height));
        }
        // Two in one place have no direction: any will do, but not the same for all.
        let mut length = 0.0;
        for away in &mut away {
            *away = chance.unit() - 0.5;
            length += *away * *away;
        }
        let length = length.sqrt().max(f64::MIN_POSITIVE);
        (away.map(|part| part / length), 1.0)
    }

    fn flat_distance(&self, other: &Coordinate) -> f64 {
        let square = |axis| {
            let apart: f64 = self.position[axis] - other.position[axis];
            apart * apart
        };
        (0..DIMENSIONS).map(square).sum::<f64>().sqrt()
    }
}

/// A coordinate as it travels and is kept: 14 bytes, in units of 0.05 ms and of a ten-thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Packed {
    position: [i16; DIMENSIONS],
    height: u16,
    error: u16,
}

const UNITS_PER_MS: f64 = 20.0;
const UNITS_PER_ERROR: f64 = 10_000.0;

impl From<Coordinate> for Packed {
    fn from(from: Coordinate) -> Packed {
        // `as` saturates: a site far outside of the space stays at its edge.
        Packed {
            position: from.position.map(|at| (at * UNITS_PER_MS).round() as i16),
            height: (from.height * UNITS_PER_MS).round() as u16,
            error: (from.error * UNITS_PER_ERROR).round() as u16,
        }
    }
}

impl From<Packed> for Coordinate {
    fn from(from: Packed) -> Coordinate {
        Coordinate {
            position: from.position.map(|at| f64::from(at) / UNITS_PER_MS),
            height: (f64::from(from.height) / UNITS_PER_MS).max(GRAIN_MS),
            error: (f64::from(from.error) / UNITS_PER_ERROR).clamp(ERROR_MIN, ERROR_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three sites on a line, 30 and 60 ms apart, the outer two 90.
    fn settle(samples: usize, trips: [[f64; 3]; 3], places: &mut [Coordinate; 3]) {
        let mut chance = Chance::new(7);
        for _ in 0..samples {
            for a in 0..3 {
                let b = (a + 1 + chance.below(2)) % 3;
                let other = places[b];
                places[a].learn(&other, trips[a][b], &mut chance);
            }
        }
    }

    fn check(trips: [[f64; 3]; 3], places: &[Coordinate; 3]) {
        for (a, b) in [(0, 1), (1, 2), (0, 2)] {
            let estimate = places[a].estimate(&places[b]);
            let off = (estimate.ms - trips[a][b]).abs() / trips[a][b];
            assert!(off < 0.1, "{a} to {b}: {estimate:?}, is {}", trips[a][b]);
        }
    }

    #[test]
    fn places_settle_and_follow_a_step() {
        let trips = |ab: f64, bc: f64, ac: f64| [[0.0, ab, ac], [ab, 0.0, bc], [ac, bc, 0.0]];
        let mut places = [Coordinate::default(); 3];
        let first = trips(30.0, 60.0, 90.0);
        settle(100, first, &mut places);
        check(first, &places);
        let stepped = trips(30.0, 150.0, 180.0);
        settle(100, stepped, &mut places);
        check(stepped, &places);
    }

    #[test]
    fn what_is_no_round_trip_changes_nothing() {
        let mut place = Coordinate::default();
        let other = Coordinate::default();
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            place.learn(&other, bad, &mut Chance::new(1));
        }
        assert_eq!(place, Coordinate::default());
    }

    #[test]
    fn packing_loses_less_than_a_tenth_of_a_millisecond() {
        let mut chance = Chance::new(3);
        let (mut a, mut b) = (Coordinate::default(), Coordinate::default());
        for _ in 0..50 {
            a.learn(&b, 120.0, &mut chance);
            b.learn(&a, 120.0, &mut chance);
        }
        let packed = Coordinate::from(Packed::from(a));
        assert!((packed.estimate(&b).ms - a.estimate(&b).ms).abs() < 0.1);
    }
}
