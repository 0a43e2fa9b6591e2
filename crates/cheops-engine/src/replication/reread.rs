//! What the core reads from the disk: at a start, and of what it does not keep in memory.

use std::sync::{Arc, Mutex};

use cheops_core::eventual::{Archive, Reader};
use cheops_core::{Operation, Table};
use cheops_store::KeyRange;

use super::disk::{Disk, DiskFault, key_in};
use super::wire::{Asked, decode};

/// What a start reads: the rest has a mark, and is read when it is needed.
const AT_START: [Table; 4] = [Table::Site, Table::Marks, Table::Answers, Table::Outbox];

/// What it reads where there are replicants without one.
const UNMARKED: [Table; 6] = [
    Table::Site,
    Table::Marks,
    Table::Replicants,
    Table::Log,
    Table::Answers,
    Table::Outbox,
];

/// The records of one shard. A fault is kept until it is asked for: whatever was decided after it does not count.
pub(super) struct Reread {
    disk: Arc<Disk>,
    shard: u8,
    fault: Mutex<Option<DiskFault>>,
}

impl Reread {
    pub(super) fn new(disk: Arc<Disk>, shard: u8) -> Reread {
        Reread {
            disk,
            shard,
            fault: Mutex::new(None),
        }
    }

    /// What went wrong since this was last asked.
    pub(super) fn take_fault(&self) -> Option<DiskFault> {
        let mut fault = self.fault.lock().unwrap_or_else(|e| e.into_inner());
        fault.take()
    }

    /// What a start needs, page by page.
    pub(super) fn at_start(
        &self,
    ) -> Result<impl Iterator<Item = (Table, Vec<u8>, Vec<u8>)>, DiskFault> {
        let tables = match self.disk.is_marked(self.shard)? {
            true => &AT_START[..],
            false => &UNMARKED[..],
        };
        let of = |table: &Table| {
            let table = *table;
            let pages = self.pages(table, b"");
            pages.flat_map(move |page| {
                page.into_iter()
                    .map(move |(key, value)| (table, key, value))
            })
        };
        Ok(tables.iter().flat_map(of))
    }

    fn pages(&self, table: Table, prefix: &[u8]) -> impl Iterator<Item = Vec<(Vec<u8>, Vec<u8>)>> {
        let mut range = Some(KeyRange::prefix(&key_in(self.shard, table, prefix)));
        std::iter::from_fn(move || {
            let found = self.keep(self.disk.page(self.shard, table, range.take()?))?;
            range = found.next;
            Some(found.entries)
        })
    }

    fn keep<T>(&self, read: Result<T, DiskFault>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(fault) => {
                *self.fault.lock().unwrap_or_else(|e| e.into_inner()) = Some(fault);
                None
            }
        }
    }
}

impl Archive for Reread {
    fn read(&self, table: Table, prefix: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        if table != Table::Log {
            let value = self.keep(self.disk.get(self.shard, table, prefix))?;
            return Some(
                value
                    .into_iter()
                    .map(|value| (prefix.to_vec(), value))
                    .collect(),
            );
        }
        let found = self.pages(table, prefix).flatten().collect();
        let fault = self.fault.lock().unwrap_or_else(|e| e.into_inner());
        fault.is_none().then_some(found)
    }
}

/// What the core cannot tell of a request by itself.
pub(super) fn reader() -> Reader {
    Reader {
        kind: |op: &Operation| {
            decode::<Asked>(&op.rest).map_or_else(String::new, |asked| asked.kind)
        },
        is_content: |value| value.starts_with("blake3:"),
    }
}
