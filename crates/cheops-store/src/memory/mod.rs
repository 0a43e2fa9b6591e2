//! A store in memory, for tests and for the simulator: what a disk does, and what disks do to us.
//!
//! A [`MemoryDisk`] is what survives; a [`MemoryStore`] is one opening of it, dead after a crash.
//! Same seed, same calls: same bytes, same faults, same incarnations. A commit is written as one
//! frame with a checksum before it is applied, so that a torn one is really found and dropped.

mod disk;
mod frame;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard};

pub use disk::{Fault, Snapshot};

use crate::key::{Key, KeyRange, Value};
use crate::store::{Done, Page, Store};
use crate::{Batch, Incarnation, Opening, StoreError, Table};
use disk::Disk;

/// What survives a crash, and the handle by which faults are ordered.
#[derive(Clone)]
pub struct MemoryDisk(Arc<Mutex<Disk>>);

impl MemoryDisk {
    /// An empty disk; `seed` decides the incarnations.
    pub fn new(seed: u64) -> MemoryDisk {
        MemoryDisk(Arc::new(Mutex::new(Disk::new(seed))))
    }

    /// Starts a process on this disk: the one before it, if it still runs, is dead from now on.
    pub fn open(&self) -> MemoryStore {
        let mut disk = self.lock();
        let opening = disk.open();
        MemoryStore {
            disk: self.clone(),
            life: disk.life(),
            incarnation: disk.incarnation(),
            opening,
        }
    }

    /// Kills the process: whatever was committed stays.
    pub fn crash(&self) {
        self.lock().stop();
    }

    /// Orders what happens to the next commit.
    pub fn at_next_commit(&self, fault: Fault) {
        self.lock().order(fault);
    }

    /// From now on commits find no room.
    pub fn fill(&self) {
        self.lock().set_full(true);
    }

    /// From now on they find room again.
    pub fn make_room(&self) {
        self.lock().set_full(false);
    }

    /// Flips one bit of a stored value (`bit` is taken modulo its length). A panic if there is no
    /// such value, or nothing in it to flip: the test asks for what cannot be.
    pub fn flip_bit(&self, table: Table, key: &[u8], bit: usize) {
        self.lock().flip_bit(table, key, bit);
    }

    /// A copy of what is on the disk.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().snapshot()
    }

    /// Kills the process and puts the disk back to `snapshot`; the next opening is a new
    /// incarnation.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.lock().restore(snapshot);
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0
            .lock()
            .expect("no call on the disk panics half-way through a change")
    }
}

/// One opening of a [`MemoryDisk`].
pub struct MemoryStore {
    disk: MemoryDisk,
    life: u64,
    incarnation: Incarnation,
    opening: Opening,
}

impl MemoryStore {
    /// What opening found.
    pub fn opening(&self) -> Opening {
        self.opening
    }

    fn alive(&self) -> Result<MutexGuard<'_, Disk>, StoreError> {
        let disk = self.disk.lock();
        if disk.life() != self.life || !disk.is_running() {
            return Err(StoreError::unusable("the process on this disk has ended"));
        }
        Ok(disk)
    }
}

impl Store for MemoryStore {
    fn submit(&self, batch: Batch, done: Done) {
        // The lock is gone when `done` runs.
        let stored = self.alive().and_then(|mut disk| disk.commit(&batch));
        done(stored);
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Value>, StoreError> {
        self.alive()?.get(table, key)
    }

    fn scan(&self, table: Table, range: KeyRange, limit: usize) -> Result<Page, StoreError> {
        self.alive()?.scan(table, range, limit)
    }

    fn quarantine(&self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.alive()?.quarantine(table, key)
    }

    fn quarantined(&self) -> Result<Vec<(Table, Key)>, StoreError> {
        Ok(self.alive()?.quarantined())
    }

    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
}
