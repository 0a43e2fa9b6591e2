//! Two small REST services to try Cheops on: an image store, and a compute that boots images.
//!
//! They are black boxes, as a real application is: nothing here knows of Cheops, of scopes or of
//! other sites. What they do for tests is only to tell who answered (`X-Sample-Site`) and what
//! they were asked (`GET /debug/seen`). They keep everything in memory and forget it at the end.

mod answer;
pub mod compute;
mod front;
mod id;
pub mod image;
mod seen;
mod shelf;

pub use front::SITE_HEADER;
pub use id::IdForm;
pub use seen::SEEN_MAX;
