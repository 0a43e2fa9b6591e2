//! Replicants at rest: not in memory, and there for whoever asks.

#![allow(clippy::unwrap_used)]

mod common;

use cheops_core::operation::Kind;
use cheops_core::{Answer, Event, Message, OperationId, ReplicantId};
use common::{Bench, applied, create, name, submission, update};

const SITES: &[&str] = &["a", "b"];

/// One that is the same on both sites, led by `a`.
fn rested() -> Bench {
    let mut bench = Bench::new(SITES);
    bench.submit("a", 1, create(7, SITES));
    for site in SITES {
        let (call, _) = bench.call_at(site);
        bench.outcome(site, call, applied(Some("22")));
        bench.settle();
    }
    for site in SITES {
        assert_eq!(bench.sites[&name(site)].populations(), (0, 1), "{site}");
    }
    bench
}

#[test]
fn a_start_sends_nothing_about_what_rests_and_writes_nothing_of_it() {
    let mut bench = rested();
    bench.writes.clear();
    bench.start("a", 1);
    let said: Vec<_> = bench.posts.iter().map(|(.., said)| &said.message).collect();
    let of_the_disk =
        |said: &Option<Message>| matches!(said, None | Some(Message::Restored { .. }));
    assert!(said.iter().all(|said| of_the_disk(said)), "{said:?}");
    let own = |change: &&cheops_core::Change| change.key.len() >= 16;
    assert_eq!(bench.writes.iter().filter(own).count(), 0);
    bench.settle();
    assert_eq!(bench.sites[&name("a")].populations(), (0, 1));
}

#[test]
fn whatever_names_it_finds_it_as_it_was() {
    let mut bench = rested();
    bench.start("a", 1);
    bench.settle();
    let site = &bench.sites[&name("a")];
    let view = site.replicant(ReplicantId(7)).unwrap();
    assert!(view.idle && view.leads && !view.deleted);
    assert_eq!(view.rows[&name("b")].local.as_deref(), Some("22"));
    assert_eq!(site.glance(ReplicantId(7)).unwrap().last(), 1);
    assert!(site.operation(OperationId(7)).unwrap().answer.is_some());
    assert_eq!(site.populations(), (0, 1), "looking wakes nobody");

    // A retry with the same key hears the first answer, one with another body that the key is taken.
    bench.submit("a", 2, create(7, SITES));
    assert!(matches!(
        bench.answer_to(2),
        Some(Answer::Service { status: 201, .. })
    ));
    let mut other = create(7, SITES);
    other.op.digest += 1;
    bench.submit("a", 3, other);
    assert_eq!(bench.answer_to(3), Some(&Answer::KeyReused));

    // A change goes everywhere, and it rests again.
    bench.submit("a", 4, update(9, 7, &[("x", "1")], SITES));
    bench.settle();
    for site in SITES {
        let (call, _) = bench.call_at(site);
        bench.outcome(site, call, applied(None));
        bench.settle();
    }
    assert!(matches!(
        bench.answer_to(4),
        Some(Answer::Service { status: 200, .. })
    ));
    for site in SITES {
        let site = &bench.sites[&name(site)];
        assert_eq!(site.populations(), (0, 1));
        let view = site.replicant(ReplicantId(7)).unwrap();
        assert_eq!(view.desired["x"], "1");
        assert!(site.operation(OperationId(9)).is_some());
    }
}

#[test]
fn what_a_follower_has_not_confirmed_does_not_rest() {
    let mut bench = rested();
    bench.step("a", Event::Down(name("b")));
    bench.submit("a", 2, update(9, 7, &[("x", "1")], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.posts.clear();
    assert_eq!(bench.sites[&name("a")].populations(), (1, 0));
    bench.start("a", 1);
    assert_eq!(bench.sites[&name("a")].populations(), (1, 0));
    bench.settle();
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, applied(None));
    bench.settle();
    assert_eq!(bench.sites[&name("a")].populations(), (0, 1));
}

#[test]
fn a_removed_site_and_one_that_lost_its_disk_wake_what_they_share() {
    let mut bench = rested();
    bench.step("a", Event::Remove(name("b")));
    bench.settle();
    let view = bench.sites[&name("a")].replicant(ReplicantId(7)).unwrap();
    assert_eq!(view.rows.len(), 1);

    let mut bench = rested();
    bench.disks.get_mut(&name("b")).unwrap().clear();
    bench.start("b", 2);
    bench.settle();
    bench.wait(5_000);
    let view = bench.sites[&name("b")].replicant(ReplicantId(7));
    assert!(view.is_some(), "whoever rests has told of it");
}

#[test]
fn a_delete_leaves_nothing_of_it_behind() {
    let mut bench = rested();
    bench.submit("a", 2, submission(9, 7, Kind::Delete, &[], SITES));
    for site in SITES {
        let (call, _) = bench.call_at(site);
        bench.outcome(site, call, applied(None));
        bench.settle();
    }
    bench.wait(1_000);
    for site in SITES {
        assert_eq!(bench.sites[&name(site)].populations(), (0, 0));
        let left = bench.disks[&name(site)].keys();
        let left: Vec<_> = left.map(|(table, _)| format!("{table:?}")).collect();
        assert!(!left.contains(&"Marks".to_owned()), "{left:?}");
    }
}
