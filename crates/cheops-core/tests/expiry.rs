//! What is too late stays too late, by hand: whoever starts anew, and whatever disk is put back.

mod common;

use cheops_core::operation::{Form, Kind, Refusal, Repeat};
use cheops_core::{Answer, Call, OperationId, Outcome, Submission};
use common::{Bench, applied, create, name, submission};

const TTL_MS: u64 = 2_000;

/// Something that may be called again: doubt alone does not hold it back.
fn timed(id: u128, of: u128, sites: &[&str]) -> Submission {
    let mut timed = submission(id, of, Kind::Action, &[], sites);
    timed.op.ttl_ms = Some(TTL_MS);
    timed.op.repeat = Repeat::Safe;
    timed
}

/// The service of `b` has no room until it is too late, and `a` hears that it was given up.
fn give_up_at_b(bench: &mut Bench) {
    let (call, _) = bench.call_at("b");
    let full = Outcome::Refused {
        class: Refusal::NoRoom,
        status: 507,
        body: Vec::new(),
    };
    bench.outcome("b", call, full);
    bench.settle();
    for _ in 0..4 {
        bench.wait(TTL_MS);
    }
    assert!(bench.calls.is_empty(), "it was given up");
}

/// True if `b` is asked to run it, once `a` has started anew and `b` has the disk it had before.
fn runs_after_restore(bench: &mut Bench, backup: common::Disk, op: u128) -> bool {
    bench.posts.clear();
    bench.disks.insert(name("b"), backup);
    bench.start("a", 1);
    bench.start("b", 2);
    let mut ran = false;
    for _ in 0..40 {
        bench.wait(100);
        for (site, id, call) in std::mem::take(&mut bench.calls) {
            let of_b = site == name("b");
            ran |= of_b && matches!(&call, Call::Run { op: one, .. } if one.id == OperationId(op));
            bench.outcome(site.as_str(), id, applied(None));
        }
    }
    ran
}

#[test]
fn a_queued_request_that_was_given_up_does_not_run_after_its_holder_starts_anew() {
    let mut bench = Bench::new(&["a", "b"]);
    let backup = bench.disks[&name("b")].clone();
    let mut queued = timed(7, 7, &["b"]);
    queued.form = Form::Queue;
    bench.submit("a", 1, queued);
    bench.settle();
    give_up_at_b(&mut bench);
    assert_eq!(bench.answer_to(1), Some(&Answer::Cancelled));
    assert!(!runs_after_restore(&mut bench, backup, 7));
}

#[test]
fn an_action_that_a_follower_gave_up_does_not_run_there_after_the_leader_starts_anew() {
    let mut bench = Bench::new(&["a", "b"]);
    bench.submit("a", 1, create(7, &["a", "b"]));
    for _ in 0..20 {
        bench.wait(100);
        while let Some((site, id, _)) = bench.calls.pop() {
            bench.outcome(site.as_str(), id, applied(Some(&format!("{site}-1"))));
        }
    }
    let backup = bench.disks[&name("b")].clone();
    bench.submit("a", 2, timed(8, 7, &["a", "b"]));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
    bench.settle();
    give_up_at_b(&mut bench);
    assert!(!runs_after_restore(&mut bench, backup, 8));
}
