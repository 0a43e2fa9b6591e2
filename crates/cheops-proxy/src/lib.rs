//! The data plane, in the order a request walks it.
//!
//! `listen` accepts a connection on the thread that will own it → `express` passes ordinary requests
//! for this site's own service on as bytes, and leaves all others to the HTTP library (`http1`) →
//! `entry` reads the scope
//! (`scope`, `carrier`) → `route` carries the plan out: `replicate` takes what is about resources of
//! several sites, `here` calls this site's service
//! (`backend`), `peer` sends the request to another site's agent, whose `mesh` listener ends
//! in its own `here` → `headers` says who answered.
//!
//! One current-thread runtime per core, sockets shared by `SO_REUSEPORT`, connections and caches
//! owned by their thread. Nothing on the local path touches a disk or a lock shared by requests.

mod backend;
mod body;
mod carrier;
mod claim;
mod config;
mod correlation;
mod doorway;
mod entry;
mod envelope;
mod express;
pub mod framing;
mod guard;
mod headers;
mod here;
mod home;
mod host;
mod http1;
mod intake;
pub mod limits;
mod listen;
mod mesh;
mod metrics;
mod onward;
mod own;
mod passage;
mod peer;
mod problem;
mod proxy;
mod pulse;
mod question;
mod replicate;
mod route;
mod scope;
mod service;
mod socket;
mod sweep;
mod transport;
mod tunnel;
mod upgrade;
mod worker;

#[doc(hidden)]
pub use express::seam;

pub use carrier::{Carrier, CarrierFault};
pub use claim::{Claim, ClaimFault, HostClaim, PathClaim, same_claim};
pub use config::{
    Breaker, CallLimits, ClientLimits, Door, ListenerConfig, ProxyConfig, Rule, RuleMatch,
    ServiceConfig,
};
pub use home::{HomeBook, HomeRules, Naming};
pub use metrics::Metrics;
pub use passage::Passage;
pub use proxy::{Links, Proxy, ProxyError, Sockets};
pub use question::ask_site;
