//! A wide-area link between processes of one machine, made in user space.
//!
//! A [`Relay`] listens on a loopback address and passes TCP streams and UDP datagrams on to a
//! target, each after a delay, as if both were far apart. It can be cut and healed while it runs.
//! A process is put behind a link by giving it the relay's address in place of the target's.
//!
//! What it is not: a model of TCP itself. The kernel still acknowledges on both sides of the
//! relay, so that connecting succeeds at once, even over a cut, and keep-alive probes never fail.
//! The round trip of the handshake is added before the first byte instead. A target that refuses
//! shows as a connection that is reset after it was accepted.

mod controls;
mod datagrams;
mod door;
mod draw;
mod line;
mod pump;
mod relay;
mod shape;
mod tcp;
mod udp;

pub use relay::Relay;
pub use shape::{Direction, IN_FLIGHT_BYTES_MAX, Shape};
