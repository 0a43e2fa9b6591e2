//! The control plane: what operators and their programs ask an agent, and how they ask it.
//!
//! [`server`] answers `/v1` on the admin listener, [`client`] asks it; the CLI uses nothing else.
//! What is said of sites comes from the engine; this crate gives it paths, status codes and a
//! guard at the door.

pub mod client;
mod guard;
mod operate;
mod orders;
mod problem;
mod replicas;
mod routes;
pub mod server;
mod stream;
mod why;
