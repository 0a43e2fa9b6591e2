//! Who is in the mesh and alive, how far apart sites are, and what may be believed of them.
//!
//! [`Swim`] is one site's part of a SWIM protocol: it probes one other site at a time, asks others
//! when there is no answer, suspects before it believes, and spreads what it learns on the messages
//! it sends anyway. [`Coordinate`] places sites so that any round trip can be told. [`mark()`] says
//! what the evidence amounts to, [`Tree`] who may address whom. No clock, socket or file: time is
//! an argument, messages come in and go out as values.

mod chance;
mod coordinate;
mod decided;
mod digest;
mod gossip;
mod hear;
mod key;
pub mod limits;
mod mark;
mod measure;
mod member;
mod message;
mod moment;
mod near;
mod probe;
mod report;
mod seal;
mod speak;
mod standing;
mod suspicion;
mod swim;
mod tree;

pub use chance::Chance;
pub use coordinate::{Coordinate, Estimate, Packed, TRIP_MS_MAX};
pub use key::Key;
pub use mark::{Evidence, LinkState, mark};
pub use measure::Source;
pub use member::{Member, Reach, State};
pub use message::{Body, Datagram, Record, Update};
pub use moment::Moment;
pub use near::{Near, Nearest, trip_in};
pub use report::{Held, Ledger, Report, ReportItem, Reports};
pub use seal::{Guard, SealFault, SealKey, Sealer};
pub use standing::{Standing, StandingWord};
pub use swim::{Effect, Swim};
pub use tree::{Against, Place, Tree};
