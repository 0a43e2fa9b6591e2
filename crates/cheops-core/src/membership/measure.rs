//! Which sites are near: a few more measurements of those that may be, and what others measured.

use std::sync::Arc;

use super::Estimate;
use super::coordinate::Coordinate;
use super::key::Key;
use super::limits::{
    LEARN_AGAIN, LEARN_AGAIN_MS, LONGER_PACE, MEASURE_AGAIN_MS, NEAR_ERROR, NEAR_MAX, PROBE_MS,
};
use super::member::Member;
use super::message::{Body, Update};
use super::moment::Moment;
use super::near::{Near, trip_in};
use super::swim::{Effect, Swim};

/// A ping that says nothing of whether its target is there: it only measures.
#[derive(Clone, Debug)]
pub(super) struct Measurement<K> {
    pub(super) target: K,
    pub(super) nonce: u64,
    pub(super) sent: Moment,
}

impl<K: Key> Swim<K> {
    /// The round trip between any two sites: measured by either, else estimated from where they lie.
    pub fn round_trip(&self, a: &K, b: &K) -> Option<(Estimate, Source)> {
        let measured = self.measured_between(a, b);
        let told = |ms: f64| {
            let error_ms = ms * NEAR_ERROR;
            (Estimate { ms, error_ms }, Source::Measured)
        };
        measured.map(told).or_else(|| {
            let estimate = self.estimate(a, b)?;
            Some((estimate, Source::Estimated))
        })
    }

    fn measured_between(&self, a: &K, b: &K) -> Option<f64> {
        let by = |a: &K, b: &K| {
            if *a == self.here.site {
                let known = self.members.get(b)?.trip_ms;
                return known.or_else(|| self.neighbours.trip_ms(b));
            }
            trip_in(self.members.get(a)?.near.as_deref()?, b)
        };
        by(a, b).or_else(|| by(b, a))
    }

    /// A round trip of this site's own, to one that lies there.
    pub(super) fn measured(
        &mut self,
        now: Moment,
        site: &K,
        place: Option<&Coordinate>,
        trip_ms: f64,
    ) {
        let Some(member) = self.members.get_mut(site) else {
            return;
        };
        // The shortest is the path, a longer one a queue on it, unless it is another path.
        let trip_ms = match member.trip_ms {
            Some(before) if (before..before * 1.25 + 5.0).contains(&trip_ms) => {
                before + (trip_ms - before) * LONGER_PACE
            }
            Some(_) | None => trip_ms,
        };
        member.trip_ms = Some(trip_ms);
        member.measured_ms = now.ms().max(1);
        self.neighbours.put(site, trip_ms);
        if let Some(place) = place {
            self.learn(place, trip_ms);
            self.learn_again(now);
        }
    }

    /// Others have moved since they were measured: the same round trips tell more now.
    fn learn_again(&mut self, now: Moment) {
        let lately = |_: &K, member: &Member<K>| {
            let since = now.ms().saturating_sub(member.measured_ms);
            member.trip_ms.is_some() && since < LEARN_AGAIN_MS
        };
        for site in self.pick(LEARN_AGAIN, lately) {
            let member = &self.members[&site];
            if let (Some(place), Some(trip_ms)) = (member.place, member.trip_ms) {
                self.learn(&Coordinate::from(place), trip_ms);
            }
        }
    }

    /// Measures a site that may be among the nearest, or one of them again.
    pub(super) fn measure_one(&mut self, now: Moment, effects: &mut Vec<Effect<K>>) {
        self.measurements
            .retain(|asked| now.ms() < asked.sent.ms() + PROBE_MS);
        if self.is_out() {
            return;
        }
        let Some(target) = self
            .unmeasured(now)
            .or_else(|| self.neighbours.next_to_renew())
        else {
            return;
        };
        let Some(member) = self.members.get_mut(&target).filter(|m| m.takes_part()) else {
            self.neighbours.remove(&target);
            return;
        };
        member.measured_ms = now.ms();
        let nonce = self.chance.draw();
        self.measurements.push(Measurement {
            target: target.clone(),
            nonce,
            sent: now,
        });
        self.say(&target, Body::Ping { nonce }, effects);
    }

    /// The nearest by its place that was not measured and is worth it.
    fn unmeasured(&self, now: Moment) -> Option<K> {
        let asked_lately = |member: &Member<K>| {
            member.measured_ms > 0 && now.ms() < member.measured_ms + MEASURE_AGAIN_MS
        };
        let worth = |(site, member): (&K, &Member<K>)| {
            if member.trip_ms.is_some() || !member.takes_part() || asked_lately(member) {
                return None;
            }
            let estimate = self.coordinate.estimate(&Coordinate::from(member.place?));
            Some((estimate.ms, site.clone()))
        };
        let candidates = self.members.iter().filter_map(worth);
        let nearest = candidates.min_by(|a, b| a.0.total_cmp(&b.0))?;
        self.neighbours.may_gain(nearest.0).then_some(nearest.1)
    }

    /// The answer to a measurement; none if it is not one.
    pub(super) fn hear_measurement(&mut self, now: Moment, from: &K, nonce: u64) -> Option<f64> {
        let asked = |asked: &Measurement<K>| asked.target == *from && asked.nonce == nonce;
        let index = self.measurements.iter().position(asked)?;
        let asked = self.measurements.swap_remove(index);
        Some(now.ms_since(asked.sent))
    }

    /// What somebody measured around itself, if it is later than what is known.
    pub(super) fn hear_near(&mut self, site: &K, version: u16, near: &[Near]) {
        let Some(member) = self.members.get(site) else {
            return;
        };
        let ahead = version.wrapping_sub(member.near_version);
        let later = ahead != 0 && ahead < u16::MAX / 2;
        if member.near.is_some() && !later {
            return;
        }
        let named = |near: &Near| {
            let site = self.tags.get(&near.tag())?.clone()?;
            Some((site, near.trip_ms()))
        };
        let known: Arc<[(K, f64)]> = near.iter().take(NEAR_MAX).filter_map(named).collect();
        if let Some(member) = self.members.get_mut(site) {
            member.near = Some(known);
            member.near_version = version;
        }
    }

    /// What is told of who is near whom: our own measurements, or those of any other.
    pub(super) fn near_told(&mut self) -> Option<Update<K>> {
        if self.chance.draw() & 1 == 0 {
            return Some(Update::Near {
                site: self.here.site.clone(),
                version: self.neighbours.version,
                near: self.neighbours.told(),
            });
        }
        let site = self
            .pick(1, |_, member| member.near.is_some())
            .into_iter()
            .next()?;
        let member = self.members.get(&site)?;
        let near = member.near.as_deref()?;
        let near = near.iter().map(|(site, trip_ms)| Near::new(site, *trip_ms));
        Some(Update::Near {
            version: member.near_version,
            near: near.collect(),
            site,
        })
    }
}

/// Where a round trip comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// One of the two sites has measured it.
    Measured,
    /// From where the two lie.
    Estimated,
}
