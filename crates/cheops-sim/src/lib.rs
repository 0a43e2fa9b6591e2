//! A world in a box: drives the core through faults, then lets it heal, and checks its laws.
//!
//! A run is a seed: the same seed is the same world, event by event. Everything rough happens in the first part
//! (crashes at every write, torn and one-way links, lost, repeated and late messages, clocks that jump, disks put
//! back, services that fail after doing it); then faults are off and the world must come to rest.

mod cancels;
pub mod clients;
pub mod disk;
mod effects;
pub mod faults;
pub mod history;
pub mod laws;
pub mod network;
pub mod rng;
pub mod service;
pub mod settings;
pub mod sweep;
pub mod trace;
pub mod world;

pub use cheops_core::eventual::Bug;
pub use sweep::{Failure, Summary, run, sweep};
