//! What a disk in memory does when it is told to.

use super::{Fault, MemoryDisk, MemoryStore};
use crate::{Batch, Opening, Store, StoreError, Table};

fn pair(value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(Table::Log, b"a", value).unwrap();
    batch.put(Table::Meta, b"b", value).unwrap();
    batch
}

/// What both keys hold; a panic if they differ.
fn held(store: &MemoryStore) -> Option<Vec<u8>> {
    let (log, meta) = (store.get(Table::Log, b"a"), store.get(Table::Meta, b"b"));
    let (log, meta) = (log.unwrap(), meta.unwrap());
    assert_eq!(log, meta, "half a batch");
    log
}

#[track_caller]
fn check(fault: Fault, survives: &[u8]) {
    let disk = MemoryDisk::new(7);
    let store = disk.open();
    store.commit(pair(b"old")).unwrap();
    disk.at_next_commit(fault);
    let told = store.commit(pair(b"new"));
    assert!(matches!(told, Err(StoreError::Unusable { .. })));
    assert!(store.get(Table::Log, b"a").is_err(), "dead is dead");
    let again = disk.open();
    assert_eq!(held(&again).as_deref(), Some(survives));
    assert_eq!(again.opening(), Opening::Continued);
    assert_eq!(again.incarnation(), store.incarnation());
    assert!(store.get(Table::Log, b"a").is_err(), "and stays dead");
}

#[test]
fn a_crash_at_any_point_leaves_the_old_or_the_new_batch_whole() {
    check(Fault::CrashBefore, b"old");
    for bytes in 0..64 {
        check(Fault::CrashDuring { bytes }, b"old");
    }
    check(Fault::CrashAfter, b"new");
    check(Fault::FailSync, b"old");
}

#[test]
fn a_failed_commit_leaves_nothing_and_the_next_one_works() {
    let disk = MemoryDisk::new(7);
    let store = disk.open();
    disk.at_next_commit(Fault::Fail);
    assert!(matches!(store.commit(pair(b"1")), Err(StoreError::Io(_))));
    assert_eq!(held(&store), None);
    store.commit(pair(b"2")).unwrap();
    assert_eq!(held(&store).as_deref(), Some(&b"2"[..]));
}

#[test]
fn the_same_seed_gives_the_same_incarnations_and_no_two_alike() {
    let lives = |seed| {
        let disk = MemoryDisk::new(seed);
        let empty = disk.snapshot();
        let first = disk.open().incarnation();
        disk.restore(&empty);
        [first, disk.open().incarnation()]
    };
    assert_eq!(lives(1), lives(1));
    assert_ne!(lives(1)[0], lives(1)[1]);
    assert_ne!(lives(1)[0], lives(2)[0]);
}
