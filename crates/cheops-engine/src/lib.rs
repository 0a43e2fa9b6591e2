//! The core made real: what needs a clock, a socket, a file or a task.
//!
//! [`identity`] is who a site is (certificates of the mesh), [`mesh`] is how agents find, greet and
//! watch each other, [`Picture`] is the world that scopes are resolved against, [`registry`] is
//! where this site's own services are, [`replication`] keeps resources on several sites, [`events`]
//! tells what happens. What a replica does next is not decided here.

pub mod api;
pub mod events;
mod files;
pub mod identity;
pub mod limits;
pub mod mesh;
mod picture;
pub mod registry;
pub mod replication;

pub use picture::{Distance, LocalService, Picture, follow_picture};
