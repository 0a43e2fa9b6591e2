//! The words of Cheops: data that every other crate speaks of, and nothing that acts.
//!
//! A value of one of these types is right by construction: it is parsed once, where it enters,
//! and relied upon afterwards. No runtime, clock, socket, file or thread is known here.

pub mod duration;
mod guarantee;
mod labels;
mod mark;
mod name;
pub mod profile;
pub mod record;

pub use guarantee::{Failover, Guarantee, OnConflict, StrongRead};
pub use labels::Labels;
pub use mark::Mark;
pub use name::{NAME_BYTES_MAX, NameFault, ServiceName, SiteName};
pub use profile::{Home, Naming, Profile};
