//! Threads that stand behind those which serve requests.
//!
//! A site that comes back has thousands of operations to run, and its own clients are not to feel
//! it: what replication does, it does where no request waits for it, and where the processor is
//! wanted twice, requests have it first.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// How far: a tenth of the weight of a thread that serves requests, so that it is felt little and does not starve.
const NICE: i32 = 10;

/// How long such a thread keeps the processor from whoever waits for it. The kernel alone would leave it to a thread
/// that has begun for up to a tick, 4 ms on many machines, however far that stands back.
const TURN: Duration = Duration::from_micros(200);

/// A thread that runs tasks until it is stopped or dropped.
pub(super) struct Aside {
    runtime: Handle,
    stop: Arc<Notify>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Aside {
    pub(super) fn start(name: &str) -> io::Result<Aside> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let run = move || {
            step_back();
            runtime.block_on(stopped.notified());
            // Whoever writes a content breaks off with its client.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        Ok(Aside {
            runtime: handle,
            stop,
            thread: Mutex::new(Some(thread.spawn(run)?)),
        })
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Ends the thread; what is under way breaks off.
    pub(super) fn stop(&self) {
        self.stop.notify_one();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

/// Lets other threads of this machine go first. Where that is not allowed, nothing is lost but time.
pub(super) fn step_back() {
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::debug!(%error, "a thread of replication goes as fast as any other");
    }
}

/// Does something on a thread that has stepped back. The threads that it starts stand where it stands.
pub(super) fn standing_back<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            step_back();
            work()
        })?;
        thread
            .join()
            .map_err(|_| io::Error::other("it came to a bad end"))
    })
}

/// Where a thread that has stepped back can be interrupted: whoever waits for its processor goes first.
pub(super) fn give_way() {
    thread_local!(static SINCE: Cell<Option<Instant>> = const { Cell::new(None) });
    SINCE.with(|since| {
        if since.get().is_none_or(|since| since.elapsed() > TURN) {
            std::thread::yield_now();
            since.set(Some(Instant::now()));
        }
    });
}
