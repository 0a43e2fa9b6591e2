//! What the protocol promises, one behaviour at a time, by hand. The simulator looks for the rest.

mod common;

use cheops_core::eventual::{Repair, ReplicaState};
use cheops_core::operation::{Kind, Mode, Problem, Refusal};
use cheops_core::{Answer, Call, Event, OperationId, Outcome, ReplicantId, Table};
use common::{Bench, applied, create, name, submission, update};

const SITES: &[&str] = &["a", "b"];

fn made(bench: &mut Bench) {
    bench.submit("a", 1, create(7, SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(Some("1")));
    bench.settle();
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, applied(Some("22")));
    bench.settle();
}

#[test]
fn prepared_is_on_disk_before_the_service_is_called() {
    let mut bench = Bench::new(SITES);
    bench.writes.clear();
    bench.submit("a", 1, create(7, SITES));
    assert!(
        bench
            .writes
            .iter()
            .any(|change| change.table == Table::Replicants)
    );
    assert!(matches!(bench.call_at("a").1, Call::Create { .. }));
    assert_eq!(bench.answer_to(1), None);
}

#[test]
fn the_first_answer_carries_the_meta_id_and_everybody_learns_every_local_id() {
    let mut bench = Bench::new(SITES);
    made(&mut bench);
    let Some(Answer::Service {
        status: 201,
        meta: Some(meta),
        ..
    }) = bench.answer_to(1).cloned()
    else {
        panic!("{:?}", bench.answers);
    };
    for site in SITES {
        let view = bench.sites[&name(site)].replicant(ReplicantId(7)).unwrap();
        assert_eq!(view.meta.as_ref(), Some(&meta), "{site}");
        let locals: Vec<_> = view
            .rows
            .values()
            .map(|row| row.local.clone().unwrap())
            .collect();
        assert_eq!(locals, ["1", "22"], "{site}");
    }
}

#[test]
fn a_verdict_at_the_gate_leaves_nothing_behind_but_the_answer() {
    let mut bench = Bench::new(SITES);
    bench.submit("a", 1, create(7, SITES));
    let (call, _) = bench.call_at("a");
    let body = b"no".to_vec();
    bench.outcome(
        "a",
        call,
        Outcome::Refused {
            class: Refusal::Verdict,
            status: 400,
            body,
        },
    );
    bench.settle();
    assert!(matches!(
        bench.answer_to(1),
        Some(Answer::Service { status: 400, .. })
    ));
    assert!(bench.sites[&name("a")].replicant(ReplicantId(7)).is_none());
    assert!(bench.sites[&name("b")].replicant(ReplicantId(7)).is_none());
    bench.submit("a", 2, create(7, SITES));
    assert!(matches!(
        bench.answer_to(2),
        Some(Answer::Service { status: 400, .. })
    ));
    assert!(bench.calls.is_empty());
}

#[test]
fn the_same_key_with_another_body_is_422_and_with_the_same_body_the_stored_answer() {
    let mut bench = Bench::new(SITES);
    made(&mut bench);
    bench.submit("a", 2, create(7, SITES));
    assert_eq!(bench.answer_to(2), bench.answer_to(1));
    let mut other = create(7, SITES);
    other.op.digest = 99;
    bench.submit("a", 3, other);
    assert_eq!(bench.answer_to(3), Some(&Answer::KeyReused));
}

#[test]
fn a_service_that_is_down_releases_the_operation_and_the_first_success_is_the_answer() {
    let mut bench = Bench::new(SITES);
    bench.submit("a", 1, create(7, SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, Outcome::NotSent);
    bench.settle();
    assert_eq!(bench.answer_to(1), None);
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, applied(Some("22")));
    bench.settle();
    assert!(matches!(bench.answer_to(1), Some(Answer::Service { .. })));
}

#[test]
fn a_create_that_may_have_been_done_is_looked_for_and_not_repeated() {
    let mut bench = Bench::new(SITES);
    bench.submit("a", 1, create(7, SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, Outcome::Unknown);
    bench.wait(1_001);
    let (call, what) = bench.call_at("a");
    assert!(matches!(what, Call::Probe { .. }));
    bench.outcome(
        "a",
        call,
        Outcome::Found(cheops_core::operation::Found::Ours("5".into())),
    );
    assert!(matches!(
        bench.answer_to(1),
        Some(Answer::Service { status: 201, .. })
    ));
}

#[test]
fn an_action_in_doubt_holds_what_follows_until_somebody_skips_it() {
    let mut bench = Bench::new(SITES);
    made(&mut bench);
    bench.submit("a", 2, submission(8, 7, Kind::Action, &[], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, Outcome::Unknown);
    bench.submit("a", 3, update(9, 7, &[("x", "1")], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    bench.wait(10_000);
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    let row = bench.sites[&name("a")]
        .replicant(ReplicantId(7))
        .unwrap()
        .rows[&name("b")]
        .clone();
    assert_eq!(row.state, ReplicaState::InDoubt);
    bench.step(
        "b",
        Event::Repair {
            replicant: ReplicantId(7),
            how: Repair::Skip,
        },
    );
    assert!(matches!(bench.call_at("b").1, Call::Run { .. }));
}

#[test]
fn a_write_at_a_follower_without_its_leader_is_503_or_taken_with_202() {
    let mut bench = Bench::new(SITES);
    made(&mut bench);
    bench.step("b", Event::Down(name("a")));
    bench.submit("b", 2, update(8, 7, &[("x", "1")], SITES));
    let problem = Problem::NotLeader(name("a"));
    assert_eq!(bench.answer_to(2), Some(&Answer::Unavailable(problem)));
    let mut taken = update(9, 7, &[("x", "2")], SITES);
    taken.mode = Mode::Async;
    bench.submit("b", 3, taken);
    assert_eq!(bench.answer_to(3), Some(&Answer::Accepted));
    assert_eq!(bench.sites[&name("b")].outbox().count(), 1);
    bench.settle();
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    assert_eq!(bench.sites[&name("b")].outbox().count(), 0);
}

#[test]
fn whoever_waits_for_a_leader_that_goes_out_of_reach_hears_so_at_once() {
    let mut bench = Bench::new(SITES);
    made(&mut bench);
    bench.submit("b", 2, update(8, 7, &[("x", "1")], SITES));
    assert_eq!(bench.answer_to(2), None);
    bench.step("b", Event::Down(name("a")));
    assert_eq!(bench.answer_to(2), Some(&Answer::OutcomeUnknown));
    bench.settle();
    assert!(
        matches!(bench.call_at("a").1, Call::Run { .. }),
        "it may be done all the same"
    );
}

#[test]
fn what_a_deposed_leader_had_accepted_comes_back_unless_it_was_overwritten() {
    let mut bench = Bench::new(SITES);
    made(&mut bench);
    // `a` accepts two writes that nobody hears of.
    for (id, field) in [(8, "x"), (9, "y")] {
        bench.submit("a", id as u64, update(id, 7, &[(field, "old")], SITES));
        let (call, _) = bench.call_at("a");
        bench.outcome("a", call, applied(None));
        bench.posts.clear();
    }
    // `b` is told to lead, alone, and changes one of the fields.
    let a = bench.sites.remove(&name("a")).unwrap();
    bench.step("b", Event::Promote(ReplicantId(7)));
    bench.wait(3_000);
    bench.submit("b", 20, update(10, 7, &[("x", "new")], SITES));
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, applied(None));
    bench.posts.clear();
    bench.sites.insert(name("a"), a);
    for _ in 0..40 {
        bench.wait(2_000);
        while let Some((site, id, call)) = bench.calls.pop() {
            let local = matches!(call, Call::Create { .. }).then_some("3");
            bench.outcome(site.as_str(), id, applied(local));
        }
    }
    let view = bench.sites[&name("b")].replicant(ReplicantId(7)).unwrap();
    assert_eq!(view.desired["x"], "new");
    assert_eq!(view.desired["y"], "old");
    let parked: Vec<OperationId> = view.parked.iter().map(|op| op.id).collect();
    assert_eq!(parked, [OperationId(8)]);

    // Somebody resolves it: only whoever leads can, and everybody hears of it.
    let resolve = Event::Resolve {
        replicant: ReplicantId(7),
        op: OperationId(8),
    };
    let parked = |bench: &Bench, at: &str| {
        let view = bench.sites[&name(at)].replicant(ReplicantId(7)).unwrap();
        view.parked.len()
    };
    bench.step("a", resolve.clone());
    bench.wait(2_000);
    assert_eq!((parked(&bench, "a"), parked(&bench, "b")), (1, 1));
    bench.step("b", resolve.clone());
    bench.step("b", resolve);
    for id in 30..50 {
        // The log is folded meanwhile.
        bench.submit("b", id as u64, update(id, 7, &[("z", "more")], SITES));
        bench.wait(500);
        while let Some((site, call, _)) = bench.calls.pop() {
            bench.outcome(site.as_str(), call, applied(None));
        }
    }
    bench.wait(2_000);
    assert_eq!((parked(&bench, "a"), parked(&bench, "b")), (0, 0));
    let view = bench.sites[&name("a")].replicant(ReplicantId(7)).unwrap();
    assert_eq!((view.desired["x"].as_str(), view.base > 8), ("new", true));
}

#[test]
fn a_precondition_that_the_log_has_left_behind_is_412() {
    let mut bench = Bench::new(SITES);
    made(&mut bench);
    let seen = bench.sites[&name("b")].position(ReplicantId(7));
    assert_eq!(seen.as_ref().map(|position| position.index), Some(1));
    let mut first = update(8, 7, &[("x", "1")], SITES);
    first.op.expects = seen.clone();
    bench.submit("a", 2, first);
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    assert!(matches!(
        bench.answer_to(2),
        Some(Answer::Service { status: 200, .. })
    ));
    let mut late = update(9, 7, &[("x", "2")], SITES);
    late.op.expects = seen;
    bench.submit("a", 3, late);
    assert_eq!(bench.answer_to(3), Some(&Answer::PreconditionFailed));
}

#[test]
fn a_delete_ends_with_no_record_anywhere_and_a_retry_of_the_create_does_not_bring_it_back() {
    let mut bench = Bench::new(SITES);
    made(&mut bench);
    bench.submit("a", 2, submission(8, 7, Kind::Delete, &[], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, applied(None));
    for _ in 0..5 {
        bench.wait(2_000);
    }
    for site in SITES {
        assert!(
            bench.sites[&name(site)].replicant(ReplicantId(7)).is_none(),
            "{site}"
        );
        let logged = bench.disks[&name(site)]
            .keys()
            .any(|(table, _)| *table == Table::Log);
        assert!(!logged, "{site}");
    }
    bench.submit("b", 3, create(7, SITES));
    assert_eq!(bench.answer_to(3), Some(&Answer::Gone));
    assert!(bench.calls.is_empty());
}
