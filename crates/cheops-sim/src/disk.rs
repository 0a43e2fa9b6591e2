//! A disk: batches are durable when committed, whole or not at all. It can be put back to what it was.

use std::collections::BTreeMap;

use cheops_core::{Change, Table};

/// What is on it.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    rows: BTreeMap<(Table, Vec<u8>), Vec<u8>>,
}

impl Disk {
    /// Applies a batch.
    pub fn commit(&mut self, changes: Vec<Change>) {
        for change in changes {
            let key = (change.table, change.key);
            match change.value {
                Some(value) => _ = self.rows.insert(key, value),
                None => _ = self.rows.remove(&key),
            }
        }
    }

    /// Everything, in order.
    pub fn read(&self) -> Vec<(Table, Vec<u8>, Vec<u8>)> {
        self.rows
            .iter()
            .map(|((table, key), value)| (*table, key.clone(), value.clone()))
            .collect()
    }

    /// The keys of one table.
    pub fn keys(&self, table: Table) -> impl Iterator<Item = &Vec<u8>> {
        self.rows
            .keys()
            .filter(move |(other, _)| *other == table)
            .map(|(_, key)| key)
    }
}
