//! What the data plane relies on; checked before it gets here.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use cheops_engine::registry::Endpoints;
use cheops_model::{ServiceName, SiteName};
use cheops_rest::Api;
use http::{HeaderName, Method, StatusCode};
use tokio::sync::watch;

use crate::carrier::Carrier;
use crate::claim::Claim;
use crate::home::HomeRules;

/// Everything that one agent's data plane is told.
pub struct ProxyConfig {
    /// This site.
    pub here: SiteName,
    /// The services of this site.
    pub services: Vec<ServiceConfig>,
    /// Where clients come in.
    pub listeners: Vec<ListenerConfig>,
    /// Scopes added where none is given; the first that matches.
    pub rules: Vec<Rule>,
    /// How many threads share the work, each with its own connections.
    pub threads: NonZeroUsize,
    /// Whether each request is logged.
    pub access_log: bool,
    /// What clients may take.
    pub clients: ClientLimits,
}

/// Where clients come in.
#[derive(Clone)]
pub struct ListenerConfig {
    /// The key that asks for it.
    pub key: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// TLS of it; without, plain HTTP.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Where it leads.
    pub door: Door,
}

/// Where a listener leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// To one service.
    Service(ServiceName),
    /// To the service that claims the request's host or path.
    Shared,
    /// To the service that the client names by a whole URL or by `CONNECT`, as it would ask a
    /// forward proxy. Never to anything else.
    Forward,
}

/// One service of this site.
pub struct ServiceConfig {
    /// Its registered name.
    pub name: ServiceName,
    /// What it answers for at a shared listener or a forward proxy.
    pub claim: Claim,
    /// TLS for whoever reaches it through `CONNECT`.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Where the service itself is.
    pub endpoints: watch::Receiver<Arc<Endpoints>>,
    /// Whether clients may say where it runs.
    pub accept_scope: bool,
    /// How a scope follows the workflow through this service.
    pub carriers: Vec<Carrier>,
    /// How the scope of a workflow reaches its listener: the carriers of every service of the site,
    /// since it is they that call it.
    pub carriers_in: Vec<Carrier>,
    /// How long the service may take to answer.
    pub deadline: Duration,
    /// How long a request for one other site may wait for it, unless the scope says.
    pub queue_ttl: Duration,
    /// How long connecting to the service may take.
    pub connect: Duration,
    /// Bounds of calls of this site's own service.
    pub local: CallLimits,
    /// Bounds of calls of this service at each other site.
    pub remote: CallLimits,
    /// Answers that mean *no room now*: another site may have some.
    pub no_room: Vec<StatusCode>,
    /// What has to be known of its API to replicate its resources.
    pub api: Arc<Api>,
    /// Its values that are good at one site only, if this site trusts another with them.
    pub home: Option<HomeRules>,
}

/// Bounds of the calls of one service at one site; what is over them is answered 503 at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls at the same time.
    pub concurrency: Option<NonZeroU32>,
    /// When to stop calling for a while.
    pub breaker: Option<Breaker>,
}

/// When calls are not even tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// After so many in a row without an answer.
    pub failures: NonZeroU32,
    /// For so long; then one is let through to see.
    pub pause: Duration,
}

/// What clients may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// How long a client may ask nothing, the time it takes to send a request's head included.
    pub idle: Duration,
    /// Connections at the same time; further ones are answered 503 and closed.
    pub connections: NonZeroUsize,
}

/// A scope that the site adds.
#[derive(Clone)]
pub struct Rule {
    /// Which requests it is for.
    pub matches: RuleMatch,
    /// The scope.
    pub scope: String,
}

/// Every part that is given has to match.
#[derive(Clone, Default)]
pub struct RuleMatch {
    /// The service called.
    pub service: Option<ServiceName>,
    /// The method.
    pub method: Option<Method>,
    /// What the path begins with.
    pub path_prefix: Option<String>,
    /// A header with that value.
    pub header: Option<(HeaderName, String)>,
}

impl RuleMatch {
    pub(crate) fn fits(&self, head: &http::request::Parts) -> bool {
        let method = self
            .method
            .as_ref()
            .is_none_or(|method| *method == head.method);
        let path = self
            .path_prefix
            .as_ref()
            .is_none_or(|p| head.uri.path().starts_with(p));
        let header = self.header.as_ref().is_none_or(|(name, value)| {
            head.headers
                .get(name)
                .is_some_and(|found| found.as_bytes() == value.as_bytes())
        });
        method && path && header
    }
}
