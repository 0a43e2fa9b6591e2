//! Every bound of this crate, with its reason and with what happens at it.

use std::time::Duration;

/// A key. Ids, sites and positions fit many times over; what is longer (an idempotency key a
/// client made up) is hashed by its owner. Longer ones are refused: [`TooLarge`](crate::TooLarge).
pub const KEY_BYTES_MAX: usize = 512;

/// A value. Bodies over a threshold are files beside the store, never rows, so a record stays
/// small. Larger ones are refused: [`TooLarge`](crate::TooLarge).
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Writes of one batch: what one step of a protocol persists, not a bulk load. Further ones are
/// refused: [`TooLarge`](crate::TooLarge). Long work (forgetting a queue) goes batch by batch.
pub const BATCH_WRITES_MAX: usize = 4096;

/// Keys and values of one batch together; what one caller may add to the wait of the others.
/// Further writes are refused: [`TooLarge`](crate::TooLarge).
pub const BATCH_BYTES_MAX: usize = 8 << 20;

/// Entries of one page of a scan. A larger wish is cut to this; the page says how to go on.
pub const PAGE_ENTRIES_MAX: usize = 1024;

/// Keys and values of one page, so that 1,024 values of 1 MiB are not one answer. The page ends
/// after the entry that reaches it and says how to go on.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// Batches waiting for the writer. Whoever submits one more waits: the engine's own queues fill
/// and refuse before memory does.
pub const QUEUE_BATCHES_MAX: usize = 1024;

/// Keys and values waiting for the writer. Whoever submits more waits.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Batches in one transaction. Beyond this a sync is spread thin already, and the first of them
/// would wait for the last. The others go into the next one.
pub const GROUP_BATCHES_MAX: usize = 512;

/// Keys and values in one transaction; holds at least one largest batch. The others go into the
/// next one.
pub const GROUP_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX;

/// Connections that read at the same time; each holds file handles and a cache. One more reader
/// waits for one of them.
pub const READERS_MAX: usize = 8;

/// Records in quarantine. A few are a bit flip; this many are a dying disk, and one more makes the
/// store [`Unusable`](crate::StoreError::Unusable).
pub const QUARANTINE_MAX: usize = 1024;

/// Bytes committed between two checkpoints: the write-ahead log stays about this long, and
/// reopening reads no more than that.
pub const CHECKPOINT_BYTES: u64 = 4 << 20;

/// A write-ahead log this long was kept from starting over by readers: the writer waits for them
/// once, up to [`BUSY_DEADLINE`], then goes on and tries again [`CHECKPOINT_BYTES`] later.
pub const WAL_BYTES_MAX: u64 = 64 << 20;

/// How long a lock held by somebody else's tool is waited for; then `Io`: try again later.
pub const BUSY_DEADLINE: Duration = Duration::from_secs(5);

/// How far the marker beside the database may lag behind it: a copy younger than this, put in the
/// place of the database by hand, is not noticed. Shorter costs syncs.
pub const MARK_INTERVAL: Duration = Duration::from_secs(1);

/// Prepared statements kept by each connection: all that this crate has, with room.
pub(crate) const STATEMENTS_MAX: usize = 64;

/// What one connection keeps of the database in memory, in KiB.
pub(crate) const CACHE_KIB: i64 = 8 << 10;
