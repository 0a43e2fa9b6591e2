//! Where this site's own services are: from an address in a file, a name, or a registry.
//!
//! A [`Source`] says which instances exist; health checks take out those that do not answer. What
//! comes out is a small list that requests read without waiting.

mod health;
mod literal;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use health::Health;
pub use literal::{Addresses, Names};

/// The instances of a service that requests are sent to, in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Their addresses; never empty because of health checks alone.
    pub addresses: Vec<SocketAddr>,
}

/// Which instances of a service exist. Other registries plug in here.
pub trait Source: Send + 'static {
    /// Looks once.
    fn look(&mut self) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;

    /// Whether looking again can bring anything new.
    fn changes(&self) -> bool;
}

/// How often a source is looked at, and instances are probed.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Follows a source for as long as anybody listens. Needs a tokio runtime.
///
/// What a source cannot tell now stays as it was: a name server that is cut off does not take a
/// running service away.
pub fn follow<S: Source>(mut source: S, health: Health) -> watch::Receiver<Arc<Endpoints>> {
    let (sender, receiver) = watch::channel(Arc::new(Endpoints::default()));
    tokio::spawn(async move {
        let mut known: Vec<SocketAddr> = Vec::new();
        loop {
            match source.look().await {
                Ok(found) if !found.is_empty() => known = found,
                Ok(_) => tracing::warn!("no address of a service is known; the last ones stay"),
                Err(error) => tracing::warn!(%error, "a service's address cannot be looked up"),
            }
            let endpoints = Endpoints {
                addresses: health.usable(&known).await,
            };
            sender.send_if_modified(|before| {
                let changed = **before != endpoints;
                if changed {
                    tracing::info!(addresses = ?endpoints.addresses, "endpoints of a service");
                    *before = Arc::new(endpoints);
                }
                changed
            });
            if !source.changes() && !health.probes(&known) {
                // Nothing will change: keep the value alive for as long as it is read.
                sender.closed().await;
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_INTERVAL) => (),
                () = sender.closed() => return,
            }
        }
    });
    receiver
}
