//! The built program as its users meet it: agents as processes, links that can be cut, services
//! that know nothing of it. One file per theme.
#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "figures, shown on request")]

mod common;

mod admin;
mod bodies;
mod cuts;
mod headers;
mod lint;
mod memory;
mod otherwise;
mod problems;
mod restarts;
mod scope_cli;
mod scope_world;
mod sharing;
mod start;
mod stop;
mod strangers;
mod tls;
mod upgrades;
mod workflow;
