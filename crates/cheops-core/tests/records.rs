//! Records on disk: the bytes of every version are kept; what cannot be read is named, and the rest serves.

mod common;

use cheops_core::eventual::Kept;
use cheops_core::eventual::{Reader, Tuning};
use cheops_core::operation::Mode;
use cheops_core::record::{RecordFault, decode};
use cheops_core::{Birth, Event, MeshKey, Now, Output, ReplicantId, Site, Table};
use common::{Bench, Records, applied, create, name, update};
use proptest::prelude::*;

/// A small story that leaves a record in every table of `b`.
fn story() -> Records {
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

fn start(found: Records) -> Site {
    let birth = Birth {
        me: name("b"),
        key: MeshKey::new([1; 32]),
        tuning: Tuning::default(),
        incarnation: 1,
        peers: vec![name("a"), name("b")],
        found: Box::new(found.into_iter()),
        archive: None,
        reader: Reader::default(),
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
        Table::Marks => include_bytes!("fixtures/mark-1.bin"),
    }
}

fn path(table: Table) -> String {
    let name = match table {
        Table::Site => "site",
        Table::Replicants => "replicant",
        Table::Log => "log",
        Table::Answers => "answer",
        Table::Outbox => "outbox",
        Table::Marks => "mark",
    };
    format!("{}/tests/fixtures/{name}-1.bin", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn records_of_version_1_are_written_as_they_always_were() {
    let tables = [
        Table::Site,
        Table::Replicants,
        Table::Log,
        Table::Answers,
        Table::Outbox,
        Table::Marks,
    ];
    let found = story();
    for table in tables {
        let (_, _, value) = found
            .iter()
            .find(|(of, ..)| *of == table)
            .expect("every table has a record");
        if std::env::var_os("CHEOPS_KEEP_FIXTURES").is_some() {
            // For a new version only: what is kept never changes.
            std::fs::write(path(table), value).expect("a fixture can be written");
        }
        let kept = std::fs::read(path(table)).expect("a fixture can be read");
        assert_eq!(*value, kept, "{table:?}: a new form is a new version");
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

/// What stands beside a replicant that is the same on both sites.
fn resting_mark() -> Vec<u8> {
    let sites = &["a", "b"];
    let mut bench = Bench::new(sites);
    bench.submit("b", 1, create(7, sites));
    for site in ["b", "a"] {
        let (call, _) = bench.call_at(site);
        bench.outcome(site, call, applied(Some("22")));
        bench.settle();
    }
    assert_eq!(bench.sites[&name("b")].populations(), (0, 1));
    let mut found = bench.found("b").into_iter();
    let mark = found.find(|(table, ..)| *table == Table::Marks);
    mark.expect("it has one").2
}

#[test]
fn the_mark_of_a_resting_replicant_is_written_as_it_always_was() {
    let path = format!(
        "{}/tests/fixtures/mark-resting-1.bin",
        env!("CARGO_MANIFEST_DIR")
    );
    let mark = resting_mark();
    if std::env::var_os("CHEOPS_KEEP_FIXTURES").is_some() {
        std::fs::write(&path, &mark).expect("a fixture can be written");
    }
    let kept = std::fs::read(path).expect("a fixture can be read");
    assert_eq!(mark, kept, "a new form is a new version");
}

#[test]
fn what_is_wrong_with_a_record_has_a_name() {
    let good = fixture(Table::Log);
    assert!(decode::<Kept>(good).is_ok());
    let fault = |bytes: &[u8]| decode::<Kept>(bytes).expect_err("it is no record");
    assert_eq!(fault(&[]), RecordFault::Truncated { found: 0 });
    assert_eq!(fault(&good[..5]), RecordFault::Truncated { found: 5 });
    assert_eq!(fault(&good[..good.len() - 1]), RecordFault::Damaged);
    let other = fault(fixture(Table::Site));
    assert!(matches!(other, RecordFault::OtherKind { .. }), "{other}");
}

#[test]
fn a_record_of_a_later_release_is_quarantined_and_not_guessed_at() {
    let mut found = story();
    let later = Later { anything: 7 };
    let log = found.iter_mut().find(|(table, ..)| *table == Table::Log);
    log.expect("there is an entry").2 = cheops_model::record::encode(&later);
    let site = start(found);
    let [quarantined] = site.quarantined() else {
        panic!("{:?}", site.quarantined());
    };
    assert_eq!(
        quarantined.error,
        RecordFault::UnknownVersion {
            found: 9,
            newest: 1
        }
    );
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Later {
    anything: u64,
}

impl cheops_model::record::Record for Later {
    const KIND: [u8; 4] = *b"LOGE";
    const VERSION: u16 = 9;
    type Previous = cheops_model::record::First;
    fn migrate(first: cheops_model::record::First) -> Later {
        match first {}
    }
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
