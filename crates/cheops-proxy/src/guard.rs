//! Bounds of the calls of one service at one site: how many at once, and none while they fail.
//!
//! One guard is shared by every thread; it is counters alone, no lock. Each site has its own, so
//! what goes wrong at another site never touches what is local.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cheops_model::SiteName;

use crate::config::CallLimits;

/// Why a call is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// As many as may be are under way.
    Overloaded,
    /// None was answered lately; the time until one is tried again.
    Open(Duration),
}

/// Who asks for a call of this site's own service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A client of this site.
    Client,
    /// Another site, which gets three quarters of what may be under way: what is local finds room.
    Peer,
}

/// The bounds of one service at one site.
pub(crate) struct Guard {
    limits: CallLimits,
    started: Instant,
    under_way: AtomicU32,
    /// In a row, without an answer.
    failures: AtomicU32,
    /// Until when nothing is called, in milliseconds since `started`; 0 while calls are made.
    open_until_ms: AtomicU64,
}

/// A call that may be made; it counts until this is dropped.
pub(crate) struct Pass(Arc<Guard>);

impl Guard {
    /// `None` if nothing is bounded: such calls cost nothing.
    pub(crate) fn new(limits: &CallLimits) -> Option<Arc<Guard>> {
        if *limits == CallLimits::default() {
            return None;
        }
        Some(Arc::new(Guard {
            limits: limits.clone(),
            started: Instant::now(),
            under_way: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            open_until_ms: AtomicU64::new(0),
        }))
    }

    pub(crate) fn enter(self: &Arc<Guard>, asker: Asker, now: Instant) -> Result<Pass, Refusal> {
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed);
        // Counted from here on, and no more once it is dropped.
        let pass = Pass(self.clone());
        let most = self.limits.concurrency.map_or(u32::MAX, |most| most.get());
        let share = match asker {
            Asker::Client => most,
            Asker::Peer => most - most / 4,
        };
        if under_way >= share {
            return Err(Refusal::Overloaded);
        }
        self.check_breaker(now)?;
        Ok(pass)
    }

    fn check_breaker(&self, now: Instant) -> Result<(), Refusal> {
        let until = self.open_until_ms.load(Ordering::Relaxed);
        let Some(breaker) = self.limits.breaker.as_ref().filter(|_| until != 0) else {
            return Ok(());
        };
        let now_ms = self.ms(now);
        if now_ms < until {
            return Err(Refusal::Open(Duration::from_millis(until - now_ms)));
        }
        // One of those that come now is let through, and the others wait for what it meets.
        let next = now_ms + whole_ms(breaker.pause);
        let order = Ordering::Relaxed;
        match self
            .open_until_ms
            .compare_exchange(until, next, order, order)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(Refusal::Open(breaker.pause)),
        }
    }

    fn ms(&self, now: Instant) -> u64 {
        whole_ms(now.saturating_duration_since(self.started))
    }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl Pass {
    /// There was an answer.
    pub(crate) fn answered(&self) {
        let guard = &self.0;
        // Read first: a store that changes nothing would still take the line from other threads.
        if guard.failures.load(Ordering::Relaxed) != 0 {
            guard.failures.store(0, Ordering::Relaxed);
            guard.open_until_ms.store(0, Ordering::Relaxed);
        }
    }

    /// There was none.
    pub(crate) fn failed(&self, now: Instant) {
        let guard = &self.0;
        let Some(breaker) = &guard.limits.breaker else {
            return;
        };
        let failures = guard
            .failures
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        if failures >= breaker.failures.get() {
            let until = guard.ms(now) + whole_ms(breaker.pause);
            guard.open_until_ms.store(until, Ordering::Relaxed);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The guards of one service.
pub(crate) struct Guards {
    /// Of this site's own.
    pub(crate) local: Option<Arc<Guard>>,
    limits: (CallLimits, CallLimits),
    /// Of each other site; as many as there are sites in the mesh. Locked for forwarded requests
    /// alone, and never across a wait.
    remote: Mutex<HashMap<SiteName, Arc<Guard>>>,
}

impl Guards {
    pub(crate) fn new(local: &CallLimits, remote: &CallLimits) -> Guards {
        Guards {
            local: Guard::new(local),
            limits: (local.clone(), remote.clone()),
            remote: Mutex::default(),
        }
    }

    /// Whether these are the guards of such limits.
    pub(crate) fn have(&self, local: &CallLimits, remote: &CallLimits) -> bool {
        self.limits.0 == *local && self.limits.1 == *remote
    }

    pub(crate) fn remote(&self, site: &SiteName) -> Option<Arc<Guard>> {
        let mut guards = self.remote.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = guards.get(site) {
            return Some(known.clone());
        }
        let made = Guard::new(&self.limits.1)?;
        guards.insert(site.clone(), made.clone());
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Breaker;
    use std::num::NonZeroU32;

    const PAUSE: Duration = Duration::from_secs(2);

    fn guard(concurrency: u32, failures: u32) -> Arc<Guard> {
        let breaker = NonZeroU32::new(failures).map(|failures| Breaker {
            failures,
            pause: PAUSE,
        });
        let concurrency = NonZeroU32::new(concurrency);
        Guard::new(&CallLimits {
            concurrency,
            breaker,
        })
        .unwrap()
    }

    #[test]
    fn as_many_as_allowed_are_under_way_and_no_more() {
        let guard = guard(2, 0);
        let now = Instant::now();
        let (first, _second) = (
            guard.enter(Asker::Client, now).ok().unwrap(),
            guard.enter(Asker::Client, now).ok().unwrap(),
        );
        assert_eq!(
            guard.enter(Asker::Client, now).err(),
            Some(Refusal::Overloaded)
        );
        drop(first);
        assert!(guard.enter(Asker::Client, now).is_ok());
    }

    #[test]
    fn other_sites_leave_a_quarter_to_this_one() {
        let guard = guard(4, 0);
        let now = Instant::now();
        let held: Vec<Pass> = (0..3)
            .map_while(|_| guard.enter(Asker::Peer, now).ok())
            .collect();
        assert_eq!(held.len(), 3);
        assert_eq!(
            guard.enter(Asker::Peer, now).err(),
            Some(Refusal::Overloaded)
        );
        assert!(guard.enter(Asker::Client, now).is_ok());
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_through_after_the_pause() {
        let guard = guard(0, 3);
        let now = Instant::now();
        let fail = |at| guard.enter(Asker::Client, at).ok().unwrap().failed(at);
        fail(now);
        fail(now);
        guard.enter(Asker::Client, now).ok().unwrap().answered();
        (0..3).for_each(|_| fail(now));
        let refusal = guard.enter(Asker::Client, now).err().unwrap();
        assert!(
            matches!(refusal, Refusal::Open(left) if left <= PAUSE),
            "{refusal:?}"
        );
        let later = now + PAUSE + Duration::from_millis(5);
        let probe = guard.enter(Asker::Client, later).ok().unwrap();
        assert!(
            matches!(guard.enter(Asker::Client, later), Err(Refusal::Open(_))),
            "one alone"
        );
        probe.failed(later);
        assert!(
            matches!(guard.enter(Asker::Client, later), Err(Refusal::Open(_))),
            "for another pause"
        );
        let latest = later + PAUSE + Duration::from_millis(5);
        guard.enter(Asker::Client, latest).ok().unwrap().answered();
        assert!(
            guard.enter(Asker::Client, latest).is_ok()
                && guard.enter(Asker::Client, latest).is_ok()
        );
    }

    #[test]
    fn nothing_is_kept_where_nothing_is_bounded() {
        assert!(Guard::new(&CallLimits::default()).is_none());
    }

    #[test]
    fn each_site_has_its_own() {
        let limits = guard(1, 0).limits.clone();
        let guards = Guards::new(&limits, &limits);
        let (here, now) = (guards.local.clone().unwrap(), Instant::now());
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        let _held = guards
            .remote(&a)
            .unwrap()
            .enter(Asker::Client, now)
            .ok()
            .unwrap();
        assert!(
            guards
                .remote(&a)
                .unwrap()
                .enter(Asker::Client, now)
                .is_err()
        );
        assert!(guards.remote(&b).unwrap().enter(Asker::Client, now).is_ok());
        assert!(here.enter(Asker::Client, now).is_ok());
    }
}
