//! Writers with numbered batches, and what a store has to hold of them.

use std::collections::BTreeMap;

use cheops_store::{Batch, KeyRange, Store, Table};

pub const WRITERS: u8 = 4;
const TABLES: [Table; 2] = [Table::Log, Table::Outbox];
/// Each batch takes away the number this far back, so that the disk stays small.
const KEPT: u64 = 24;

/// The last number of each writer that was acknowledged.
pub type Told = BTreeMap<u8, u64>;

/// Commits `count` batches of every writer, going on after what is there, and says each.
pub fn run(store: &impl Store, count: u64, say: impl Fn(u8, u64) + Sync) {
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let say = &say;
            scope.spawn(move || {
                let last = last(store, Table::Log, writer).unwrap();
                let first = last.map_or(0, |last| last + 1);
                for number in first..first + count {
                    store.commit(batch(writer, number)).unwrap();
                    say(writer, number);
                }
            });
        }
    });
}

/// What `store` holds; a complaint if it is less than `told`, or not whole.
pub fn check(store: &impl Store, told: &Told) -> Result<Told, String> {
    let mut found = Told::new();
    for writer in 0..WRITERS {
        let lasts = TABLES.map(|table| last(store, table, writer));
        let [log, outbox] = lasts;
        let (log, outbox) = (log?, outbox?);
        if log != outbox {
            return Err(format!(
                "half a batch of writer {writer}: {log:?}, {outbox:?}"
            ));
        }
        if log < told.get(&writer).copied() {
            return Err(format!(
                "writer {writer} was told {:?}: {log:?}",
                told.get(&writer)
            ));
        }
        found.extend(log.map(|last| (writer, last)));
    }
    Ok(found)
}

/// The last number of `writer`, if the ones before it are there as they should be.
fn last(store: &impl Store, table: Table, writer: u8) -> Result<Option<u64>, String> {
    let page = store.scan(table, KeyRange::prefix(&[writer]), 1000);
    let entries = page.map_err(|error| error.to_string())?.entries;
    let Some((key, _)) = entries.last() else {
        return Ok(None);
    };
    let last = u64::from_be_bytes(key[1..].try_into().unwrap());
    let first = (last + 1).saturating_sub(KEPT);
    let wanted: Vec<_> = (first..=last)
        .map(|n| (name(writer, n), content(n)))
        .collect();
    match entries == wanted {
        true => Ok(Some(last)),
        false => Err(format!("gaps before {last} of writer {writer} in {table}")),
    }
}

fn batch(writer: u8, number: u64) -> Batch {
    let mut batch = Batch::new();
    for table in TABLES {
        batch
            .put(table, name(writer, number), content(number))
            .unwrap();
        if let Some(old) = number.checked_sub(KEPT) {
            batch.delete(table, name(writer, old)).unwrap();
        }
    }
    batch
}

fn name(writer: u8, number: u64) -> Vec<u8> {
    [&[writer][..], &number.to_be_bytes()].concat()
}

fn content(number: u64) -> Vec<u8> {
    vec![number.to_le_bytes()[0]; usize::try_from(number * 997 % 12_000).unwrap()]
}
