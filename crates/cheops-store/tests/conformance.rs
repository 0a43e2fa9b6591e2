//! What every store does: one suite, run for each of them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::thread;

use cheops_store::limits::{KEY_BYTES_MAX, PAGE_BYTES_MAX, PAGE_ENTRIES_MAX, VALUE_BYTES_MAX};
use cheops_store::{Batch, KeyRange, Opening, Store, StoreError, Table};
use common::{MemoryRig, Rig, SqliteRig, puts, read_all};

macro_rules! conformance {
    ($($behaviour:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $behaviour() { super::$behaviour::<super::MemoryRig>(); })*
        }
        mod sqlite {
            $(#[test] fn $behaviour() { super::$behaviour::<super::SqliteRig>(); })*
        }
    };
}

conformance![
    a_batch_is_stored_whole_and_its_last_write_wins,
    tables_do_not_meet,
    keys_come_in_byte_order,
    a_scan_goes_on_where_its_page_ended,
    a_page_ends_at_its_bounds,
    a_prefix_gives_what_begins_with_it,
    an_empty_or_backward_range_holds_nothing,
    deleting_what_is_not_there_is_no_fault,
    the_largest_keys_and_values_fit,
    what_was_committed_is_there_after_reopening,
    whoever_committed_reads_it_at_once,
    batches_of_concurrent_writers_are_never_mixed,
    batches_of_one_thread_are_stored_in_its_order,
    a_full_disk_refuses_writes_and_serves_reads,
    a_damaged_record_is_named_and_the_others_serve,
    a_quarantined_key_is_never_read_as_one_that_never_was,
    writing_a_key_mends_it,
    a_sound_record_does_not_go_into_quarantine,
    a_restored_store_is_as_it_was_and_a_new_incarnation,
];

fn a_batch_is_stored_whole_and_its_last_write_wins<R: Rig>() {
    let rig = R::new();
    let mut batch = puts(&[(b"a", b"1"), (b"b", b"1"), (b"a", b"2")]);
    batch.delete(Table::Log, b"b").unwrap();
    batch.put(Table::Meta, b"a", b"3").unwrap();
    rig.store().commit(batch).unwrap();
    let get = |table, key: &[u8]| rig.store().get(table, key).unwrap();
    assert_eq!(get(Table::Log, b"a"), Some(b"2".to_vec()));
    assert_eq!(get(Table::Log, b"b"), None);
    assert_eq!(get(Table::Meta, b"a"), Some(b"3".to_vec()));
    rig.store().commit(Batch::new()).unwrap();
}

fn tables_do_not_meet<R: Rig>() {
    let rig = R::new();
    for table in Table::ALL {
        let mut batch = Batch::new();
        batch.put(table, b"key", table.name()).unwrap();
        rig.store().commit(batch).unwrap();
    }
    for table in Table::ALL {
        let all = read_all(rig.store(), table, KeyRange::all(), 10);
        assert_eq!(all, [(b"key".to_vec(), table.name().into())]);
    }
}

fn keys_come_in_byte_order<R: Rig>() {
    let rig = R::new();
    let mut keys: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\0".to_vec(),
        b"\0\0".to_vec(),
        b"A".to_vec(),
        b"a".to_vec(),
        b"a\0".to_vec(),
        b"a\xff".to_vec(),
        b"b".to_vec(),
        b"\x80".to_vec(),
        b"\xff".to_vec(),
        b"\xff\xff".to_vec(),
    ];
    for key in keys.iter().rev() {
        rig.store().commit(puts(&[(key, b"")])).unwrap();
    }
    keys.sort();
    let found = read_all(rig.store(), Table::Log, KeyRange::all(), 3);
    let found: Vec<Vec<u8>> = found.into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, keys);
}

fn a_scan_goes_on_where_its_page_ended<R: Rig>() {
    let rig = R::new();
    let names: Vec<Vec<u8>> = (0..25u8).map(|n| vec![b'k', n]).collect();
    for name in &names {
        rig.store().commit(puts(&[(name, b"v")])).unwrap();
    }
    for limit in [0, 1, 2, 7, 24, 25, 26, usize::MAX] {
        let all = read_all(rig.store(), Table::Log, KeyRange::all(), limit);
        assert_eq!(all.len(), names.len(), "in pages of {limit}");
    }
    let page = rig.store().scan(Table::Log, KeyRange::all(), 25).unwrap();
    assert_eq!((page.entries.len(), page.next), (25, None));
    let range = KeyRange::between(&[b'k', 3], &[b'k', 9]);
    let middle = read_all(rig.store(), Table::Log, range, 4);
    assert_eq!(middle.len(), 6);
    assert_eq!((&middle[0].0, &middle[5].0), (&names[3], &names[8]));
}

fn a_page_ends_at_its_bounds<R: Rig>() {
    let rig = R::new();
    let heavy = vec![7; VALUE_BYTES_MAX];
    for n in 0..6u8 {
        rig.store().commit(puts(&[(&[n], &heavy)])).unwrap();
    }
    let page = rig.store().scan(Table::Log, KeyRange::all(), 100).unwrap();
    assert_eq!(page.entries.len(), PAGE_BYTES_MAX / VALUE_BYTES_MAX);
    assert!(page.next.is_some());

    let mut many = Batch::new();
    for n in 0..=PAGE_ENTRIES_MAX as u32 {
        many.put(Table::Sites, n.to_be_bytes(), b"").unwrap();
    }
    rig.store().commit(many).unwrap();
    let page = rig.store().scan(Table::Sites, KeyRange::all(), usize::MAX);
    let page = page.unwrap();
    assert_eq!(page.entries.len(), PAGE_ENTRIES_MAX);
    assert!(page.next.is_some());
}

fn a_prefix_gives_what_begins_with_it<R: Rig>() {
    let rig = R::new();
    let batch = puts(&[
        (b"a", b""),
        (b"ab", b""),
        (b"ab\xff\xff", b""),
        (b"abc", b""),
        (b"ac", b""),
        (b"\xff", b""),
        (b"\xff\xff1", b""),
    ]);
    rig.store().commit(batch).unwrap();
    let begins =
        |prefix: &[u8]| read_all(rig.store(), Table::Log, KeyRange::prefix(prefix), 2).len();
    assert_eq!(begins(b"ab"), 3);
    assert_eq!(begins(b"\xff"), 2);
    assert_eq!(begins(b"\xff\xff"), 1);
    assert_eq!(begins(b"x"), 0);
    assert_eq!(begins(b""), 7);
}

fn an_empty_or_backward_range_holds_nothing<R: Rig>() {
    let rig = R::new();
    rig.store().commit(puts(&[(b"b", b"")])).unwrap();
    for (from, until) in [(b"b", b"b"), (b"c", b"a")] {
        let range = KeyRange::between(from, until);
        assert_eq!(read_all(rig.store(), Table::Log, range, 10), []);
    }
    let range = KeyRange::starting_at(b"b");
    assert_eq!(read_all(rig.store(), Table::Log, range, 10).len(), 1);
}

fn deleting_what_is_not_there_is_no_fault<R: Rig>() {
    let rig = R::new();
    let mut batch = Batch::new();
    batch.delete(Table::Log, b"never").unwrap();
    rig.store().commit(batch).unwrap();
    assert_eq!(rig.store().get(Table::Log, b"never").unwrap(), None);
}

fn the_largest_keys_and_values_fit<R: Rig>() {
    let mut rig = R::new();
    let (key, value) = (vec![0xff; KEY_BYTES_MAX], vec![0xa5; VALUE_BYTES_MAX]);
    rig.store()
        .commit(puts(&[(&key, &value), (b"", b"")]))
        .unwrap();
    rig.reopen();
    assert_eq!(
        rig.store().get(Table::Log, &key).unwrap(),
        Some(value.clone())
    );
    assert_eq!(rig.store().get(Table::Log, b"").unwrap(), Some(vec![]));
    let all = read_all(rig.store(), Table::Log, KeyRange::all(), 1);
    assert_eq!(all, [(vec![], vec![]), (key, value)]);
}

fn what_was_committed_is_there_after_reopening<R: Rig>() {
    let mut rig = R::new();
    assert_eq!(rig.opening(), Opening::Created);
    let incarnation = rig.store().incarnation();
    rig.store().commit(puts(&[(b"k", b"v")])).unwrap();
    for _ in 0..3 {
        rig.reopen();
        assert_eq!(rig.opening(), Opening::Continued);
        assert_eq!(rig.store().incarnation(), incarnation);
        assert_eq!(
            rig.store().get(Table::Log, b"k").unwrap(),
            Some(b"v".to_vec())
        );
    }
}

fn whoever_committed_reads_it_at_once<R: Rig>() {
    let rig = R::new();
    let store = rig.store();
    thread::scope(|scope| {
        for writer in 0..8u8 {
            scope.spawn(move || {
                for n in 0..20u8 {
                    store.commit(puts(&[(&[writer], &[n])])).unwrap();
                    assert_eq!(store.get(Table::Log, &[writer]).unwrap(), Some(vec![n]));
                }
            });
        }
    });
}

fn batches_of_concurrent_writers_are_never_mixed<R: Rig>() {
    let rig = R::new();
    let store = rig.store();
    store
        .commit(puts(&[(b"a", &[0]), (b"b", &[0]), (b"c", &[0])]))
        .unwrap();
    thread::scope(|scope| {
        for writer in 1..=8u8 {
            scope.spawn(move || {
                for _ in 0..15 {
                    let value = [writer];
                    store
                        .commit(puts(&[(b"a", &value), (b"b", &value), (b"c", &value)]))
                        .unwrap();
                    let page = store.scan(Table::Log, KeyRange::all(), 10).unwrap();
                    let values: Vec<_> = page.entries.iter().map(|(_, value)| value).collect();
                    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
                }
            });
        }
    });
}

fn batches_of_one_thread_are_stored_in_its_order<R: Rig>() {
    let rig = R::new();
    let (told, heard) = std::sync::mpsc::channel();
    for n in 0..200u8 {
        let told = told.clone();
        let done =
            Box::new(move |stored: Result<(), StoreError>| told.send((n, stored.is_ok())).unwrap());
        rig.store().submit(puts(&[(b"last", &[n])]), done);
    }
    drop(told);
    let heard: Vec<(u8, bool)> = heard.iter().collect();
    assert_eq!(heard, (0..200).map(|n| (n, true)).collect::<Vec<_>>());
    assert_eq!(
        rig.store().get(Table::Log, b"last").unwrap(),
        Some(vec![199])
    );
}

fn a_full_disk_refuses_writes_and_serves_reads<R: Rig>() {
    let rig = R::new();
    let large = vec![1; 100_000];
    let get = |key: &[u8]| rig.store().get(Table::Log, key).unwrap();
    let wanted = || puts(&[(b"old", b"2"), (b"new", &large)]);
    rig.store().commit(puts(&[(b"old", b"1")])).unwrap();
    rig.fill();
    for _ in 0..3 {
        let refused = rig.store().commit(wanted());
        let Err(StoreError::Full { needed_bytes }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(needed_bytes, wanted().bytes());
        assert_eq!((get(b"old"), get(b"new")), (Some(b"1".to_vec()), None));
    }
    rig.make_room();
    rig.store().commit(wanted()).unwrap();
    assert_eq!(get(b"old"), Some(b"2".to_vec()));
}

#[track_caller]
fn assert_corrupt<T: std::fmt::Debug>(outcome: Result<T, StoreError>, key: &[u8]) {
    match outcome {
        Err(StoreError::Corrupt {
            table: Table::Log,
            key: named,
        }) => assert_eq!(named, key),
        other => panic!("{other:?}"),
    }
}

fn damaged<R: Rig>() -> R {
    let rig = R::new();
    rig.store()
        .commit(puts(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]))
        .unwrap();
    rig.flip_bit(Table::Log, b"b", 5);
    rig
}

fn a_damaged_record_is_named_and_the_others_serve<R: Rig>() {
    let rig: R = damaged();
    assert_corrupt(rig.store().get(Table::Log, b"b"), b"b");
    assert_corrupt(rig.store().scan(Table::Log, KeyRange::all(), 10), b"b");
    assert_eq!(
        rig.store().get(Table::Log, b"a").unwrap(),
        Some(b"1".to_vec())
    );
    rig.store().commit(puts(&[(b"d", b"4")])).unwrap();
    rig.store().quarantine(Table::Log, b"b").unwrap();
    let all = read_all(rig.store(), Table::Log, KeyRange::all(), 2);
    let keys: Vec<_> = all.iter().map(|(key, _)| key.as_slice()).collect();
    assert_eq!(keys, [b"a", b"c", b"d"]);
}

fn a_quarantined_key_is_never_read_as_one_that_never_was<R: Rig>() {
    let mut rig: R = damaged();
    rig.store().quarantine(Table::Log, b"b").unwrap();
    rig.store().quarantine(Table::Log, b"b").unwrap();
    for _ in 0..2 {
        assert_corrupt(rig.store().get(Table::Log, b"b"), b"b");
        let quarantined = rig.store().quarantined().unwrap();
        assert_eq!(quarantined, [(Table::Log, b"b".to_vec())]);
        rig.reopen();
    }
}

fn writing_a_key_mends_it<R: Rig>() {
    let mut rig: R = damaged();
    rig.store().quarantine(Table::Log, b"b").unwrap();
    rig.store().commit(puts(&[(b"b", b"mended")])).unwrap();
    rig.reopen();
    assert_eq!(
        rig.store().get(Table::Log, b"b").unwrap(),
        Some(b"mended".to_vec())
    );
    assert_eq!(rig.store().quarantined().unwrap(), []);

    rig.flip_bit(Table::Log, b"c", 0);
    rig.store().quarantine(Table::Log, b"c").unwrap();
    let mut forget = Batch::new();
    forget.delete(Table::Log, b"c").unwrap();
    rig.store().commit(forget).unwrap();
    assert_eq!(rig.store().get(Table::Log, b"c").unwrap(), None);
    assert_eq!(rig.store().quarantined().unwrap(), []);
}

fn a_sound_record_does_not_go_into_quarantine<R: Rig>() {
    let rig = R::new();
    rig.store().commit(puts(&[(b"a", b"1")])).unwrap();
    rig.store().quarantine(Table::Log, b"a").unwrap();
    rig.store().quarantine(Table::Log, b"nothing").unwrap();
    assert_eq!(
        rig.store().get(Table::Log, b"a").unwrap(),
        Some(b"1".to_vec())
    );
    assert_eq!(rig.store().quarantined().unwrap(), []);
}

fn a_restored_store_is_as_it_was_and_a_new_incarnation<R: Rig>() {
    let mut rig = R::new();
    rig.store().commit(puts(&[(b"a", b"then")])).unwrap();
    let backup = rig.backup();
    let before = rig.store().incarnation();
    rig.store()
        .commit(puts(&[(b"a", b"now"), (b"b", b"now")]))
        .unwrap();
    rig.restore(&backup);
    assert!(rig.opening().is_new_incarnation());
    let after = rig.store().incarnation();
    assert_ne!(after, before);
    let all = read_all(rig.store(), Table::Log, KeyRange::all(), 9);
    assert_eq!(all, [(b"a".to_vec(), b"then".to_vec())]);
    rig.store().commit(puts(&[(b"c", b"later")])).unwrap();
    rig.reopen();
    assert_eq!(rig.opening(), Opening::Continued);
    assert_eq!(rig.store().incarnation(), after);
}
