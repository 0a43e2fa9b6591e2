//! Round trips that a site measured to those nearest to it, told to everybody: coordinates tell far
//! from near, but not 5 ms from 20.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::key::Key;
use super::limits::NEAR_MAX;

/// A site and the round trip to it, as it travels: 28 bits that stand for the name, and units of
/// 0.05 ms. Six bytes where names would be many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Near {
    tag: u32,
    trip: u16,
}

const UNITS_PER_MS: f64 = 20.0;

impl Near {
    pub(super) fn new<K: Key>(site: &K, trip_ms: f64) -> Near {
        Near {
            tag: tag_of(site),
            // `as` saturates: what is so far away is near to nobody.
            trip: (trip_ms * UNITS_PER_MS).round() as u16,
        }
    }

    pub(super) fn tag(self) -> u32 {
        self.tag
    }

    pub(super) fn trip_ms(self) -> f64 {
        f64::from(self.trip) / UNITS_PER_MS
    }
}

/// Stands for a site's name. Two sites that share one are told apart by nobody, and not believed.
pub(super) fn tag_of<K: Key>(site: &K) -> u32 {
    (site.hash().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36) as u32
}

/// The nearest sites that were measured, the nearest first.
pub type Nearest<K> = Arc<[(K, f64)]>;

/// The nearest sites that this one has measured.
#[derive(Clone, Debug)]
pub(super) struct Neighbours<K> {
    nearest: Vec<(K, f64)>,
    /// Raised when the others should know.
    pub(super) version: u16,
    next: usize,
}

impl<K: Key> Neighbours<K> {
    pub(super) fn new() -> Neighbours<K> {
        Neighbours {
            nearest: Vec::new(),
            version: 0,
            next: 0,
        }
    }

    pub(super) fn put(&mut self, site: &K, trip_ms: f64) {
        let before = self.remove(site);
        let at = self.nearest.partition_point(|(_, trip)| *trip <= trip_ms);
        if at >= NEAR_MAX {
            self.version = self.version.wrapping_add(u16::from(before.is_some()));
            return;
        }
        self.nearest.insert(at, (site.clone(), trip_ms));
        self.nearest.truncate(NEAR_MAX);
        let same = before.is_some_and(|before| (before - trip_ms).abs() <= before * 0.05);
        self.version = self.version.wrapping_add(u16::from(!same));
    }

    /// Takes a site out; tells how far it was.
    pub(super) fn remove(&mut self, site: &K) -> Option<f64> {
        let at = self.nearest.iter().position(|(known, _)| known == site)?;
        Some(self.nearest.remove(at).1)
    }

    /// Whether a site so far away, as estimated, is worth a measurement.
    pub(super) fn may_gain(&self, estimate_ms: f64) -> bool {
        let farthest = self.nearest.get(NEAR_MAX - 1);
        farthest.is_none_or(|(_, trip_ms)| estimate_ms < trip_ms * 1.5 + 5.0)
    }

    /// Whose measurement is to be renewed.
    pub(super) fn next_to_renew(&mut self) -> Option<K> {
        self.next = (self.next + 1) % self.nearest.len().max(1);
        self.nearest.get(self.next).map(|(site, _)| site.clone())
    }

    pub(super) fn told(&self) -> Vec<Near> {
        let near = |(site, trip_ms): &(K, f64)| Near::new(site, *trip_ms);
        self.nearest.iter().map(near).collect()
    }

    pub(super) fn trip_ms(&self, site: &K) -> Option<f64> {
        trip_in(&self.nearest, site)
    }
}

/// How far a site is, if it is among these.
pub fn trip_in<K: PartialEq>(nearest: &[(K, f64)], site: &K) -> Option<f64> {
    let found = nearest.iter().find(|(near, _)| near == site);
    found.map(|(_, trip_ms)| *trip_ms)
}

#[cfg(test)]
mod tests {
    use cheops_model::SiteName;

    use super::*;

    fn site(number: usize) -> SiteName {
        SiteName::new(&format!("site{number}")).unwrap()
    }

    #[test]
    fn the_nearest_are_kept_and_one_that_moved_away_goes() {
        let mut near = Neighbours::new();
        for number in 0..2 * NEAR_MAX {
            near.put(&site(number), 40.0 - number as f64);
        }
        assert_eq!(near.told().len(), NEAR_MAX);
        assert_eq!(near.trip_ms(&site(0)), None, "40 ms is not near any more");
        assert_eq!(near.trip_ms(&site(2 * NEAR_MAX - 1)), Some(40.0 - 31.0));
        let version = near.version;
        near.put(&site(20), 20.1);
        assert_eq!(near.version, version, "a little is no news");
        near.put(&site(20), 90.0);
        assert_ne!(near.version, version);
        assert_eq!(near.trip_ms(&site(20)), Some(90.0), "there is room for it");
        near.put(&site(0), 40.0);
        assert_eq!(near.trip_ms(&site(20)), None, "another is nearer");
    }

    #[test]
    fn six_bytes_tell_a_neighbour() {
        let near = Near::new(&site(7), 12.34);
        assert!((near.trip_ms() - 12.34).abs() < 0.05);
        assert!(near.tag() < 1 << 28);
    }
}
