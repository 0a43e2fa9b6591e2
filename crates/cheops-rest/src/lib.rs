//! REST APIs as their profiles describe them: what a request is, where ids stand, and how what clients
//! wrote is read and written again.
//!
//! Everything here is a function of bytes and a profile. [`Api::compile`] checks a profile once;
//! afterwards nothing fails on input except by saying so. No runtime, clock, socket, file or thread.
//!
//! Two form words are used throughout. In *meta-id form* a text names replicants by their meta-ids, as
//! clients see them and logs keep them; in *local form* by the ids of one site's service. Whoever calls
//! knows which id is which: functions that rewrite are given a map.

mod adopt;
mod answer;
mod api;
mod calls;
mod classify;
mod created;
mod diff;
mod doubt;
mod error;
mod fields;
mod id;
mod json;
pub mod limits;
mod listing;
mod mark;
mod media;
mod merge;
mod names;
mod needs;
mod patch;
mod pattern;
mod rewrite;
mod rules;
mod sought;
mod splice;
mod tree;
mod url;
mod versions;
mod visit;

pub use answer::{Class, Ready};
pub use api::Api;
pub use calls::{Call, CallBody, CannotWrite, Update};
pub use cheops_model::profile::{CallKind, Chosen, Given, UpdateForm};
pub use classify::{Absent, Item, Meaning, Spot};
pub use created::{Answer, Created, NoId};
pub use diff::Difference;
pub use doubt::{DoubtBy, Found, Search, Step};
pub use error::{ProfileError, RewriteError};
pub use fields::{FieldFault, Fields, UNSET, Written};
pub use id::{Id, Place, kinds_agree};
pub use media::is_json;
pub use merge::MergeFault;
pub use needs::Need;
pub use rewrite::{Body, Side};
pub use sought::{Lengths, is_plain_id, may_name};
