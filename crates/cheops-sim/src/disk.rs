//! A disk: the store in memory that agents are tested with. It tears the write an agent stops in, and can be put back
//! to what it was; what is read from it has gone through the same trait as on a real one.

use cheops_core::{Change, Table};
use cheops_store::memory::{Fault, MemoryDisk, MemoryStore, Snapshot};
use cheops_store::{Batch, KeyRange, Store};

const TABLES: [Table; 5] = [
    Table::Site,
    Table::Replicants,
    Table::Log,
    Table::Answers,
    Table::Outbox,
];

/// Entries in one read: small, so that pages are turned.
const PAGE: usize = 64;

/// What is on it.
pub struct Disk {
    disk: MemoryDisk,
    store: MemoryStore,
}

impl Disk {
    /// An empty one.
    pub fn new(seed: u64) -> Disk {
        let disk = MemoryDisk::new(seed);
        let store = disk.open();
        Disk { disk, store }
    }

    /// An agent starts on it.
    pub fn open(&mut self) {
        self.store = self.disk.open();
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

    /// Everything, in order.
    pub fn read(&self) -> Vec<(Table, Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        for table in TABLES {
            let mut range = Some(KeyRange::all());
            while let Some(next) = range {
                let page = self.store.scan(place(table), next, PAGE);
                let page = page.expect("nothing was ordered to go wrong");
                let entry = |(key, value)| (table, key, value);
                found.extend(page.entries.into_iter().map(entry));
                range = page.next;
            }
        }
        found
    }

    /// The keys of one table.
    pub fn keys(&self, table: Table) -> impl Iterator<Item = Vec<u8>> {
        let all = self.read().into_iter();
        all.filter(move |(of, ..)| *of == table)
            .map(|(_, key, _)| key)
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

fn place(table: Table) -> cheops_store::Table {
    match table {
        Table::Site => cheops_store::Table::Sites,
        Table::Replicants => cheops_store::Table::Replicants,
        Table::Log => cheops_store::Table::Log,
        Table::Answers => cheops_store::Table::Idempotency,
        Table::Outbox => cheops_store::Table::Outbox,
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
