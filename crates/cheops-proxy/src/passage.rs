//! The scope of an operation, given to the services that it is run on as a client's scope would be: so the calls that a
//! service makes meanwhile go where the scope says, at whatever site and however much later it runs.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use cheops_engine::Picture;
use cheops_engine::replication::{ENTRY, Replaced};
use cheops_model::{ServiceName, SiteName};
use cheops_scope::{limits::TEXT_BYTES_MAX, parse_bytes};
use http::{HeaderMap, HeaderValue};
use tokio::sync::watch;

use crate::carrier::{self, Carrier};
use crate::config::ProxyConfig;
use crate::correlation::{Correlation, Trail};
use crate::headers;

/// How scopes are carried to the services of an agent, whatever its configuration becomes. Cheap to clone.
#[derive(Clone)]
pub struct Passage(Arc<Inner>);

struct Inner {
    pictures: watch::Receiver<Arc<Picture>>,
    correlation: Arc<Correlation>,
    carriers: RwLock<Carriers>,
}

type Carriers = Vec<(ServiceName, Vec<Carrier>)>;

impl Passage {
    /// As a configuration has it.
    pub fn of(config: &ProxyConfig, pictures: watch::Receiver<Arc<Picture>>) -> Passage {
        Passage(Arc::new(Inner {
            pictures,
            correlation: Arc::new(Correlation::new()),
            carriers: RwLock::new(carriers(config)),
        }))
    }

    pub(crate) fn turn_to(&self, config: &ProxyConfig) {
        let mut now = self.0.carriers.write();
        let now = now.as_mut().unwrap_or_else(|poisoned| poisoned.get_mut());
        **now = carriers(config);
    }

    /// What scopes are remembered by.
    pub(crate) fn correlation(&self) -> Arc<Correlation> {
        self.0.correlation.clone()
    }

    /// Takes the scope of an operation off a call that its applier is about to make, and gives it to the service the
    /// ways it asked for. Tells what is to be restored in the answer.
    pub fn carry(&self, service: &str, headers: &mut HeaderMap) -> Vec<Replaced> {
        let mut replaced = Vec::new();
        let entry = headers.remove(ENTRY);
        let Some(scope) = headers.remove(headers::SCOPE) else {
            return replaced;
        };
        let picture = self.0.pictures.borrow().clone();
        let (hops, entry) = entry
            .and_then(|entry| read_entry(entry.as_bytes()))
            .unwrap_or_else(|| (0, picture.here.clone()));
        let carriers = self.0.carriers.read();
        let carriers = carriers.unwrap_or_else(PoisonError::into_inner);
        let Some((_, ways)) = carriers.iter().find(|(name, _)| name.as_str() == service) else {
            return replaced;
        };
        let trail = Trail {
            scope: inside(&picture, &entry, &scope).unwrap_or(scope),
            entry,
            hops,
        };
        for way in ways {
            match way {
                Carrier::Header => _ = headers.insert(headers::SCOPE, trail.scope.clone()),
                Carrier::Baggage => carrier::set_baggage(headers, trail.scope.to_str().ok()),
                Carrier::Correlate(by) => {
                    let own = headers.get(&by.header).cloned();
                    let value = own.as_ref().map(HeaderValue::as_bytes);
                    let memory = &self.0.correlation;
                    match memory.remember(by, value, &trail, Instant::now()) {
                        Ok(ours) => {
                            headers.insert(by.header.clone(), ours.clone());
                            let header = by.header.clone();
                            replaced.push(Replaced { header, ours, own });
                        }
                        Err(_) => {
                            // Its trace is under way with the scope as it was written.
                            tracing::debug!(service, header = %by.header, "a trace keeps its scope");
                        }
                    }
                }
            }
        }
        replaced
    }
}

/// The scope for what is called inside of the operation, if it differs. One that this site cannot resolve any more goes on
/// as it is: whoever reads it says why.
fn inside(picture: &Picture, entry: &SiteName, scope: &HeaderValue) -> Option<HeaderValue> {
    let checked = parse_bytes(scope.as_bytes()).ok()?.check().ok()?;
    let world = &picture.world;
    let entry = world.site(entry.as_str()).unwrap_or_else(|| world.here());
    let text = checked.inside(world, entry).ok()??.to_string();
    let fits = text.len() <= TEXT_BYTES_MAX;
    fits.then(|| HeaderValue::from_str(&text).ok())?
}

/// Where a workflow entered, for the log: its calls so far, then the site.
pub(crate) fn write_entry(trail: &Trail) -> String {
    format!("{} {}", trail.hops, trail.entry)
}

fn read_entry(text: &[u8]) -> Option<(u32, SiteName)> {
    let (hops, entry) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some((hops.parse().ok()?, SiteName::new(entry).ok()?))
}

fn carriers(config: &ProxyConfig) -> Carriers {
    let services = config.services.iter();
    let of = services.map(|service| (service.name.clone(), service.carriers.clone()));
    of.collect()
}
