//! Logs that part more than once, gates that cannot speak for others, disks that have forgotten: what only the
//! simulator thought of, by hand.

#![allow(clippy::unwrap_used)]

mod common;

use cheops_core::operation::Refusal;
use cheops_core::{Answer, Call, Event, OperationId, Outcome, ReplicantId};
use common::{Bench, applied, create, name, update};

const SITES: &[&str] = &["a", "b", "c"];

/// Answers whatever is called, until nothing is.
fn serve(bench: &mut Bench) {
    for _ in 0..40 {
        bench.wait(100);
        while let Some((site, id, call)) = bench.calls.pop() {
            let local = matches!(call, Call::Create { .. }).then_some("1");
            bench.outcome(site.as_str(), id, applied(local));
        }
    }
}

/// One on all three sites, led by `a`.
fn made() -> Bench {
    let mut bench = Bench::new(SITES);
    bench.submit("a", 1, create(7, SITES));
    serve(&mut bench);
    bench
}

/// An update that the gate of a site accepts, and that nobody else hears of.
fn accept_alone(bench: &mut Bench, site: &str, id: u128, field: (&str, &str)) {
    bench.submit(site, id as u64, update(id, 7, &[field], SITES));
    let (call, _) = bench.call_at(site);
    bench.outcome(site, call, applied(None));
    bench.posts.clear();
}

#[test]
fn a_conflict_stays_one_when_the_entry_that_parked_it_is_cut_off_too() {
    let mut bench = made();
    accept_alone(&mut bench, "a", 8, ("x", "first"));
    let a = bench.sites.remove(&name("a")).unwrap();
    bench.step("b", Event::Promote(ReplicantId(7)));
    bench.wait(3_000);
    bench.submit("b", 9, update(9, 7, &[("x", "second")], SITES));
    serve(&mut bench);
    // `a` is back and offers what it had accepted: a conflict, of which `c` does not hear.
    let c = bench.sites.remove(&name("c")).unwrap();
    bench.sites.insert(name("a"), a);
    serve(&mut bench);
    let parked = |bench: &Bench, at: &str| {
        let view = bench.sites[&name(at)].replicant(ReplicantId(7)).unwrap();
        assert_eq!(view.desired["x"], "second", "at {at}");
        view.parked.iter().map(|op| op.id).collect::<Vec<_>>()
    };
    assert_eq!(parked(&bench, "b"), [OperationId(8)]);
    // `c` is told to lead while it is alone: its log parts after the second, and before the conflict.
    let others = std::mem::take(&mut bench.sites);
    bench.sites.insert(name("c"), c);
    bench.step("c", Event::Promote(ReplicantId(7)));
    bench.wait(3_000);
    accept_alone(&mut bench, "c", 10, ("y", "third"));
    bench.sites.extend(others);
    for _ in 0..5 {
        bench.wait(2_000);
        serve(&mut bench);
    }
    for site in SITES {
        assert_eq!(parked(&bench, site), [OperationId(8)], "at {site}");
    }
}

#[test]
fn a_gate_that_refuses_cannot_speak_for_a_site_that_was_asked_before() {
    let mut bench = Bench::new(SITES);
    // `a` has never heard of it, so `b` is asked: it may have done it.
    let mut wanted = update(8, 7, &[("x", "1")], SITES);
    wanted.sites.rotate_left(1);
    bench.submit("a", 1, wanted.clone());
    bench.posts.clear();
    // Its create comes here again, and `a` leads a log of its own.
    bench.submit("a", 2, create(7, SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(Some("1")));
    bench.posts.clear();
    wanted.attempt += 1;
    bench.submit("a", 3, wanted);
    let (call, what) = bench.call_at("a");
    assert!(matches!(what, Call::Run { .. }), "{what:?}");
    let refused = Outcome::Refused {
        class: Refusal::Verdict,
        status: 400,
        body: Vec::new(),
    };
    bench.outcome("a", call, refused);
    for client in [1, 3] {
        assert_eq!(bench.answer_to(client), Some(&Answer::OutcomeUnknown));
    }
}

#[test]
fn a_disk_put_back_writes_nothing_before_what_was_sent_by_the_one_before_is_done() {
    let mut bench = made();
    let backup = bench.disks[&name("a")].clone();
    bench.submit("a", 2, update(8, 7, &[("x", "1")], SITES));
    let _sent_and_not_answered = bench.call_at("a");
    bench.sites.remove(&name("a"));
    bench.posts.clear();
    *bench.disks.get_mut(&name("a")).unwrap() = backup;
    bench.start("a", 2);
    bench.settle();
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    bench.wait(1_000);
    let (_, what) = bench.call_at("a");
    assert!(matches!(what, Call::Settle { .. }), "{what:?}");
}

#[test]
fn a_new_disk_makes_nothing_before_everybody_has_told_whether_it_was_made() {
    let mut bench = Bench::new(SITES);
    bench.submit("a", 1, create(7, SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(Some("1")));
    bench.settle();
    // `b` has called its service, and its disk is lost with the answer.
    let _sent_and_not_answered = bench.call_at("b");
    let (call, _) = bench.call_at("c");
    bench.outcome("c", call, applied(Some("1")));
    bench.settle();
    let c = bench.sites.remove(&name("c")).unwrap();
    bench.disks.get_mut(&name("b")).unwrap().clear();
    bench.start("b", 2);
    for _ in 0..5 {
        bench.wait(2_000);
    }
    let view = bench.sites[&name("b")].replicant(ReplicantId(7)).unwrap();
    assert_eq!(view.log.len(), 1, "its leader has told");
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    bench.sites.insert(name("c"), c);
    bench.wait(2_000);
    bench.wait(2_000);
    let (_, what) = bench.call_at("b");
    assert!(matches!(what, Call::Probe { .. }), "{what:?}");
}

#[test]
fn what_two_sites_make_at_once_by_one_name_is_one() {
    let mut bench = Bench::new(&["a", "b"]);
    // Each is asked by its own service, which puts something of its own into it, before it hears of the other.
    let mut made = Vec::new();
    for (client, site) in [(1, "a"), (2, "b")] {
        let mut wanted = create(7, &["a", "b"]);
        wanted.op.digest = 0;
        wanted.op.fields = [("host".to_owned(), site.to_owned())].into();
        bench.submit(site, client, wanted);
        let (call, what) = bench.call_at(site);
        assert!(matches!(what, Call::Create { .. }), "{what:?}");
        bench.outcome(site, call, applied(Some(site)));
        bench.posts.clear();
        made.push(bench.answer_to(client).cloned());
    }
    assert!(
        made.iter()
            .all(|answer| matches!(answer, Some(Answer::Service { status: 201, .. }))),
        "{made:?}"
    );
    for _ in 0..10 {
        bench.wait(2_000);
        while let Some((site, id, call)) = bench.calls.pop() {
            assert!(!matches!(call, Call::Create { .. }), "again at {site}");
            bench.outcome(site.as_str(), id, applied(None));
        }
    }
    let views: Vec<_> = ["a", "b"]
        .map(|site| bench.sites[&name(site)].replicant(ReplicantId(7)).unwrap())
        .into();
    assert_eq!(views[0].desired, views[1].desired);
    assert_eq!(views[0].meta, views[1].meta);
    for view in &views {
        let local = |site: &str| view.rows[&name(site)].local.clone();
        assert_eq!(
            (local("a"), local("b")),
            (Some("a".to_owned()), Some("b".to_owned()))
        );
    }
}

#[test]
fn a_leader_that_waits_to_be_told_whether_it_has_one_lets_others_do_what_is_asked() {
    // It was made while `a` was away, which comes back with a new disk.
    let mut bench = Bench::new(SITES);
    bench.sites.remove(&name("a"));
    bench.submit("b", 1, create(7, SITES));
    serve(&mut bench);
    let c = bench.sites.remove(&name("c")).unwrap();
    bench.disks.get_mut(&name("a")).unwrap().clear();
    bench.start("a", 2);
    for _ in 0..3 {
        bench.wait(2_000);
    }
    bench.step("a", Event::Promote(ReplicantId(7)));
    bench.wait(3_000);
    bench.submit("a", 5, update(9, 7, &[("x", "1")], SITES));
    serve(&mut bench);
    let answer = bench.answer_to(5);
    assert!(matches!(answer, Some(Answer::Service { .. })), "{answer:?}");
    bench.sites.insert(name("c"), c);
    serve(&mut bench);
    for site in SITES {
        let view = bench.sites[&name(site)].replicant(ReplicantId(7)).unwrap();
        assert_eq!(view.desired["x"], "1", "at {site}");
    }
}
