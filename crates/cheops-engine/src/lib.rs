//! The core made real: what needs a clock, a socket, a file or a task.
//!
//! [`identity`] is who a site is (certificates of the mesh), [`mesh`] is how agents find, greet and
//! watch each other. What a replica does next is not decided here.

mod files;
pub mod identity;
pub mod limits;
pub mod mesh;
