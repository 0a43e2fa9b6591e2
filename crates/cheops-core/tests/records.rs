//! Records on disk: the bytes of every version are kept; what cannot be read is named, and the rest serves.

mod common;

use cheops_core::eventual::{FoundRecords, Tuning};
use cheops_core::operation::Mode;
use cheops_core::record::{RecordError, VERSION, decode, encode};
use cheops_core::{Birth, Event, MeshKey, Now, Output, ReplicantId, Site, Table};
use common::{Bench, applied, create, name, update};
use proptest::prelude::*;

/// A small story that leaves a record in every table of `b`.
fn story() -> FoundRecords {
    let sites = &["a", "b"];
    let mut bench = Bench::new(sites);
    bench.submit("b", 1, create(7, sites));
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, applied(Some("22")));
    bench.settle();
    bench.step("a", Event::Down(name("b")));
    let mut taken = update(9, 7, &[("x", "2")], sites);
    taken.mode = Mode::Async;
    bench.submit("a", 3, taken);
    let mut found = bench.found("b");
    found.extend(
        bench
            .found("a")
            .into_iter()
            .filter(|(table, ..)| *table == Table::Outbox),
    );
    found
}

fn start(found: FoundRecords) -> Site {
    let birth = Birth {
        me: name("b"),
        key: MeshKey::new([1; 32]),
        tuning: Tuning::default(),
        incarnation: 1,
        peers: vec![name("a"), name("b")],
        found,
        bug: None,
    };
    Site::start(birth, Now { monotonic_ms: 5 }, &mut Output::new())
}

fn fixture(table: Table) -> &'static [u8] {
    match table {
        Table::Site => include_bytes!("fixtures/site-1.bin"),
        Table::Replicants => include_bytes!("fixtures/replicant-1.bin"),
        Table::Log => include_bytes!("fixtures/log-1.bin"),
        Table::Answers => include_bytes!("fixtures/answer-1.bin"),
        Table::Outbox => include_bytes!("fixtures/outbox-1.bin"),
    }
}

#[test]
fn records_of_version_1_are_written_as_they_always_were() {
    let tables = [
        Table::Site,
        Table::Replicants,
        Table::Log,
        Table::Answers,
        Table::Outbox,
    ];
    let found = story();
    for table in tables {
        let (_, _, value) = found
            .iter()
            .find(|(of, ..)| *of == table)
            .expect("every table has a record");
        assert_eq!(
            value,
            fixture(table),
            "{table:?}: a new form is a new version"
        );
    }
}

#[test]
fn records_of_version_1_are_read() {
    let found = story()
        .into_iter()
        .map(|(table, key, _)| (table, key, fixture(table).to_vec()));
    let site = start(found.collect());
    assert_eq!(site.quarantined(), []);
    let view = site.replicant(ReplicantId(7)).unwrap();
    assert_eq!(view.rows[&name("b")].local.as_deref(), Some("22"));
    assert_eq!(site.outbox().count(), 1);
}

#[test]
fn what_is_wrong_with_a_record_has_a_name() {
    let good = encode(&(1u32, "x"));
    assert_eq!(decode::<(u32, String)>(&good), Ok((1, "x".to_string())));
    assert_eq!(decode::<(u32, String)>(&[]), Err(RecordError::Truncated));
    assert_eq!(
        decode::<(u32, String)>(&good[..5]),
        Err(RecordError::Truncated)
    );
    assert_eq!(
        decode::<(u32, String)>(&good[..good.len() - 1]),
        Err(RecordError::Damaged)
    );
    let mut future = good.clone();
    future[0] = VERSION + 1;
    assert_eq!(
        decode::<(u32, String)>(&future),
        Err(RecordError::UnknownVersion(VERSION + 1))
    );
    assert_eq!(decode::<[u64; 9]>(&good), Err(RecordError::Malformed));
}

proptest! {
    #[test]
    fn a_damaged_record_is_quarantined_and_the_rest_serves(which in 0usize..64, at in 0usize..4096, bit in 0u8..8) {
        let mut found = story();
        let which = which % found.len();
        let value = &mut found[which].2;
        let at = at % value.len();
        value[at] ^= 1 << bit;
        let site = start(found);
        prop_assert_eq!(site.quarantined().len(), 1);
    }

    #[test]
    fn a_cut_record_is_quarantined_and_the_rest_serves(which in 0usize..64, keep in 0usize..4096) {
        let mut found = story();
        let which = which % found.len();
        let length = found[which].2.len();
        found[which].2.truncate(keep % length);
        let site = start(found);
        prop_assert_eq!(site.quarantined().len(), 1);
    }
}
