//! How far sites are apart.

use cheops_core::membership::Chance;

use crate::matrix::Matrix;

/// What stands for a pair that a matrix does not have: too far to be near anybody.
pub const NEVER_MEASURED_MS: f64 = 400.0;

/// Where sites are.
#[derive(Clone, Debug)]
pub enum Ground {
    /// On a plane, each with a way to the backbone: x, y, height, in milliseconds.
    Plane(Vec<(f64, f64, f64)>),
    /// As was measured.
    Measured(Matrix),
}

impl Ground {
    /// Within a plane of 200 ms, each with up to 15 ms to the backbone: 10 to 300 ms apart.
    pub fn plane(sites: usize, chance: &mut Chance) -> Ground {
        let mut place = |_| {
            (
                chance.unit() * 140.0,
                chance.unit() * 140.0,
                2.5 + chance.unit() * 12.5,
            )
        };
        Ground::Plane((0..sites).map(&mut place).collect())
    }

    /// The true round trip between two sites, without jitter; none if nobody knows.
    pub fn trip_ms(&self, a: usize, b: usize) -> Option<f64> {
        match self {
            Ground::Plane(places) => {
                let ((xa, ya, ha), (xb, yb, hb)) = (places[a], places[b]);
                Some((xa - xb).hypot(ya - yb) + ha + hb)
            }
            Ground::Measured(matrix) => matrix.trip_ms(a, b),
        }
    }
}
