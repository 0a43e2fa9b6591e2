//! Bytes: durable, ordered, and committed in batches that survive a power cut.
//!
//! One small trait, [`Store`]: a [`Batch`] of writes is stored whole or not at all, and has
//! survived when [`Store::commit`] returns. Keys are bytes in byte order, in a closed set of
//! [`Table`]s; values are bytes that the store does not look into, mostly a [`record`].
//!
//! ```
//! use cheops_store::memory::MemoryDisk;
//! use cheops_store::{Batch, KeyRange, Store, Table};
//!
//! let disk = MemoryDisk::new(1);
//! let store = disk.open();
//! let mut batch = Batch::new();
//! batch.put(Table::Operations, b"op-7", b"PUT /images/72")?;
//! batch.put(Table::Log, b"72/0001", b"op-7")?;
//! store.commit(batch)?; // Both are on disk, or this is an error and neither is.
//!
//! disk.crash();
//! let store = disk.open();
//! let page = store.scan(Table::Log, KeyRange::prefix(b"72/"), 100)?;
//! assert_eq!(page.entries, [(b"72/0001".to_vec(), b"op-7".to_vec())]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | where | what |
//! | --- | --- |
//! | [`sqlite::SqliteStore`] | one folder on one machine; group commit, backups, a marker that tells a restored disk |
//! | [`memory::MemoryDisk`] | for tests and the simulator: crashes, tears, fails, fills, rots and goes back on command |
//! | [`record`] | versioned values, readable by every later version |
//! | [`StoreError`], [`TooLarge`] | what went wrong, by what there is to do |
//! | [`limits`] | every bound, and what happens at it |
//!
//! Choices. *Blocking*: the engine keeps calls off its own threads; with [`Store::submit`] no thread
//! waits at all. *Closed tables*: each is a promise between versions. *No reads inside a batch*: one
//! task owns each piece of protocol state, so nobody else can have changed it meanwhile. *Damaged
//! is not absent*: a record in quarantine goes on failing until it is written anew, since a lost
//! tombstone or idempotency key that reads as "never was" would do things twice.
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
mod seal;
pub mod sqlite;
mod store;
mod table;

pub use batch::{Batch, Write};
pub use cheops_model::record;
pub use error::{Bound, StoreError, TooLarge};
pub use incarnation::{Incarnation, Opening};
pub use key::{Key, KeyRange, Value};
pub use store::{Done, Page, Store};
pub use table::Table;
