//! A rig: one kind of store, and what a test has to be able to do to its disk.

// Each test program uses some of it.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use cheops_store::memory::{MemoryDisk, MemoryStore, Snapshot};
use cheops_store::sqlite::{SqliteStore, restore};
use cheops_store::{Batch, Key, KeyRange, Opening, Store, Table, Value};
use tempfile::TempDir;

pub trait Rig: Sized {
    type Store: Store;
    type Backup;

    fn new() -> Self;
    fn store(&self) -> &Self::Store;
    fn opening(&self) -> Opening;
    fn reopen(&mut self);
    /// From now on a value of 100,000 bytes finds no room.
    fn fill(&self);
    fn make_room(&self);
    fn flip_bit(&self, table: Table, key: &[u8], bit: usize);
    fn backup(&self) -> Self::Backup;
    fn restore(&mut self, backup: &Self::Backup);
}

pub struct MemoryRig {
    disk: MemoryDisk,
    store: MemoryStore,
}

impl Rig for MemoryRig {
    type Store = MemoryStore;
    type Backup = Snapshot;

    fn new() -> MemoryRig {
        let disk = MemoryDisk::new(1);
        let store = disk.open();
        MemoryRig { disk, store }
    }

    fn store(&self) -> &MemoryStore {
        &self.store
    }

    fn opening(&self) -> Opening {
        self.store.opening()
    }

    fn reopen(&mut self) {
        self.disk.crash();
        self.store = self.disk.open();
    }

    fn fill(&self) {
        self.disk.fill();
    }

    fn make_room(&self) {
        self.disk.make_room();
    }

    fn flip_bit(&self, table: Table, key: &[u8], bit: usize) {
        self.disk.flip_bit(table, key, bit);
    }

    fn backup(&self) -> Snapshot {
        self.disk.snapshot()
    }

    fn restore(&mut self, backup: &Snapshot) {
        self.disk.restore(backup);
        self.store = self.disk.open();
    }
}

pub struct SqliteRig {
    folder: TempDir,
    store: Option<SqliteStore>,
}

impl SqliteRig {
    pub fn folder(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub fn close(&mut self) {
        self.store = None;
    }
}

impl Rig for SqliteRig {
    type Store = SqliteStore;
    type Backup = PathBuf;

    fn new() -> SqliteRig {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("store")).unwrap();
        let store = Some(store);
        SqliteRig { folder, store }
    }

    fn store(&self) -> &SqliteStore {
        self.store.as_ref().unwrap()
    }

    fn opening(&self) -> Opening {
        self.store().opening()
    }

    fn reopen(&mut self) {
        self.close();
        self.store = Some(SqliteStore::open(&self.folder()).unwrap());
    }

    fn fill(&self) {
        self.store().bound_bytes(0).unwrap();
    }

    fn make_room(&self) {
        self.store().bound_bytes(u64::MAX).unwrap();
    }

    fn flip_bit(&self, table: Table, key: &[u8], bit: usize) {
        flip_bit(&self.folder().join("store.db"), table, key, bit);
    }

    fn backup(&self) -> PathBuf {
        let to = self.folder.path().join("backup.db");
        self.store().backup(&to).unwrap();
        to
    }

    fn restore(&mut self, backup: &PathBuf) {
        self.close();
        restore(&self.folder(), backup).unwrap().unwrap();
        self.reopen();
    }
}

/// Damages a value as a disk would, behind the back of the store.
pub fn flip_bit(database: &Path, table: Table, key: &[u8], bit: usize) {
    let connection = rusqlite::Connection::open(database).unwrap();
    connection
        .busy_timeout(std::time::Duration::from_secs(5))
        .unwrap();
    let get = format!("SELECT value FROM {table} WHERE key = ?1");
    let mut value: Vec<u8> = connection.query_row(&get, [key], |row| row.get(0)).unwrap();
    let bit = bit % (value.len() * 8);
    value[bit / 8] ^= 1 << (bit % 8);
    let set = format!("UPDATE {table} SET value = ?2 WHERE key = ?1");
    connection
        .execute(&set, rusqlite::params![key, value])
        .unwrap();
}

/// A batch that puts `(key, value)`s into the log.
pub fn puts(pairs: &[(&[u8], &[u8])]) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in pairs {
        batch.put(Table::Log, *key, *value).unwrap();
    }
    batch
}

/// All that a table holds in `range`, read in pages of `limit`.
pub fn read_all(
    store: &impl Store,
    table: Table,
    range: KeyRange,
    limit: usize,
) -> Vec<(Key, Value)> {
    let mut entries = Vec::new();
    let mut next = Some(range);
    while let Some(range) = next {
        let page = store.scan(table, range, limit).unwrap();
        assert!(page.entries.len() <= limit.max(1));
        entries.extend(page.entries);
        next = page.next;
    }
    entries
}
