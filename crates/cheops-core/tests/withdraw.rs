//! Requests that are kept for one other site, by hand: until when they can be given up, and that they stay given up.

mod common;

use cheops_core::eventual::{Message, Progress};
use cheops_core::operation::{Form, Kind, Mode};
use cheops_core::{Answer, Call, ClientId, Event, OperationId, Submission};
use common::{Bench, applied, name, submission};

const TTL_MS: u64 = 60_000;

fn queued(id: u128) -> Submission {
    let mut queued = submission(id, id, Kind::Action, &[], &["b"]);
    queued.op.ttl_ms = Some(TTL_MS);
    queued.form = Form::Queue;
    queued.mode = Mode::Async;
    queued
}

/// `b` is away, as `a` knows, and `a` has taken these for it.
fn away(ids: &[u128]) -> Bench {
    let mut bench = Bench::new(&["a", "b"]);
    bench.step("a", Event::Down(name("b")));
    for id in ids {
        bench.submit("a", *id as u64, queued(*id));
        assert_eq!(bench.answer_to(*id as u64), Some(&Answer::Accepted));
    }
    bench
}

/// What somebody is told who wants it not to happen.
fn cancel(bench: &mut Bench, site: &str, op: u128) -> Answer {
    let (client, op) = (ClientId(1_000), OperationId(op));
    bench.step(site, Event::Cancel { client, op });
    bench.answer_to(1_000).cloned().expect("it is answered")
}

/// Which of them `b` is asked to run from now on, in order.
fn run_at_b(bench: &mut Bench) -> Vec<u128> {
    let mut ran = Vec::new();
    for _ in 0..60 {
        bench.wait(100);
        for (site, id, call) in std::mem::take(&mut bench.calls) {
            if let Call::Run { op, .. } = &call {
                ran.push(op.id.0);
            }
            bench.outcome(site.as_str(), id, applied(None));
        }
    }
    ran
}

fn is_back(bench: &mut Bench) {
    bench.step("a", Event::Up(name("b")));
    bench.step("b", Event::Up(name("a")));
}

fn progress(bench: &Bench, op: u128) -> Progress {
    let view = bench.sites[&name("a")].operation(OperationId(op));
    let view = view.expect("it is known");
    view.sites[&name("b")].progress
}

/// How many entries of logs are on their way.
fn on_their_way(bench: &Bench) -> usize {
    let posts = bench.posts.iter();
    posts
        .map(|(_, _, envelope)| match &envelope.message {
            Some(Message::Append { entries, .. }) => entries.len(),
            _ => 0,
        })
        .sum()
}

#[test]
fn what_is_given_up_never_runs_and_those_behind_it_run_in_order() {
    let mut bench = away(&[11, 12, 13]);
    assert_eq!(cancel(&mut bench, "a", 12), Answer::Cancelled);
    assert_eq!(progress(&bench, 11), Progress::Queued);
    assert_eq!(progress(&bench, 12), Progress::Cancelled);
    is_back(&mut bench);
    assert_eq!(run_at_b(&mut bench), [11, 13]);
    assert_eq!(progress(&bench, 12), Progress::Cancelled);
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Conflict);
    assert_eq!(cancel(&mut bench, "a", 12), Answer::Cancelled);
}

#[test]
fn a_retry_hears_that_it_was_given_up_and_so_does_whoever_waits() {
    let mut bench = away(&[11]);
    let mut waits = queued(11);
    waits.mode = Mode::Wait(5_000);
    bench.submit("a", 2, waits.clone());
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Cancelled);
    assert_eq!(bench.answer_to(2), Some(&Answer::Cancelled));
    bench.submit("a", 3, queued(11));
    assert_eq!(bench.answer_to(3), Some(&Answer::Cancelled));
    waits.op.digest ^= 1;
    bench.submit("a", 4, waits);
    assert_eq!(bench.answer_to(4), Some(&Answer::KeyReused));
}

#[test]
fn nothing_is_sent_into_the_blue_and_so_it_can_be_given_up_for_as_long_as_that_lasts() {
    let mut bench = away(&[11, 12]);
    bench.posts.clear();
    for _ in 0..10 {
        // Nobody is there to hear it.
        bench.now_ms += 1_000;
        bench.step("a", Event::Tick);
        assert_eq!(on_their_way(&bench), 0);
        bench.posts.clear();
    }
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Cancelled);
    assert_eq!(cancel(&mut bench, "a", 12), Answer::Cancelled);
}

#[test]
fn what_may_have_been_sent_is_not_given_up_and_nothing_changes() {
    let mut bench = away(&[11, 12]);
    bench.step("a", Event::Up(name("b")));
    assert_eq!(on_their_way(&bench), 2);
    // Lost, as it happens; nobody can know.
    bench.posts.clear();
    bench.step("a", Event::Down(name("b")));
    bench.writes.clear();
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Conflict);
    assert!(bench.writes.is_empty());
    bench.start("a", 1);
    assert_eq!(cancel(&mut bench, "a", 12), Answer::Conflict);
    assert_eq!(run_at_b(&mut bench), [11, 12]);
}

#[test]
fn that_it_leaves_is_on_disk_before_it_leaves() {
    let mut bench = away(&[11]);
    bench.writes.clear();
    bench.step("a", Event::Up(name("b")));
    let logs = bench.writes.iter();
    let logs = logs.filter(|change| change.table == cheops_core::Table::Log);
    assert_eq!((logs.count(), on_their_way(&bench)), (1, 1));
}

#[test]
fn it_can_be_given_up_after_a_crash_and_stays_given_up_after_another() {
    let mut bench = away(&[11, 12, 13]);
    bench.posts.clear();
    bench.start("a", 1);
    assert_eq!(on_their_way(&bench), 0, "b was not heard of since");
    assert_eq!(cancel(&mut bench, "a", 12), Answer::Cancelled);
    bench.posts.clear();
    bench.start("a", 1);
    assert_eq!(progress(&bench, 12), Progress::Cancelled);
    bench.submit("a", 3, queued(12));
    assert_eq!(bench.answer_to(3), Some(&Answer::Cancelled));
    assert_eq!(run_at_b(&mut bench), [11, 13]);
}

#[test]
fn a_disk_that_was_put_back_gives_nothing_up_and_runs_nothing_that_was_given_up_since() {
    let mut bench = away(&[11]);
    let backup = bench.disks[&name("a")].clone();
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Cancelled);
    bench.posts.clear();
    bench.disks.insert(name("a"), backup);
    bench.start("a", 2);
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Conflict);
    assert_eq!(run_at_b(&mut bench), Vec::<u128>::new());
}

#[test]
fn a_disk_that_was_put_back_may_have_sent_what_it_does_not_remember() {
    let mut bench = away(&[11]);
    let backup = bench.disks[&name("a")].clone();
    is_back(&mut bench);
    bench.deliver();
    assert_eq!(bench.calls.len(), 1, "b runs it");
    bench.disks.insert(name("a"), backup);
    bench.start("a", 2);
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Conflict);
    bench.settle();
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Conflict);
}

#[test]
fn only_whoever_keeps_it_gives_it_up() {
    let mut bench = Bench::new(&["a", "b"]);
    bench.submit("a", 1, queued(11));
    bench.settle();
    assert_eq!(cancel(&mut bench, "b", 11), Answer::Conflict);
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Conflict);
    assert_eq!(run_at_b(&mut bench), [11]);
}

#[test]
fn a_target_that_starts_anew_in_between_does_not_run_it_either() {
    let mut bench = away(&[11, 12]);
    assert_eq!(cancel(&mut bench, "a", 11), Answer::Cancelled);
    is_back(&mut bench);
    bench.deliver();
    bench.calls.clear();
    bench.start("b", 1);
    let backup = bench.disks[&name("b")].clone();
    assert!(!run_at_b(&mut bench).contains(&11));
    bench.disks.insert(name("b"), backup);
    bench.start("b", 2);
    bench.start("a", 1);
    assert!(!run_at_b(&mut bench).contains(&11));
}
