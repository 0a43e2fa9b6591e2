//! What the data plane is told of this site's services, and where they are.

use std::sync::Arc;
use std::time::Duration;

use cheops_engine::registry::{Addresses, Endpoints, Health, Names, follow};
use cheops_model::ServiceName;
use cheops_proxy::{ProxyConfig, ServiceConfig};
use tokio::sync::watch;

use crate::config::{Backend, Config, ServiceSettings};

/// How long the first look at the services' addresses may hold back what waits for it.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);

/// Where the services are, followed for as long as anybody reads it. What stays the same from one
/// configuration to the next is followed on, so that connections are kept.
#[derive(Default)]
pub(super) struct Backends(Vec<Followed>);

#[derive(Clone)]
struct Followed {
    service: ServiceName,
    backend: Backend,
    health: Option<String>,
    endpoints: watch::Receiver<Arc<Endpoints>>,
}

/// A service of this site, and how to tell whether it is well.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) service: ServiceName,
    pub(super) health: Health,
    pub(super) endpoints: watch::Receiver<Arc<Endpoints>>,
}

impl Backends {
    /// What reports tell of.
    pub(super) fn watched(&self) -> Vec<Watched> {
        let watched = |followed: &Followed| Watched {
            service: followed.service.clone(),
            health: Health {
                path: followed.health.clone(),
            },
            endpoints: followed.endpoints.clone(),
        };
        self.0.iter().map(watched).collect()
    }

    /// The data plane's part of a configuration, and what is followed for it.
    pub(super) async fn proxy_config(&self, config: &Config) -> (ProxyConfig, Backends) {
        // A service is called by its siblings: whatever they pass on can bring a scope.
        let mut carriers_in = Vec::new();
        for carrier in config.services.iter().flat_map(|service| &service.carriers) {
            if !carriers_in.contains(carrier) {
                carriers_in.push(carrier.clone());
            }
        }
        let followed: Vec<Followed> = config.services.iter().map(|s| self.follow(s)).collect();
        look_first(&followed).await;
        let services = config.services.iter().zip(&followed);
        let services = services.map(|(service, followed)| ServiceConfig {
            name: service.name.clone(),
            claim: service.claim.clone(),
            tls: service.tls.clone(),
            endpoints: followed.endpoints.clone(),
            accept_scope: service.accept_scope,
            carriers: service.carriers.clone(),
            carriers_in: carriers_in.clone(),
            deadline: service.deadline,
            queue_ttl: service.queue_ttl,
            connect: service.connect,
            local: service.local.clone(),
            remote: service.remote.clone(),
            no_room: service.no_room.clone(),
            home: service.home.clone(),
            api: service.api.clone(),
        });
        let proxy_config = ProxyConfig {
            here: config.site.clone(),
            services: services.collect(),
            listeners: config.listeners.clone(),
            rules: config.rules.clone(),
            threads: config.threads,
            access_log: config.access_log,
            clients: config.clients.clone(),
        };
        (proxy_config, Backends(followed))
    }

    fn follow(&self, service: &ServiceSettings) -> Followed {
        let same = |known: &&Followed| {
            known.service == service.name
                && known.backend == service.backend
                && known.health == service.health
        };
        if let Some(known) = self.0.iter().find(same) {
            return known.clone();
        }
        let health = Health {
            path: service.health.clone(),
        };
        let endpoints = match service.backend.clone() {
            Backend::Addresses(addresses) => follow(Addresses(addresses), health),
            Backend::Names(names) => follow(Names(names), health),
        };
        Followed {
            service: service.name.clone(),
            backend: service.backend.clone(),
            health: service.health.clone(),
            endpoints,
        }
    }
}

/// Waits until every service has an address, or the time for all of them together is up.
async fn look_first(services: &[Followed]) {
    let until = tokio::time::Instant::now() + LOOK_TIME_MAX;
    for service in services {
        let mut endpoints = service.endpoints.clone();
        let first = endpoints.wait_for(|now| !now.addresses.is_empty());
        let _ = tokio::time::timeout_at(until, first).await;
    }
}
