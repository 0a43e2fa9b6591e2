//! How the log gets to the others: each entry once, again if it was lost, and what reports bring with no write of its own.

#![allow(clippy::unwrap_used)]

mod common;

use cheops_core::limits::{HEARD_MAX, IN_FLIGHT_MAX, NEWS_MS, REPORT_MS, RESEND_MS};
use cheops_core::{Event, Message, ReplicantId, Table};
use common::{Bench, applied, create, name, update};

const SITES: &[&str] = &["a", "b"];

/// One that is the same on both sites, led by `a`.
fn made() -> Bench {
    let mut bench = Bench::new(SITES);
    bench.submit("a", 1, create(7, SITES));
    for site in SITES {
        let (call, _) = bench.call_at(site);
        bench.outcome(site, call, applied(Some(site)));
        bench.settle();
    }
    bench
}

/// `a` orders and does the next update; nothing is delivered.
fn change(bench: &mut Bench, number: u64) {
    bench.now_ms += 1;
    let id = 100 + u128::from(number);
    bench.submit("a", number, update(id, 7, &[("name", "new")], SITES));
    let (call, _) = bench.call_at("a");
    bench.outcome("a", call, applied(None));
}

/// Indexes of the entries that are on their way to `b`, message by message.
fn under_way(bench: &Bench) -> Vec<Vec<u64>> {
    let appends = bench.posts.iter().filter(|(_, to, _)| *to == name("b"));
    appends
        .filter_map(|(_, _, envelope)| match &envelope.message {
            Some(Message::Append { entries, .. }) => {
                Some(entries.iter().map(|entry| entry.index).collect())
            }
            _ => None,
        })
        .collect()
}

fn applied_at_b(bench: &mut Bench) -> u64 {
    while bench.calls.iter().any(|(site, ..)| *site == name("b")) {
        let (call, _) = bench.call_at("b");
        bench.outcome("b", call, applied(None));
        bench.settle();
    }
    let view = bench.sites[&name("a")].replicant(ReplicantId(7)).unwrap();
    view.rows[&name("b")].applied
}

#[test]
fn an_entry_is_sent_once_however_long_its_answer_takes() {
    let mut bench = made();
    for number in 1..=3 {
        change(&mut bench, number);
    }
    assert_eq!(under_way(&bench), [vec![2], vec![3], vec![4]]);
    bench.settle();
    assert_eq!(applied_at_b(&mut bench), 4);
}

#[test]
fn what_was_lost_is_sent_again_from_what_the_site_has() {
    let mut bench = made();
    for number in 1..=2 {
        change(&mut bench, number);
    }
    bench.posts.remove(0);
    // The second comes, and does not follow what `b` has: its answer shows that the first was lost.
    bench.deliver();
    assert_eq!(applied_at_b(&mut bench), 3);

    change(&mut bench, 3);
    change(&mut bench, 4);
    bench.posts.clear();
    bench.wait(RESEND_MS.0);
    assert_eq!(applied_at_b(&mut bench), 5);
}

#[test]
fn so_many_are_under_way_and_the_others_follow_when_they_have_come() {
    let mut bench = made();
    let many = IN_FLIGHT_MAX as u64 + 5;
    for number in 1..=many {
        change(&mut bench, number);
        // Nothing is said again for want of time.
        bench.now_ms -= 1;
    }
    let sent: Vec<u64> = under_way(&bench).concat();
    assert_eq!(sent, (2..2 + IN_FLIGHT_MAX as u64).collect::<Vec<_>>());
    bench.settle();
    assert_eq!(applied_at_b(&mut bench), many + 1);
}

#[test]
fn a_site_out_of_reach_is_sent_to_only_now_and_then() {
    let mut bench = made();
    change(&mut bench, 1);
    bench.step("a", Event::Down(name("b")));
    bench.posts.clear();
    for number in 2..=4 {
        change(&mut bench, number);
    }
    assert_eq!(under_way(&bench), Vec::<Vec<u64>>::new());
    bench.step("a", Event::Up(name("b")));
    assert_eq!(under_way(&bench), [vec![2, 3, 4, 5]]);
}

#[test]
fn a_report_is_written_with_what_follows_from_it() {
    let mut bench = made();
    change(&mut bench, 1);
    bench.deliver();
    let (call, _) = bench.call_at("b");
    bench.writes.clear();
    bench.outcome("b", call, applied(None));
    bench.now_ms += 10;
    bench.step("b", Event::Tick);
    bench.writes.clear();
    // `a` hears that `b` has done it, and has nothing to say at once.
    bench.deliver();
    let rows = |bench: &Bench| {
        let writes = bench.writes.iter();
        writes
            .filter(|change| change.table == Table::Replicants)
            .count()
    };
    assert_eq!(rows(&bench), 0);
    let at_a = |bench: &Bench| {
        let view = bench.sites[&name("a")].replicant(ReplicantId(7)).unwrap();
        view.rows[&name("b")].applied
    };
    assert_eq!(at_a(&bench), 2);
    // It spreads the news, and only on disk it is what it tells.
    bench.now_ms += NEWS_MS;
    bench.step("a", Event::Tick);
    assert!(rows(&bench) > 0 && !bench.posts.is_empty());
    bench.posts.clear();
    bench.start("a", 1);
    assert_eq!(at_a(&bench), 2);
}

#[test]
fn so_many_reports_wait_to_be_written_and_no_more() {
    let mut bench = Bench::new(SITES);
    let many = HEARD_MAX as u128 + 1;
    for id in 1..=many {
        bench.submit("a", id as u64, create(id, SITES));
        for site in SITES {
            let (call, _) = bench.call_at(site);
            bench.outcome(site, call, applied(Some(&id.to_string())));
            bench.deliver();
        }
    }
    bench.now_ms += REPORT_MS;
    bench.step("b", Event::Tick);
    let reports = std::mem::take(&mut bench.posts);
    assert_eq!(reports.len() as u128, many);
    let written = |bench: &Bench| {
        let writes = bench.writes.iter();
        writes
            .filter(|change| change.table == Table::Replicants)
            .count()
    };
    bench.writes.clear();
    // What `b` told of the last one when it came waits already.
    for (number, (from, to, envelope)) in reports.into_iter().take(HEARD_MAX).enumerate() {
        assert_eq!(written(&bench), 0, "before report {number}");
        bench.step(to.as_str(), Event::Message { from, envelope });
    }
    assert_eq!(written(&bench), HEARD_MAX + 1);
}
