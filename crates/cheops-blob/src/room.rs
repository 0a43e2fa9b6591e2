//! How much contents may take, and how much they do.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::BlobError;
use crate::limits::DISK_RESERVE_BYTES;

/// How much room there is for contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// All of the disk but [`DISK_RESERVE_BYTES`].
    #[default]
    Disk,
    /// That many bytes, and no more than the disk has.
    Bytes(u64),
}

/// What is taken. What is being written counts as well.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    taken: AtomicU64,
    max: AtomicU64,
}

impl Usage {
    pub(crate) fn new(room: Room) -> Usage {
        let usage = Usage::default();
        usage.set_room(room);
        usage
    }

    pub(crate) fn set_room(&self, room: Room) {
        let max = match room {
            Room::Disk => u64::MAX,
            Room::Bytes(max) => max,
        };
        self.max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self, bytes: u64) -> Result<(), BlobError> {
        let max = self.max.load(Ordering::Relaxed);
        let grown = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= max);
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        taken.map(drop).map_err(|_| BlobError::Full)
    }

    /// What is there, whatever the bound says now.
    pub(crate) fn found(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        let less = |taken: u64| Some(taken.saturating_sub(bytes));
        let _ = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Whether that many more would fit, without taking them.
    pub(crate) fn check(&self, folder: &Path, bytes: u64) -> Result<(), BlobError> {
        let max = self.max.load(Ordering::Relaxed);
        let fits = self.taken().saturating_add(bytes) <= max;
        let disk = rustix::fs::statvfs(folder).map_err(std::io::Error::from)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        match fits && free.saturating_sub(bytes) > DISK_RESERVE_BYTES {
            true => Ok(()),
            false => Err(BlobError::Full),
        }
    }
}
