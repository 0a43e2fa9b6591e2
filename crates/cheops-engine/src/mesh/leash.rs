//! Tasks that end with what they were started for.
//!
//! hyper hands the work of an HTTP/2 connection to an executor, and that work outlives its
//! connection on a path that is cut: here it does not.

use hyper::rt::Executor;
use tokio::sync::watch;

/// Holds tasks; dropping it ends them.
#[derive(Debug)]
pub struct Leash(watch::Sender<()>);

/// Spawns tasks on the current runtime that end with their [`Leash`].
#[derive(Clone, Debug)]
pub struct Leashed(watch::Receiver<()>);

impl Leash {
    /// A leash that holds nothing yet.
    pub fn new() -> Leash {
        Leash(watch::Sender::new(()))
    }

    /// An executor whose tasks it holds.
    pub fn executor(&self) -> Leashed {
        Leashed(self.0.subscribe())
    }
}

impl Default for Leash {
    fn default() -> Leash {
        Leash::new()
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Leashed {
    fn execute(&self, work: F) {
        let mut dropped = self.0.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = work => (),
                _ = dropped.changed() => (),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn dropping_the_leash_ends_its_tasks() {
        let leash = Leash::new();
        let (held, ended) = oneshot::channel::<()>();
        leash.executor().execute(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        drop(leash);
        assert!(ended.await.is_err(), "dropped, not answered");
    }
}
