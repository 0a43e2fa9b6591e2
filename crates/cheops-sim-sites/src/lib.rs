//! Thousands of sites in a box: membership under loss, cuts and delays, coordinates against
//! measured matrices.
//!
//! Drives `cheops-core`'s membership and nothing else: no socket, no clock, and a seed gives the
//! same world each time. [`world`] is the network, [`scenarios`] what is done to it and counted,
//! [`matrix`] the measured round trips, [`places`] how well coordinates tell them.

pub mod ground;
pub mod matrix;
pub mod places;
pub mod report;
pub mod reporting;
pub mod scenarios;
pub mod site;
pub mod world;
