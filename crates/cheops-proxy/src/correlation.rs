//! What the agent remembers of scopes by the value of a header that services pass on.
//!
//! Bounded in number and age. Values that the agent made carry a keyed check, so that an ordinary
//! request id of a client is told apart without looking anything up: the local path takes no lock.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use cheops_model::SiteName;
use http::HeaderValue;

use crate::carrier::{Correlate, Form};
use crate::limits;

/// Where a workflow comes from and how it is to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trail {
    /// The scope, as received.
    pub(crate) scope: HeaderValue,
    /// The site that first received it: what `here` means.
    pub(crate) entry: SiteName,
    /// Calls made so far along the workflow.
    pub(crate) hops: u32,
}

/// Two live scopes meet on one value.
pub(crate) struct Ambiguous;

const SHARDS: usize = 64;

pub(crate) struct Correlation {
    shards: Vec<Mutex<Shard>>,
    ids: RandomState,
    checks: RandomState,
    minted: AtomicU64,
}

#[derive(Default)]
struct Shard {
    trails: HashMap<u128, (Trail, Instant)>,
    /// Oldest first, for forgetting.
    order: VecDeque<(u128, Instant)>,
}

impl Correlation {
    pub(crate) fn new() -> Correlation {
        Correlation {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            ids: RandomState::new(),
            checks: RandomState::new(),
            minted: AtomicU64::new(0),
        }
    }

    /// Remembers a trail, and tells the value by which it will be found again. `own` is what the
    /// request has there already.
    pub(crate) fn remember(
        &self,
        correlate: &Correlate,
        own: Option<&[u8]>,
        trail: &Trail,
        now: Instant,
    ) -> Result<HeaderValue, Ambiguous> {
        // A trace has to go on under its own id; any other value is replaced by a fresh one.
        let own = own.filter(|_| correlate.form == Form::TraceParent);
        let own = own.and_then(|own| {
            let key = correlate.form.read(own)?;
            Some((HeaderValue::from_bytes(own).ok()?, key))
        });
        let (value, key) = own.unwrap_or_else(|| {
            let key = self.mint();
            let text = correlate.form.spell(key);
            let value = HeaderValue::from_str(&text).expect("hex fits a header");
            (value, key)
        });
        self.shard(key).put(key, trail, now)?;
        Ok(value)
    }

    /// The trail of the request that a service passes this value on from.
    pub(crate) fn find(&self, correlate: &Correlate, value: &[u8], now: Instant) -> Option<Trail> {
        let key = correlate.form.read(value)?;
        if correlate.form != Form::TraceParent && !self.is_ours(key) {
            return None;
        }
        self.shard(key).get(key, now)
    }

    fn mint(&self) -> u128 {
        let high = self
            .ids
            .hash_one(self.minted.fetch_add(1, Ordering::Relaxed));
        (u128::from(high) << 64) | u128::from(self.checks.hash_one(high))
    }

    fn is_ours(&self, key: u128) -> bool {
        self.checks.hash_one((key >> 64) as u64) == key as u64
    }

    fn shard(&self, key: u128) -> std::sync::MutexGuard<'_, Shard> {
        let shard = &self.shards[(key >> 96) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn put(&mut self, key: u128, trail: &Trail, now: Instant) -> Result<(), Ambiguous> {
        self.forget_old(now);
        if let Some((known, _)) = self.trails.get(&key)
            && (known.scope != trail.scope || known.entry != trail.entry)
        {
            return Err(Ambiguous);
        }
        self.trails.insert(key, (trail.clone(), now));
        self.order.push_back((key, now));
        Ok(())
    }

    fn get(&mut self, key: u128, now: Instant) -> Option<Trail> {
        let (trail, at) = self.trails.get(&key)?;
        let alive = now.saturating_duration_since(*at) <= limits::CORRELATION_AGE_MAX;
        alive.then(|| trail.clone())
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some((key, at)) = self.order.front().copied() {
            let old = now.saturating_duration_since(at) > limits::CORRELATION_AGE_MAX;
            if !old && self.order.len() < limits::CORRELATIONS_MAX / SHARDS {
                break;
            }
            self.order.pop_front();
            // A key that was remembered again since has a younger place in the order.
            if self
                .trails
                .get(&key)
                .is_some_and(|(_, latest)| *latest == at)
            {
                self.trails.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::Carrier;

    fn correlate(header: &str) -> Correlate {
        match format!("correlate:{header}").parse() {
            Ok(Carrier::Correlate(correlate)) => correlate,
            other => panic!("{other:?}"),
        }
    }

    fn trail(scope: &'static str) -> Trail {
        let scope = HeaderValue::from_static(scope);
        Trail {
            scope,
            entry: "site1".parse().unwrap(),
            hops: 0,
        }
    }

    #[test]
    fn a_client_value_is_replaced_and_the_scope_found_again() {
        let memory = Correlation::new();
        let now = Instant::now();
        let by = correlate("x-request-id");
        assert!(memory.find(&by, b"mine", now).is_none());
        let remembered = memory.remember(&by, Some(b"mine"), &trail("a: b"), now);
        let value = remembered.ok().unwrap();
        assert_ne!(value, "mine");
        assert_eq!(memory.find(&by, value.as_bytes(), now), Some(trail("a: b")));
        let late = now + limits::CORRELATION_AGE_MAX * 2;
        assert_eq!(memory.find(&by, value.as_bytes(), late), None);
    }

    #[test]
    fn a_trace_keeps_its_id_and_two_scopes_on_it_are_refused() {
        let memory = Correlation::new();
        let now = Instant::now();
        let by = correlate("traceparent");
        let own = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let remember = |scope| memory.remember(&by, Some(own), &trail(scope), now).ok();
        assert_eq!(remember("a: b").unwrap().as_bytes(), own);
        assert!(remember("a: b").is_some());
        assert!(remember("a: c").is_none());
    }

    #[test]
    fn the_memory_is_bounded() {
        let memory = Correlation::new();
        let now = Instant::now();
        let by = correlate("x-request-id");
        for _ in 0..limits::CORRELATIONS_MAX + SHARDS * 200 {
            let remembered = memory.remember(&by, None, &trail("a: b"), now);
            assert!(remembered.is_ok());
        }
        let held: usize = memory
            .shards
            .iter()
            .map(|s| s.lock().unwrap().trails.len())
            .sum();
        assert!(held <= limits::CORRELATIONS_MAX, "{held}");
    }
}
