//! Bounds of the blob store, each with its reason and with what happens at it.

/// What is checked, sent and resumed as one. A power of two, so that a chunk is a subtree of BLAKE3; small enough that
/// little is sent twice after a cut, large enough that its sum costs nothing beside it.
pub const CHUNK_BYTES: usize = 1 << 20;

/// The longest content: its sums are held in memory while it moves, 8 MiB of them. Beyond: 413.
pub const BLOB_BYTES_MAX: u64 = 256 << 30;

/// Left free on the disk whatever comes: the records need it. Beyond: no room.
pub const DISK_RESERVE_BYTES: u64 = 256 << 20;

/// Written between two looks at the disk, and between two syncs: the last sync of a long content, which somebody waits
/// for, has little left to do.
pub(crate) const SYNC_EVERY_BYTES: u64 = 32 << 20;
