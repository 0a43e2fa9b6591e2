//! The data plane, in the order a request walks it.
//!
//! `listen` accepts a connection on the thread that will own it → `entry` reads the scope
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
mod config;
mod correlation;
mod entry;
mod envelope;
mod headers;
mod here;
mod home;
pub mod limits;
mod listen;
mod mesh;
mod metrics;
mod own;
mod peer;
mod problem;
mod pulse;
mod replicate;
mod route;
mod scope;
mod socket;
mod sweep;
mod upgrade;
mod worker;

pub use carrier::{Carrier, CarrierFault};
pub use config::{ProxyConfig, Rule, RuleMatch, ServiceConfig};
pub use home::{HomeRules, Naming};
pub use listen::bind;
pub use metrics::Metrics;
pub use worker::{Links, Proxy, ProxyError, Sockets};
