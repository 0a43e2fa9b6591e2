//! Measured round trips, from `data/`.

/// A symmetric matrix; some pairs may be missing.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// What it is called.
    pub name: &'static str,
    sites: usize,
    /// The lower triangle, in milliseconds.
    trips: Vec<Option<f64>>,
}

const MISSING: u16 = u16::MAX;

impl Matrix {
    /// 51 regions of one cloud.
    pub fn azure() -> Matrix {
        Matrix::read("azure51", include_bytes!("../data/azure51.rtt"))
    }

    /// 69 regions of three clouds.
    pub fn multicloud() -> Matrix {
        Matrix::read("multicloud69", include_bytes!("../data/multicloud69.rtt"))
    }

    /// 490 hosts of universities.
    pub fn planetlab() -> Matrix {
        Matrix::read("planetlab490", include_bytes!("../data/planetlab490.rtt"))
    }

    fn read(name: &'static str, bytes: &[u8]) -> Matrix {
        let value = |pair: &[u8]| {
            let tenths = u16::from_le_bytes([pair[0], pair[1]]);
            (tenths != MISSING).then(|| f64::from(tenths) / 10.0)
        };
        let trips: Vec<_> = bytes.chunks_exact(2).map(value).collect();
        let sites = (0..).find(|sites| sites * (sites + 1) / 2 >= trips.len());
        let sites = sites.unwrap_or_default() + 1;
        assert_eq!(sites * (sites - 1) / 2, trips.len(), "a whole triangle");
        Matrix { name, sites, trips }
    }

    /// How many sites it has.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// The round trip of a pair of different sites.
    pub fn trip_ms(&self, a: usize, b: usize) -> Option<f64> {
        let (low, high) = (a.min(b), a.max(b));
        self.trips[high * (high - 1) / 2 + low]
    }

    /// The same, with every way of one site longer.
    pub fn with_step(mut self, site: usize, more_ms: f64) -> Matrix {
        for other in (0..self.sites).filter(|other| *other != site) {
            let (low, high) = (site.min(other), site.max(other));
            if let Some(trip) = self.trips[high * (high - 1) / 2 + low].as_mut() {
                *trip += more_ms;
            }
        }
        self
    }
}
