//! One service of this site, as one thread sees it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cheops_engine::replication::Replication;
use cheops_model::ServiceName;
use tokio_rustls::TlsAcceptor;

use crate::backend::Backend;
use crate::carrier::Carrier;
use crate::claim::Claim;
use crate::config::{Rule, ServiceConfig};
use crate::express::Habit;
use crate::guard::Guards;
use crate::home::Homes;
use crate::metrics::ServiceCounters;
use crate::proxy::Generation;
use crate::replicate::Replicas;
use crate::scope::Decider;

/// One service, from one change of the configuration to the next.
pub(crate) struct Service {
    pub(crate) config: Settings,
    pub(crate) backend: Rc<Backend>,
    pub(crate) decider: Decider,
    pub(crate) counters: Arc<ServiceCounters>,
    pub(crate) guards: Arc<Guards>,
    /// The site's rules that can concern this service.
    pub(crate) rules: Vec<Rule>,
    /// How the scope of a workflow reaches this listener: through any service of the site.
    pub(crate) carriers_in: Vec<Carrier>,
    /// Where this service's values are good.
    pub(crate) homes: Option<Arc<Homes>>,
    /// Its resources that live on several sites.
    pub(crate) replicas: Replicas,
    /// Requests that do not try the short way: its answers were not plain.
    pub(crate) detours: Cell<u32>,
    pub(crate) habit: Habit,
}

/// The part of a service's configuration that requests look at.
pub(crate) struct Settings {
    pub(crate) name: ServiceName,
    pub(crate) claim: Claim,
    /// For whoever comes through a tunnel.
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) accept_scope: bool,
    pub(crate) carriers: Vec<Carrier>,
    pub(crate) deadline: Duration,
    pub(crate) queue_ttl: Duration,
    pub(crate) no_room: Vec<http::StatusCode>,
}

impl Service {
    /// `before` is the same service before a change: connections to where it still is are kept.
    pub(crate) fn new(
        config: &ServiceConfig,
        generation: &Generation,
        guards: &Arc<Guards>,
        counters: Arc<ServiceCounters>,
        engine: &Replication,
        before: Option<&Service>,
    ) -> Service {
        let concerns = |rule: &&Rule| {
            let service = rule.matches.service.as_ref();
            service.is_none_or(|name| *name == config.name)
        };
        let kept = before
            .map(|before| &before.backend)
            .filter(|backend| backend.follows(&config.endpoints, config.connect));
        let homes = generation.homes.iter().find(|h| h.service == config.name);
        Service {
            config: Settings {
                name: config.name.clone(),
                claim: config.claim.clone(),
                tls: config.tls.clone().map(TlsAcceptor::from),
                accept_scope: config.accept_scope,
                carriers: config.carriers.clone(),
                deadline: config.deadline,
                queue_ttl: config.queue_ttl,
                no_room: config.no_room.clone(),
            },
            backend: kept
                .cloned()
                .unwrap_or_else(|| Rc::new(Backend::new(config.endpoints.clone(), config.connect))),
            decider: Decider::new(config.name.clone()),
            counters,
            guards: guards.clone(),
            rules: generation
                .config
                .rules
                .iter()
                .filter(concerns)
                .cloned()
                .collect(),
            carriers_in: config.carriers_in.clone(),
            homes: homes.cloned(),
            replicas: Replicas {
                population: engine.index().population(config.name.as_str()),
                engine: engine.clone(),
                api: config.api.clone(),
                service: config.name.clone(),
                here: generation.config.here.clone(),
            },
            detours: Cell::new(0),
            habit: Habit::default(),
        }
    }
}
