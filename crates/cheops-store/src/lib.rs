//! Bytes: durable, ordered, and committed in batches that survive a power cut.
//!
//! One small trait, [`Store`]: a [`Batch`] of writes is stored whole or not at all, and has
//! survived when [`Store::commit`] returns. Keys are bytes in byte order, in a closed set of
//! [`Table`]s; values are bytes that the store does not look into, mostly a [`record`].
//!
//! Nothing here knows what a replicant is, and nothing above knows what lies below.

mod batch;
mod error;
mod files;
mod incarnation;
mod key;
pub mod limits;
pub mod memory;
mod paging;
pub mod record;
mod seal;
pub mod sqlite;
mod store;
mod table;

pub use batch::{Batch, Write};
pub use error::{Bound, StoreError, TooLarge};
pub use incarnation::{Incarnation, Opening};
pub use key::{Key, KeyRange, Value};
pub use store::{Done, Page, Store};
pub use table::Table;
