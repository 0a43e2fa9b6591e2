//! Looking whether an answer is there before going to sleep.
//!
//! To sleep and be woken takes a thread longer than a fast service takes to answer. So a thread with a single request of
//! the short way under way, to a service that usually answers at once, looks for the answer for as long as that takes. One thread
//! of the agent at a time, and none where there is but one processor: whoever looks takes it from the service.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::limits::LOOKOUT_TIME_MAX;

/// The place from which one thread of the agent looks.
#[derive(Clone)]
pub(crate) struct Post {
    taken: Arc<AtomicBool>,
    exists: bool,
}

impl Post {
    pub(crate) fn new() -> Post {
        let processors = std::thread::available_parallelism();
        Post {
            taken: Arc::default(),
            exists: processors.is_ok_and(|processors| processors.get() > 1),
        }
    }
}

/// Requests of one thread that wait for an answer.
pub(crate) struct Lookout {
    post: Post,
    waiting: Cell<u32>,
}

impl Lookout {
    pub(crate) fn new(post: Post) -> Lookout {
        let waiting = Cell::new(0);
        Lookout { post, waiting }
    }

    /// Counts one for as long as it waits.
    pub(super) fn wait(&self) -> Wait<'_> {
        self.waiting.set(self.waiting.get() + 1);
        Wait(self)
    }
}

pub(super) struct Wait<'a>(&'a Lookout);

impl Wait<'_> {
    /// Takes the post, if it is worth it.
    pub(super) fn look_for(&self, habit: &Habit) -> Option<Look<'_>> {
        let usual = habit.usual.get();
        let lookout = self.0;
        let worth = lookout.post.exists && lookout.waiting.get() == 1 && usual < LOOKOUT_TIME_MAX;
        let free = worth && !lookout.post.taken.swap(true, Ordering::Relaxed);
        free.then(|| Look {
            lookout,
            until: Instant::now() + usual * 2,
        })
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

/// A look that has begun.
pub(super) struct Look<'a> {
    lookout: &'a Lookout,
    until: Instant,
}

impl Look<'_> {
    /// Lets everything else of the thread have its turn. False: it takes too long, or another request came.
    pub(super) async fn goes_on(&self) -> bool {
        tokio::task::yield_now().await;
        self.lookout.waiting.get() == 1 && Instant::now() < self.until
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.lookout.post.taken.store(false, Ordering::Relaxed);
    }
}

/// How long a service usually takes to answer, as one thread sees it.
pub(crate) struct Habit {
    usual: Cell<Duration>,
}

impl Default for Habit {
    fn default() -> Habit {
        let usual = Cell::new(LOOKOUT_TIME_MAX / 2);
        Habit { usual }
    }
}

impl Habit {
    /// The last few count; one that was very late counts as one that was late.
    pub(super) fn note(&self, took: Duration) {
        let took = took.min(LOOKOUT_TIME_MAX * 4);
        self.usual.set((self.usual.get() * 7 + took) / 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookouts() -> (Lookout, Lookout) {
        let post = Post {
            taken: Arc::default(),
            exists: true,
        };
        (Lookout::new(post.clone()), Lookout::new(post))
    }

    #[test]
    fn one_thread_looks_at_a_time_and_only_for_its_single_request() {
        let (one, other) = lookouts();
        let habit = Habit::default();
        let wait = one.wait();
        let look = wait.look_for(&habit);
        assert!(look.is_some());
        assert!(other.wait().look_for(&habit).is_none(), "the post is taken");
        drop(look);
        assert!(other.wait().look_for(&habit).is_some(), "and free again");
        let second = one.wait();
        assert!(second.look_for(&habit).is_none());
        drop(second);
        assert!(wait.look_for(&habit).is_some());
    }

    #[test]
    fn a_service_that_has_become_slow_is_not_looked_for_until_it_is_fast_again() {
        let (one, _) = lookouts();
        let habit = Habit::default();
        let wait = one.wait();
        for _ in 0..20 {
            habit.note(Duration::from_secs(3));
        }
        assert!(wait.look_for(&habit).is_none());
        for _ in 0..20 {
            habit.note(LOOKOUT_TIME_MAX / 4);
        }
        assert!(wait.look_for(&habit).is_some());
    }

    #[test]
    fn nobody_looks_where_there_is_one_processor() {
        let post = Post {
            taken: Arc::default(),
            exists: false,
        };
        let lookout = Lookout::new(post);
        assert!(lookout.wait().look_for(&Habit::default()).is_none());
    }
}
