//! A disk: the store in memory that agents are tested with. It tears the write an agent stops in, and can be put back
//! to what it was; what is read from it has gone through the same trait as on a real one.

use std::sync::Arc;

use cheops_core::eventual::Archive;
use cheops_core::{Change, Table};
use cheops_store::memory::{Fault, MemoryDisk, MemoryStore, Snapshot};
use cheops_store::{Batch, KeyRange, Store};

/// What an agent reads when it starts; the rest it reads when it needs it.
const AT_START: [Table; 4] = [Table::Site, Table::Marks, Table::Answers, Table::Outbox];

/// Entries in one read: small, so that pages are turned.
const PAGE: usize = 64;

/// What is on it.
pub struct Disk {
    disk: MemoryDisk,
    store: Arc<MemoryStore>,
}

impl Disk {
    /// An empty one.
    pub fn new(seed: u64) -> Disk {
        let disk = MemoryDisk::new(seed);
        let store = Arc::new(disk.open());
        Disk { disk, store }
    }

    /// An agent starts on it.
    pub fn open(&mut self) {
        self.store = Arc::new(self.disk.open());
    }

    /// Applies a batch.
    pub fn commit(&self, changes: Vec<Change>) {
        let stored = self.store.commit(batch(changes));
        stored.expect("nothing was ordered to go wrong");
    }

    /// The agent stops when it has written so many bytes: the batch is torn, and is not there afterwards.
    pub fn tear(&self, changes: Vec<Change>, bytes: usize) {
        self.disk.at_next_commit(Fault::CrashDuring { bytes });
        let stored = self.store.commit(batch(changes));
        assert!(stored.is_err(), "a torn batch is not acknowledged");
    }

    /// The agent stops.
    pub fn crash(&self) {
        self.disk.crash();
    }

    /// What a start needs, in order.
    pub fn read(&self) -> Vec<(Table, Vec<u8>, Vec<u8>)> {
        let of = |table| {
            let entries = scan(&self.store, table, KeyRange::all()).into_iter();
            entries.map(move |(key, value)| (table, key, value))
        };
        AT_START.into_iter().flat_map(of).collect()
    }

    /// Reads back the rest, for as long as this run lasts.
    pub fn archive(&self) -> Arc<dyn Archive> {
        Arc::new(Shelved(self.store.clone()))
    }

    /// The keys of one table.
    pub fn keys(&self, table: Table) -> impl Iterator<Item = Vec<u8>> {
        let all = scan(&self.store, table, KeyRange::all()).into_iter();
        all.map(|(key, _)| key)
    }

    /// A copy of what is on it.
    pub fn back_up(&self) -> Snapshot {
        self.disk.snapshot()
    }

    /// Puts it back to what it was.
    pub fn put_back(&mut self, snapshot: &Snapshot) {
        self.disk.restore(snapshot);
    }
}

struct Shelved(Arc<MemoryStore>);

impl Archive for Shelved {
    fn read(&self, table: Table, prefix: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        Some(scan(&self.0, table, KeyRange::prefix(prefix)))
    }
}

fn scan(store: &MemoryStore, table: Table, range: KeyRange) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut found, mut range) = (Vec::new(), Some(range));
    while let Some(next) = range {
        let page = store.scan(place(table), next, PAGE);
        let page = page.expect("nothing was ordered to go wrong");
        found.extend(page.entries);
        range = page.next;
    }
    found
}

fn place(table: Table) -> cheops_store::Table {
    match table {
        Table::Site => cheops_store::Table::Sites,
        Table::Replicants => cheops_store::Table::Replicants,
        Table::Log => cheops_store::Table::Log,
        Table::Answers => cheops_store::Table::Idempotency,
        Table::Outbox => cheops_store::Table::Outbox,
        Table::Marks => cheops_store::Table::Meta,
    }
}

fn batch(changes: Vec<Change>) -> Batch {
    let mut batch = Batch::new();
    for change in changes {
        let table = place(change.table);
        let added = match change.value {
            Some(value) => batch.put(table, change.key, value),
            None => batch.delete(table, change.key),
        };
        added.expect("records of a simulated world are small");
    }
    batch
}
