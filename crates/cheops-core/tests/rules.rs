//! Rules that touch what lies around the protocol, by hand: names, refusals, what waits, where a resource lives.

mod common;

use cheops_core::eventual::{Progress, Repair, ReplicaState};
use cheops_core::operation::{Kind, Mode, Naming, Problem, Refusal, Wait};
use cheops_core::{Answer, Call, Event, OperationId, Outcome, ReplicantId};
use cheops_model::SiteName;
use common::{Bench, applied, create, name, submission, update};

const SITES: &[&str] = &["a", "b"];

/// Answers whatever is called, until nothing is.
fn serve(bench: &mut Bench) {
    for _ in 0..20 {
        bench.wait(100);
        while let Some((site, id, call)) = bench.calls.pop() {
            let local = format!("{site}-1");
            let local = matches!(call, Call::Create { .. }).then_some(local.as_str());
            bench.outcome(site.as_str(), id, applied(local));
        }
    }
}

fn made(sites: &[&str]) -> Bench {
    let mut bench = Bench::new(&["a", "b", "c"]);
    bench.submit("a", 1, create(7, sites));
    serve(&mut bench);
    bench
}

fn refused(class: Refusal, status: u16) -> Outcome {
    let body = Vec::new();
    Outcome::Refused {
        class,
        status,
        body,
    }
}

fn state(bench: &Bench, at: &str, of: &str) -> ReplicaState {
    let view = bench.sites[&name(at)].replicant(ReplicantId(7));
    let view = view.expect("it is there");
    view.rows[&name(of)].state
}

fn progress(bench: &Bench, at: &str, op: u128, of: &str) -> Progress {
    let view = bench.sites[&name(at)].operation(OperationId(op));
    let view = view.expect("it is known");
    view.sites[&name(of)].progress
}

fn rescope(id: u128, to: &[&str]) -> cheops_core::Submission {
    let mut rescope = submission(id, 7, Kind::Rescope, &[], SITES);
    rescope.op.sites = to.iter().map(|site| name(site)).collect();
    rescope
}

#[test]
fn a_name_that_the_client_chose_is_the_same_everywhere_and_is_not_taken_twice() {
    let mut bench = Bench::new(SITES);
    let mut chosen = create(7, SITES);
    chosen.naming = Naming::Chosen("web-1".into());
    bench.submit("a", 1, chosen);
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    let view = bench.sites[&name("a")].replicant(ReplicantId(7)).unwrap();
    assert_eq!(view.meta.as_deref(), Some("web-1"));
    assert_eq!(view.rows[&name("a")].local.as_deref(), Some("web-1"));
    let site = &bench.sites[&name("a")];
    assert_eq!(site.local_of("thing", "web-1").as_deref(), Some("web-1"));
    assert_eq!(site.meta_of("thing", "web-1").as_deref(), Some("web-1"));
    assert_eq!(site.sites_of("thing", "web-1"), [name("a"), name("b")]);
    assert_eq!(site.local_of("other", "web-1"), None);

    let mut again = create(9, SITES);
    again.naming = Naming::Chosen("web-1".into());
    bench.submit("a", 2, again);
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, refused(Refusal::Taken, 409));
    assert_eq!(bench.answer_to(2), Some(&Answer::IdTaken));
    assert!(bench.sites[&name("a")].replicant(ReplicantId(9)).is_none());

    // A follower whose service has one by that name is shown; what is there is not touched.
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, refused(Refusal::Taken, 409));
    bench.settle();
    assert_eq!(state(&bench, "a", "b"), ReplicaState::Diverged);
    assert_eq!(progress(&bench, "a", 7, "b"), Progress::Refused);
}

#[test]
fn an_ordinary_resource_is_adopted_without_a_call_and_copied_to_the_others() {
    let mut bench = Bench::new(SITES);
    let mut adopt = create(7, SITES);
    adopt.naming = Naming::Adopted("41".into());
    bench.submit("a", 1, adopt.clone());
    assert!(bench.calls.is_empty(), "it is there already");
    let Some(Answer::Service { status: 200, .. }) = bench.answer_to(1) else {
        panic!("{:?}", bench.answers);
    };
    bench.settle();
    let (call, what) = bench.call_at("b");
    assert!(matches!(what, Call::Create { .. }));
    bench.outcome("b", call, applied(Some("22")));
    bench.settle();
    let view = bench.sites[&name("b")].replicant(ReplicantId(7)).unwrap();
    assert_eq!(view.rows[&name("a")].local.as_deref(), Some("41"));

    // Only the site that has it knows it by that name.
    let mut elsewhere = Bench::new(&["a", "b", "c"]);
    elsewhere.submit("c", 2, adopt);
    assert_eq!(elsewhere.answer_to(2), Some(&Answer::Conflict));
}

#[test]
fn a_follower_that_is_not_ready_is_asked_again_and_diverges_only_after_a_while() {
    let mut bench = made(SITES);
    bench.submit("a", 2, update(8, 7, &[("x", "1")], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    for round in 0..40 {
        let Some(at) = bench.calls.iter().position(|(at, ..)| *at == name("b")) else {
            bench.wait(500);
            continue;
        };
        let (_, call, _) = bench.calls.remove(at);
        bench.outcome("b", call, refused(Refusal::NotReady, 409));
        bench.settle();
        if round == 0 {
            assert_eq!(state(&bench, "a", "b"), ReplicaState::Live);
        }
    }
    assert_eq!(state(&bench, "a", "b"), ReplicaState::Diverged);
    assert_eq!(progress(&bench, "a", 8, "b"), Progress::Refused);
    // Later operations are held there; the other replica goes on.
    bench.submit("a", 3, update(9, 7, &[("x", "2")], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    assert_eq!(progress(&bench, "a", 9, "a"), Progress::Applied);
    assert_eq!(progress(&bench, "a", 9, "b"), Progress::Held);
    // A delete passes.
    bench.submit("a", 4, submission(10, 7, Kind::Delete, &[], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    assert!(matches!(bench.call_at("b").1, Call::Delete { .. }));
}

#[test]
fn what_waits_for_credentials_is_shown_and_goes_on_when_somebody_says_so() {
    let mut bench = made(SITES);
    bench.submit("a", 2, update(8, 7, &[("x", "1")], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    for (why, status) in [
        (Wait::Credentials, 401),
        (Wait::Dependency, 424),
        (Wait::Held, 423),
    ] {
        let (call, _) = bench.call_at("b");
        bench.outcome("b", call, Outcome::Waits(why));
        bench.settle();
        let view = bench.sites[&name("a")].operation(OperationId(8)).unwrap();
        let step = &view.sites[&name("b")];
        assert_eq!(step.progress, Progress::Waiting);
        assert_eq!(step.status, Some(status));
        bench.wait(500);
        assert!(bench.calls.is_empty(), "it is not asked every moment");
        bench.step("b", Event::Hurry(ReplicantId(7)));
    }
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, applied(None));
    bench.settle();
    assert_eq!(progress(&bench, "a", 8, "b"), Progress::Applied);
}

#[test]
fn credentials_that_one_site_took_and_another_does_not_are_waited_for() {
    let mut bench = made(SITES);
    bench.submit("a", 2, update(8, 7, &[("x", "1")], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, refused(Refusal::Verdict, 401));
    bench.settle();
    assert_eq!(progress(&bench, "a", 8, "b"), Progress::Waiting);
    assert_eq!(state(&bench, "a", "b"), ReplicaState::Live);

    // At the gate they are simply not good enough.
    bench.submit("a", 3, update(9, 7, &[("x", "2")], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, refused(Refusal::Verdict, 401));
    assert!(matches!(
        bench.answer_to(3),
        Some(Answer::Service { status: 401, .. })
    ));
}

#[test]
fn a_replica_that_is_told_to_settle_is_written_whatever_this_agent_wrote_before() {
    let mut bench = made(SITES);
    bench.submit("a", 2, update(8, 7, &[("x", "1")], SITES));
    serve(&mut bench);
    let settle = Event::Repair {
        replicant: ReplicantId(7),
        how: Repair::Settle,
    };
    bench.step("b", settle);
    let (call, what) = bench.call_at("b");
    let Call::Settle { fields, unset, .. } = what else {
        panic!("{what:?}");
    };
    assert_eq!((fields["x"].as_str(), unset.len()), ("1", 0));
    bench.outcome("b", call, applied(None));
    bench.settle();
    assert_eq!(state(&bench, "a", "b"), ReplicaState::Live);
    assert!(bench.calls.is_empty());
}

#[test]
fn a_delete_that_meets_children_it_did_not_know_is_parked_there() {
    let mut bench = made(SITES);
    let mut delete = submission(8, 7, Kind::Delete, &[], SITES);
    delete.op.knows = vec![ReplicantId(70)];
    bench.submit("a", 2, delete);
    let (call, what) = bench.call_at("a");
    let Call::Delete { knows, .. } = what else {
        panic!("{what:?}");
    };
    assert_eq!(knows, [ReplicantId(70)]);
    bench.outcome("a", call, applied(None));
    bench.settle();
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, refused(Refusal::Children, 409));
    bench.settle();
    assert_eq!(state(&bench, "a", "b"), ReplicaState::Diverged);
    bench.wait(1_000);
    assert!(bench.calls.is_empty());
    // The children are gone: it goes too.
    bench.step(
        "b",
        Event::Repair {
            replicant: ReplicantId(7),
            how: Repair::Retry,
        },
    );
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, applied(None));
    for _ in 0..5 {
        bench.wait(2_000);
    }
    assert!(bench.sites[&name("a")].replicant(ReplicantId(7)).is_none());
}

#[test]
fn a_new_site_starts_by_settle_and_runs_nothing_that_was_before() {
    let mut bench = made(SITES);
    bench.submit("a", 2, submission(8, 7, Kind::Action, &[], SITES));
    serve(&mut bench);
    bench.submit("a", 3, update(9, 7, &[("x", "1")], SITES));
    serve(&mut bench);
    bench.submit("a", 4, rescope(10, &["a", "b", "c"]));
    bench.settle();
    let (call, what) = bench.call_at("c");
    let Call::Create { fields, .. } = what else {
        panic!("{what:?}");
    };
    assert_eq!(fields["x"], "1");
    bench.outcome("c", call, applied(Some("c-1")));
    bench.settle();
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    assert_eq!(state(&bench, "a", "c"), ReplicaState::Live);
    assert_eq!(progress(&bench, "a", 8, "c"), Progress::Covered);
}

#[test]
fn a_site_that_goes_is_covered_first_then_deletes_and_then_has_no_record() {
    let mut bench = made(&["a", "b", "c"]);
    bench.step("b", Event::Down(name("a")));
    bench.submit("a", 2, rescope(8, &["a", "b"]));
    bench.settle();
    let (call, what) = bench.call_at("c");
    assert!(matches!(what, Call::Delete { .. }), "{what:?}");
    bench.outcome("c", call, applied(None));
    serve(&mut bench);
    for site in ["a", "b"] {
        let view = bench.sites[&name(site)].replicant(ReplicantId(7)).unwrap();
        let members: Vec<&SiteName> = view.rows.keys().collect();
        assert_eq!(members, [&name("a"), &name("b")]);
    }
    assert!(bench.sites[&name("c")].replicant(ReplicantId(7)).is_none());
    assert!(bench.found("c").iter().all(|(table, ..)| {
        !matches!(
            table,
            cheops_core::Table::Replicants | cheops_core::Table::Log
        )
    }));
    // A retry of the create there does not make a second one; back again it is a new member.
    bench.submit("c", 3, create(7, &["a", "b", "c"]));
    assert!(matches!(
        bench.answer_to(3),
        Some(Answer::Service { status: 200, .. })
    ));
    bench.submit("a", 4, rescope(9, &["a", "b", "c"]));
    serve(&mut bench);
    assert_eq!(state(&bench, "a", "c"), ReplicaState::Live);
}

#[test]
fn the_leader_is_moved_before_it_goes() {
    let mut bench = made(SITES);
    bench.submit("a", 2, rescope(8, &["b"]));
    assert_eq!(bench.answer_to(2), Some(&Answer::Conflict));
    bench.step("b", Event::Promote(ReplicantId(7)));
    serve(&mut bench);
    bench.submit("b", 3, rescope(9, &["b"]));
    serve(&mut bench);
    let view = bench.sites[&name("b")].replicant(ReplicantId(7)).unwrap();
    assert_eq!(view.rows.len(), 1);
    assert!(bench.sites[&name("a")].replicant(ReplicantId(7)).is_none());
}

#[test]
fn a_site_that_was_removed_is_out_of_every_mapping_and_deletes_nothing() {
    let mut bench = made(&["a", "b", "c"]);
    for site in ["b", "c"] {
        bench.step(site, Event::Remove(name("a")));
    }
    for _ in 0..4 {
        bench.wait(1_000);
    }
    let view = bench.sites[&name("b")].replicant(ReplicantId(7)).unwrap();
    assert!(view.leads, "leadership has moved");
    assert!(!view.rows.contains_key(&name("a")));
    // It learns of it: everything stays where it is, and is shown.
    bench.step("a", Event::Remove(name("a")));
    let view = bench.sites[&name("a")].replicant(ReplicantId(7)).unwrap();
    assert!(view.stranded);
    assert!(bench.calls.is_empty());
    let mut taken = update(8, 7, &[("x", "1")], SITES);
    taken.mode = Mode::Async;
    bench.submit("a", 3, taken);
    assert_eq!(
        bench.answer_to(3),
        Some(&Answer::Unavailable(Problem::Recovering))
    );
    // Told again nothing changes; taken in again, what it had stays where it is.
    for site in ["a", "b", "c"] {
        bench.step(site, Event::Remove(name("a")));
        bench.step(site, Event::Readmit(name("a")));
    }
    for _ in 0..4 {
        bench.wait(1_000);
    }
    let view = bench.sites[&name("a")].replicant(ReplicantId(7)).unwrap();
    assert!(view.stranded);
    let view = bench.sites[&name("b")].replicant(ReplicantId(7)).unwrap();
    assert!(view.leads && !view.rows.contains_key(&name("a")));
    assert!(bench.calls.is_empty());
}

#[test]
fn an_operation_that_nobody_has_ordered_can_be_given_up_and_one_that_was_called_cannot() {
    let mut bench = made(SITES);
    bench.step("b", Event::Down(name("a")));
    let mut taken = update(8, 7, &[("x", "1")], SITES);
    taken.mode = Mode::Async;
    bench.submit("b", 2, taken);
    assert_eq!(bench.answer_to(2), Some(&Answer::Accepted));
    assert_eq!(progress(&bench, "b", 8, "a"), Progress::Queued);
    let cancel = |client, op| Event::Cancel {
        client: cheops_core::ClientId(client),
        op: OperationId(op),
    };
    bench.submit("a", 3, update(9, 7, &[("x", "2")], SITES));
    bench.step("a", cancel(4, 9));
    assert_eq!(bench.answer_to(4), Some(&Answer::Conflict));
    bench.submit("a", 5, update(10, 7, &[("x", "3")], SITES));
    bench.step("a", cancel(6, 10));
    assert_eq!(bench.answer_to(6), Some(&Answer::Cancelled));
    assert_eq!(bench.answer_to(5), Some(&Answer::Cancelled));
}

#[test]
fn what_is_done_everywhere_is_still_known_for_a_while() {
    let mut bench = made(SITES);
    for id in 20..40 {
        bench.submit("a", id as u64, update(id, 7, &[("x", "1")], SITES));
        serve(&mut bench);
    }
    let view = bench.sites[&name("a")].operation(OperationId(20)).unwrap();
    assert_eq!(view.index, None, "it was folded");
    assert_eq!(view.op.unwrap().kind, Kind::Update);
    assert_eq!(view.sites[&name("b")].progress, Progress::Applied);
    assert!(bench.sites[&name("a")].operation(OperationId(99)).is_none());
    assert!(bench.sites[&name("a")].operations().count() >= 20);
}

/// A request whose content is coming in, at the gate of `a`.
fn streaming(bench: &mut Bench, client: u64) -> cheops_core::CallId {
    let mut streamed = update(9, 7, &[("/file", "-")], SITES);
    streamed.op.repeat = cheops_core::operation::Repeat::Safe;
    let client = cheops_core::ClientId(client);
    let submission = streamed;
    bench.step("a", Event::Stream { client, submission });
    bench.call_at("a").0
}

fn complete(bench: &mut Bench, client: u64) {
    let op = update(9, 7, &[("/file", "blake3:ab/7")], SITES).op;
    let client = cheops_core::ClientId(client);
    let wait_ms = 1_000;
    bench.step(
        "a",
        Event::Complete {
            client,
            op,
            wait_ms,
        },
    );
}

fn entries(bench: &Bench, at: &str) -> usize {
    let view = bench.sites[&name(at)].replicant(ReplicantId(7));
    view.expect("it is there").log.len()
}

#[test]
fn a_streamed_request_gets_its_position_when_it_is_whole_and_accepted() {
    let mut bench = made(SITES);
    let call = streaming(&mut bench, 2);
    bench.wait(100_000);
    assert_eq!(
        bench.answer_to(2),
        None,
        "nobody waits too long for an upload"
    );
    assert_eq!((entries(&bench, "a"), entries(&bench, "b")), (1, 1));
    complete(&mut bench, 3);
    assert_eq!(bench.answer_to(3), Some(&Answer::Accepted));
    complete(&mut bench, 4);
    let late = Answer::Unavailable(Problem::TooLate);
    assert_eq!(bench.answer_to(4), Some(&late), "once is enough");
    bench.outcome("a", call, applied(None));
    assert!(matches!(bench.answer_to(2), Some(Answer::Service { .. })));
    serve(&mut bench);
    let view = bench.sites[&name("b")].replicant(ReplicantId(7)).unwrap();
    assert_eq!(view.desired["/file"], "blake3:ab/7");
    assert_eq!(progress(&bench, "a", 9, "b"), Progress::Applied);
}

#[test]
fn a_streamed_request_that_is_whole_before_its_turn_is_like_any_other() {
    let mut bench = made(SITES);
    bench.submit("a", 5, update(10, 7, &[("x", "1")], SITES));
    let (first, _) = bench.call_at("a");
    let mut submission = update(9, 7, &[("/file", "-")], SITES);
    submission.op.repeat = cheops_core::operation::Repeat::Safe;
    let client = cheops_core::ClientId(2);
    bench.step("a", Event::Stream { client, submission });
    complete(&mut bench, 3);
    assert_eq!(bench.answer_to(3), Some(&Answer::Accepted));
    bench.outcome("a", first, applied(None));
    bench.settle();
    let (_, call) = bench.call_at("a");
    let Call::Run { op, .. } = call else {
        panic!("{call:?}");
    };
    assert_eq!(op.fields["/file"], "blake3:ab/7");
    bench.start("a", 1);
    serve(&mut bench);
    assert_eq!(progress(&bench, "a", 9, "b"), Progress::Applied);
}

#[test]
fn a_streamed_request_that_was_not_whole_never_was() {
    // Its agent stopped; its service was down; it had no room; it would not.
    let mut bench = made(SITES);
    streaming(&mut bench, 2);
    bench.start("a", 1);
    serve(&mut bench);
    assert_eq!(bench.sites[&name("a")].operation(OperationId(9)), None);
    assert_eq!((entries(&bench, "a"), entries(&bench, "b")), (1, 1));
    let gone = Answer::Unavailable(Problem::TooLate);
    for outcome in [
        Outcome::NotSent,
        Outcome::Unknown,
        Outcome::Waits(Wait::Blob),
        refused(Refusal::NoRoom, 507),
    ] {
        let call = streaming(&mut bench, 2);
        bench.outcome("a", call, outcome);
        assert_eq!(bench.answer_to(2), Some(&gone));
    }
    let call = streaming(&mut bench, 2);
    bench.outcome("a", call, refused(Refusal::Verdict, 403));
    let said = bench.answer_to(2).expect("it is answered");
    assert!(
        matches!(said, Answer::Service { status: 403, .. }),
        "{said:?}"
    );
    serve(&mut bench);
    assert_eq!((entries(&bench, "a"), entries(&bench, "b")), (1, 1));
}

#[test]
fn a_whole_one_that_was_asked_about_is_done_after_a_restart() {
    let mut bench = made(SITES);
    streaming(&mut bench, 2);
    complete(&mut bench, 3);
    bench.start("a", 1);
    serve(&mut bench);
    let view = bench.sites[&name("b")].replicant(ReplicantId(7)).unwrap();
    assert_eq!(view.desired["/file"], "blake3:ab/7");
    assert_eq!(progress(&bench, "a", 9, "b"), Progress::Applied);
}

#[test]
fn nobody_streams_to_a_site_that_does_not_lead_or_cannot_ask() {
    let mut bench = made(SITES);
    let submission = update(9, 7, &[("/file", "-")], SITES);
    let client = cheops_core::ClientId(2);
    let event = Event::Stream {
        client,
        submission: submission.clone(),
    };
    bench.step("b", event.clone());
    let elsewhere = Answer::Unavailable(Problem::NotLeader(name("a")));
    assert_eq!(bench.answer_to(2), Some(&elsewhere));
    // Something before it waits here, so that this service cannot be asked.
    bench.submit("a", 5, update(10, 7, &[("x", "1")], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, refused(Refusal::NoRoom, 507));
    bench.step("a", event);
    assert_eq!(
        bench.answer_to(2),
        Some(&Answer::Unavailable(Problem::Busy))
    );
    assert_eq!(entries(&bench, "a"), 2);
}

#[test]
fn what_is_streamed_and_never_made_leaves_nothing() {
    let mut bench = Bench::new(SITES);
    let submission = create(7, SITES);
    let client = cheops_core::ClientId(2);
    bench.step("a", Event::Stream { client, submission });
    bench.start("a", 1);
    bench.wait(100);
    assert!(bench.sites[&name("a")].replicant(ReplicantId(7)).is_none());
    let kept = bench.found("a");
    assert!(
        kept.iter()
            .all(|(table, ..)| *table == cheops_core::Table::Site)
    );
}

#[test]
fn what_waits_for_its_content_goes_on_when_it_is_there() {
    let mut bench = made(SITES);
    let call = streaming(&mut bench, 2);
    complete(&mut bench, 3);
    bench.outcome("a", call, applied(None));
    bench.settle();
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, Outcome::Waits(Wait::Blob));
    bench.settle();
    assert_eq!(progress(&bench, "a", 9, "b"), Progress::Waiting);
    bench.step("b", Event::Hurry(ReplicantId(7)));
    let (call, _) = bench.call_at("b");
    bench.outcome("b", call, applied(None));
    bench.settle();
    assert_eq!(progress(&bench, "a", 9, "b"), Progress::Applied);
}
