//! The built program as its users meet it: agents as processes, links that can be cut, services
//! that know nothing of it. One file per theme.
#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "figures, shown on request")]

mod common;

mod admin;
mod attacks;
mod bad_input;
mod blobs;
mod bodies;
mod cuts;
mod disks;
mod express;
mod express_long;
mod failover;
mod forward;
mod headers;
mod limits;
mod lint;
mod memory;
mod mentions;
mod openapi;
mod orders;
mod otherwise;
mod problems;
mod queues;
mod reload;
mod replay;
mod replica_cli;
mod replicas;
mod resources;
mod rest;
mod restarts;
mod rights;
mod scope_cli;
mod scope_world;
mod shared;
mod sharing;
mod sites;
mod start;
mod stop;
mod storm;
mod strangers;
mod tls;
mod upgrades;
mod watches;
mod workflow;
