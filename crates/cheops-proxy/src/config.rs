//! What the data plane relies on; checked before it gets here.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use cheops_engine::registry::Endpoints;
use cheops_model::{ServiceName, SiteName};
use cheops_rest::Api;
use http::{HeaderName, Method, StatusCode};
use tokio::sync::watch;

use crate::carrier::Carrier;
use crate::home::HomeRules;

/// Everything that one agent's data plane is told.
pub struct ProxyConfig {
    /// This site.
    pub here: SiteName,
    /// The services of this site, in the order of their listeners.
    pub services: Vec<ServiceConfig>,
    /// Scopes added where none is given; the first that matches.
    pub rules: Vec<Rule>,
    /// How many threads share the work, each with its own connections.
    pub threads: NonZeroUsize,
    /// Whether each request is logged.
    pub access_log: bool,
}

/// One service of this site.
pub struct ServiceConfig {
    /// Its registered name.
    pub name: ServiceName,
    /// Where clients and sibling services call it.
    pub listen: SocketAddr,
    /// TLS of that listener; without it, plain HTTP.
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
    /// Answers that mean *no room now*: another site may have some.
    pub no_room: Vec<StatusCode>,
    /// What has to be known of its API to replicate its resources.
    pub api: Arc<Api>,
    /// Its values that are good at one site only, if this site trusts another with them.
    pub home: Option<HomeRules>,
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
