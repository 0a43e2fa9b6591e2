//! A mesh in a box: real agents, sample services, links with delays, and clients that show all.

pub(crate) mod agent;
pub(crate) mod client;
pub(crate) mod liar;
pub(crate) mod mesh;
pub(crate) mod notes;
pub(crate) mod ports;
pub(crate) mod setup;
pub(crate) mod stub;

use std::future::Future;
use std::time::{Duration, Instant};

/// Far more than anything here takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until `answer` gives something.
pub(crate) async fn eventually<T, F>(what: &str, mut answer: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = answer().await {
            return found;
        }
        assert!(Instant::now() < until, "never came to be: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
