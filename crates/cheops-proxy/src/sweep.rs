//! Deadlines, idle connections and the order to stop, for the many short things of one thread.
//!
//! A timer per request costs more than the request's own routing, and hardly any is ever met. So
//! whatever may have to be woken leaves its waker in a list that one task looks through every now
//! and then.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use slab::Slab;

use crate::limits;
use crate::pulse::Patience;

/// How late a deadline may be noticed.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);

/// What one thread waits for.
#[derive(Default)]
pub(crate) struct Sweep {
    waiting: RefCell<Slab<Waiting>>,
    stopping: Cell<bool>,
}

struct Waiting {
    due: Due,
    waker: Waker,
}

/// How it stands with a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ended, or was idle for too long.
    Over,
    /// It can go on.
    Quiet,
}

/// When something is to be woken, besides being told to stop.
#[derive(Clone)]
enum Due {
    /// Not before.
    Never,
    /// When a service has taken too long.
    After(Patience),
    /// When nothing was asked for too long.
    Idle(Rc<Idle>),
}

impl Sweep {
    /// The future's output, or `None` if patience was over first. It is pinned by the caller: taken
    /// by value it would be held twice, once as it came and once pinned.
    pub(crate) async fn within<F: Future>(
        &self,
        patience: &Patience,
        mut work: Pin<&mut F>,
    ) -> Option<F::Output> {
        let mut place = Place::of(self);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // Woken by the sweep or by chance: only then is the clock looked at.
            Poll::Pending if place.is_taken() && patience.is_over(Instant::now()) => {
                Poll::Ready(None)
            }
            Poll::Pending => {
                place.wait(|| Due::After(patience.clone()), cx);
                Poll::Pending
            }
        })
        .await
    }

    /// A place for a client's connection that is passed on by the short way.
    pub(crate) fn place(&self) -> Place<'_> {
        Place::of(self)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Runs a connection to its end, until it was idle for too long, or until it has been quiet for
    /// as long as `idle` says and `may_rest`. Told to stop, or found to be over when nudged, it is
    /// first asked to end gracefully.
    pub(crate) async fn keep<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        idle: Option<Rc<Idle>>,
        is_over: impl Fn() -> bool,
        ask_to_end: impl FnOnce(Pin<&mut C>),
        may_rest: impl Fn() -> bool,
    ) -> Outcome {
        let mut place = Place::of(self);
        let mut ask_to_end = Some(ask_to_end);
        poll_fn(|cx| {
            if idle.as_ref().is_some_and(|idle| idle.expired.get()) {
                return Poll::Ready(Outcome::Over);
            }
            place.wait(|| idle.clone().map_or(Due::Never, Due::Idle), cx);
            // First it goes on: one that has not begun with a request that is there would end
            // without an answer to it.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Outcome::Over);
            }
            if (self.stopping.get() || is_over())
                && let Some(ask) = ask_to_end.take()
            {
                ask(connection.as_mut());
                if connection.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Outcome::Over);
                }
            }
            match &idle {
                Some(idle) if idle.quiet.get() && may_rest() => {
                    idle.quiet.set(false);
                    Poll::Ready(Outcome::Quiet)
                }
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Wakes whatever is due, for ever.
    pub(crate) async fn run(&self) {
        let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = Instant::now();
            self.wake(|due| match due {
                Due::Never => false,
                Due::After(patience) => patience.is_over(now),
                Due::Idle(idle) => idle.is_due(now),
            });
        }
    }

    /// Tells every connection to end.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.nudge();
    }

    /// Has every connection look whether it is over.
    pub(crate) fn nudge(&self) {
        self.wake(|due| !matches!(due, Due::After(_)));
    }

    fn wake(&self, is_due: impl Fn(&Due) -> bool) {
        // Waking only schedules a task: nothing comes back here before it returns.
        for (_, waiting) in self.waiting.borrow().iter() {
            if is_due(&waiting.due) {
                waiting.waker.wake_by_ref();
            }
        }
    }
}

/// A place in the list, given back when it is dropped.
pub(crate) struct Place<'a> {
    sweep: &'a Sweep,
    key: Option<usize>,
}

impl Place<'_> {
    fn of(sweep: &Sweep) -> Place<'_> {
        Place { sweep, key: None }
    }

    fn is_taken(&self) -> bool {
        self.key.is_some()
    }

    /// Has a connection woken when it was idle for too long, when what it waits for is late, or when
    /// it is to end.
    pub(crate) fn watch(&mut self, idle: &Rc<Idle>, cx: &Context<'_>) {
        self.wait(|| Due::Idle(idle.clone()), cx);
    }

    fn wait(&mut self, due: impl FnOnce() -> Due, cx: &Context<'_>) {
        let mut waiting = self.sweep.waiting.borrow_mut();
        match self.key {
            None => {
                let waker = cx.waker().clone();
                self.key = Some(waiting.insert(Waiting { due: due(), waker }));
            }
            Some(key) => waiting[key].waker.clone_from(cx.waker()),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.sweep.waiting.borrow_mut().remove(key);
        }
    }
}

/// Whether a client's connection is in use. A client that takes its time with the head of a
/// request looks like one that asks nothing, and is treated so.
pub(crate) struct Idle {
    limit: Duration,
    open: Cell<u32>,
    since: Cell<Instant>,
    expired: Cell<bool>,
    /// Nothing was asked for [`limits::REST_AFTER`].
    quiet: Cell<bool>,
    /// It holds no buffers that it could give up.
    at_rest: Cell<bool>,
    /// When the service is late that an open request waits for, where no task of its own looks.
    late_at: Cell<Option<Instant>>,
    is_late: Cell<bool>,
}

impl Idle {
    /// Idle from now on, for as long as `limit` at most.
    pub(crate) fn new(limit: Duration) -> Rc<Idle> {
        Rc::new(Idle {
            limit,
            open: Cell::new(0),
            since: Cell::new(Instant::now()),
            expired: Cell::new(false),
            quiet: Cell::new(false),
            at_rest: Cell::new(false),
            late_at: Cell::new(None),
            is_late: Cell::new(false),
        })
    }

    /// Nothing was asked for as long as it may.
    pub(crate) fn has_expired(&self) -> bool {
        self.expired.get()
    }

    /// Holds no buffers for as long as the guard lives.
    pub(crate) fn rest(&self) -> AtRest<'_> {
        self.at_rest.set(true);
        AtRest(self)
    }

    /// Is woken at `when` if it still waits then, and [`Idle::is_late`].
    pub(crate) fn wait_until(&self, when: Option<Instant>) {
        self.late_at.set(when);
        self.is_late.set(false);
    }

    pub(crate) fn is_late(&self) -> bool {
        self.is_late.get()
    }

    /// A request has come; it is open until the guard, which goes along with its answer, is gone.
    pub(crate) fn begin(self: &Rc<Idle>) -> InFlight {
        self.open.set(self.open.get() + 1);
        self.quiet.set(false);
        InFlight(self.clone())
    }

    /// Whether it is to be woken: to end, or to rest.
    fn is_due(&self, now: Instant) -> bool {
        if self.open.get() > 0 {
            let is_late = self.late_at.get().is_some_and(|when| when <= now);
            self.is_late.set(is_late);
            return is_late;
        }
        let idle_for = now.saturating_duration_since(self.since.get());
        let tires = !self.at_rest.get() && idle_for >= limits::REST_AFTER;
        self.expired.set(idle_for >= self.limit);
        // Woken for it once: one that cannot rest now is quiet until it is asked again.
        self.expired.get() || (tires && !self.quiet.replace(true))
    }
}

/// A connection that holds no buffers.
pub(crate) struct AtRest<'a>(&'a Idle);

impl Drop for AtRest<'_> {
    fn drop(&mut self) {
        self.0.at_rest.set(false);
    }
}

/// An open request.
pub(crate) struct InFlight(Rc<Idle>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.since.set(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use super::*;
    use crate::pulse::Pulse;

    #[tokio::test]
    async fn what_is_in_time_passes_and_what_is_late_does_not() {
        let sweep = Sweep::default();
        let pulse = Pulse::new(Instant::now());
        let limit = Duration::from_millis(20);
        let patience = Patience { pulse, limit };
        let never = pin!(pending::<()>());
        let late = sweep.within(&patience, never);
        let outcome = tokio::select! {
            outcome = late => outcome,
            () = sweep.run() => unreachable!("it runs for ever"),
        };
        assert_eq!(outcome, None);
        assert_eq!(sweep.within(&patience, pin!(async { 7 })).await, Some(7));
        // The body moved: the time begins anew.
        patience.pulse.beat();
        assert!(!patience.is_over(Instant::now()));
        assert!(sweep.waiting.borrow().is_empty());
    }

    #[tokio::test]
    async fn told_to_stop_a_connection_is_asked_once() {
        let sweep = Rc::new(Sweep::default());
        let asked = Rc::new(Cell::new(0));
        let (told, asks) = (asked.clone(), asked.clone());
        let connection = poll_fn(move |_| match told.get() {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        });
        let (connection, stopping) = (pin!(connection), sweep.clone());
        let serving = sweep.keep(
            connection,
            None,
            || false,
            |_| asks.set(asks.get() + 1),
            || false,
        );
        tokio::join!(serving, async move { stopping.stop() });
        assert_eq!(asked.get(), 1);
    }

    #[tokio::test]
    async fn nudged_a_connection_that_is_over_is_asked_to_end() {
        let sweep = Rc::new(Sweep::default());
        let (over, asked) = (Cell::new(false), Rc::new(Cell::new(false)));
        let told = asked.clone();
        let connection = poll_fn(move |_| match told.get() {
            false => Poll::Pending,
            true => Poll::Ready(()),
        });
        let connection = pin!(connection);
        let serving = sweep.keep(
            connection,
            None,
            || over.get(),
            |_| asked.set(true),
            || false,
        );
        tokio::join!(serving, async {
            sweep.nudge();
            tokio::task::yield_now().await;
            assert!(!asked.get(), "it is not over yet");
            over.set(true);
            sweep.nudge();
        });
        assert!(asked.get());
    }

    #[test]
    fn a_connection_is_idle_only_while_nothing_is_open() {
        let limit = Duration::from_secs(60);
        let idle = Idle::new(limit);
        let late = Instant::now() + limit * 2;
        let open = idle.begin();
        assert!(!idle.is_due(late));
        drop(open);
        assert!(!idle.is_due(Instant::now()));
        assert!(idle.is_due(late) && idle.expired.get());
    }

    #[test]
    fn a_quiet_connection_is_woken_once_to_rest_and_again_after_a_request() {
        let idle = Idle::new(Duration::from_secs(60));
        let later = || Instant::now() + limits::REST_AFTER;
        assert!(idle.is_due(later()) && !idle.expired.get());
        assert!(!idle.is_due(later()));
        drop(idle.begin());
        assert!(idle.is_due(later()));
        drop(idle.begin());
        idle.at_rest.set(true);
        assert!(!idle.is_due(later()), "it rests already");
    }

    #[tokio::test]
    async fn a_connection_rests_only_where_it_may() {
        let sweep = Sweep::default();
        let idle = Idle::new(Duration::from_secs(60));
        idle.quiet.set(true);
        let connection = pin!(poll_fn(|cx| -> Poll<()> {
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
        let looks = Cell::new(0);
        let may_rest = || {
            looks.set(looks.get() + 1);
            looks.get() == 2
        };
        let kept = sweep.keep(connection, Some(idle.clone()), || false, |_| (), may_rest);
        assert_eq!((kept.await, looks.get()), (Outcome::Quiet, 2));
    }

    #[test]
    fn an_open_request_is_woken_when_its_service_is_late() {
        let idle = Idle::new(Duration::from_secs(60));
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let open = idle.begin();
        idle.wait_until(Some(now + second));
        assert!(!idle.is_due(now) && !idle.is_late());
        assert!(idle.is_due(now + second) && idle.is_late());
        idle.wait_until(None);
        assert!(!idle.is_due(now + second) && !idle.is_late());
        drop(open);
        let rest = idle.rest();
        assert!(!idle.is_due(now + limits::REST_AFTER), "it rests already");
        drop(rest);
        assert!(idle.is_due(now + limits::REST_AFTER * 2));
    }
}
