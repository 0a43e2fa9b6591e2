//! Whatever is written, in whatever order: SQLite and memory answer the same.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use cheops_store::{Batch, KeyRange, Store, Table};
use common::{MemoryRig, Rig, SqliteRig};
use proptest::prelude::*;

/// One thing that a caller may do.
#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(Table, Vec<u8>, Option<Vec<u8>>)>),
    Get(Table, Vec<u8>),
    Scan(Table, KeyRange, usize),
    Damage(Table, Vec<u8>, usize),
    Quarantine(Table, Vec<u8>),
    Reopen,
}

fn table() -> impl Strategy<Value = Table> {
    prop::sample::select(vec![Table::Meta, Table::Log, Table::Outbox])
}

/// Few and short, so that they meet.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, b'a', b'b', 0xff]), 0..4)
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        1 => Just(None),
        3 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Some),
        1 => (1usize..20_000).prop_map(|length| Some(vec![7; length])),
    ]
}

fn range() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        Just(KeyRange::all()),
        key().prop_map(|key| KeyRange::prefix(&key)),
        key().prop_map(|key| KeyRange::starting_at(&key)),
        (key(), key()).prop_map(|(from, until)| KeyRange::between(&from, &until)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let commit = prop::collection::vec((table(), key(), value()), 0..8);
    prop_oneof![
        8 => commit.prop_map(Step::Commit),
        4 => (table(), key()).prop_map(|(table, key)| Step::Get(table, key)),
        4 => (table(), range(), 0usize..9).prop_map(|(table, range, limit)| Step::Scan(table, range, limit)),
        2 => (table(), key(), 0usize..999).prop_map(|(table, key, bit)| Step::Damage(table, key, bit)),
        2 => (table(), key()).prop_map(|(table, key)| Step::Quarantine(table, key)),
        1 => Just(Step::Reopen),
    ]
}

/// What the caller sees, as text: answers and errors alike.
fn run<R: Rig>(rig: &mut R, step: &Step) -> String {
    match step {
        Step::Commit(writes) => {
            let mut batch = Batch::new();
            for (table, key, value) in writes {
                match value {
                    Some(value) => batch.put(*table, key.as_slice(), value.as_slice()).unwrap(),
                    None => batch.delete(*table, key.as_slice()).unwrap(),
                };
            }
            format!("{:?}", rig.store().commit(batch))
        }
        Step::Get(table, key) => format!("{:?}", rig.store().get(*table, key)),
        Step::Scan(table, range, limit) => {
            format!("{:?}", rig.store().scan(*table, range.clone(), *limit))
        }
        Step::Damage(table, key, bit) => {
            let sound =
                matches!(rig.store().get(*table, key), Ok(Some(value)) if !value.is_empty());
            if sound {
                rig.flip_bit(*table, key, *bit);
            }
            sound.to_string()
        }
        Step::Quarantine(table, key) => {
            let outcome = rig.store().quarantine(*table, key);
            format!("{outcome:?} {:?}", rig.store().quarantined())
        }
        Step::Reopen => {
            rig.reopen();
            format!("{:?}", rig.opening())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_and_memory_answer_the_same(steps in prop::collection::vec(step(), 1..40)) {
        let (mut memory, mut sqlite) = (MemoryRig::new(), SqliteRig::new());
        for step in &steps {
            prop_assert_eq!(run(&mut memory, step), run(&mut sqlite, step), "{:?}", step);
        }
    }
}
