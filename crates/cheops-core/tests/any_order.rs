//! Messages in any order, repeated, to the wrong site, from strangers: never a panic.

mod common;

use cheops_core::operation::Kind;
use cheops_core::{Boot, Call, Envelope, Event, Message, ReplicantId};
use common::{Bench, applied, create, name, submission, update};
use proptest::prelude::*;

const SITES: &[&str] = &["a", "b", "c"];

/// Everything three sites say to each other in a life with a hand-over.
fn said() -> Vec<Envelope> {
    let mut bench = Bench::new(SITES);
    let mut said = Vec::new();
    bench.submit("a", 1, create(7, SITES));
    for round in 0..12 {
        said.extend(bench.posts.iter().map(|(_, _, envelope)| envelope.clone()));
        match round {
            2 => bench.submit("b", 2, update(8, 7, &[("x", "1")], SITES)),
            4 => bench.step("b", Event::Promote(ReplicantId(7))),
            6 => bench.submit("c", 3, submission(9, 7, Kind::Action, &[], SITES)),
            8 => bench.submit("a", 4, submission(10, 7, Kind::Delete, &[], SITES)),
            _ => (),
        }
        said.extend(bench.posts.iter().map(|(_, _, envelope)| envelope.clone()));
        bench.wait(1_000);
        while let Some((site, id, call)) = bench.calls.pop() {
            let local = matches!(call, Call::Create { .. }).then_some("3");
            bench.outcome(site.as_str(), id, applied(local));
            said.extend(bench.posts.iter().map(|(_, _, envelope)| envelope.clone()));
        }
    }
    said.retain(|envelope| envelope.message.is_some());
    said
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn nothing_said_at_the_wrong_time_is_a_panic(
        order in proptest::collection::vec((0usize..10_000, 0usize..3, 0usize..4), 1..120)
    ) {
        let said = said();
        let mut bench = Bench::new(SITES);
        let boot = Boot { incarnation: 1, start: 1 };
        for (number, (which, to, from)) in order.into_iter().enumerate() {
            let message = said[which % said.len()].message.clone();
            let number = number as u64 + 1_000;
            let envelope = Envelope { from: boot, to: Some(boot), number, message };
            let from = name(["a", "b", "c", "stranger"][from]);
            bench.step(SITES[to], Event::Message { from, envelope });
            bench.posts.clear();
            if let Some((site, id, call)) = bench.calls.pop() {
                let local = matches!(call, Call::Create { .. }).then_some("3");
                bench.outcome(site.as_str(), id, applied(local));
            }
        }
        bench.wait(5_000);
    }

    /// Whatever of it can be read at all: positions and reigns from the future, ends before beginnings, other names.
    #[test]
    fn nothing_that_was_altered_on_its_way_is_a_panic(
        flips in proptest::collection::vec((0usize..10_000, 0usize..3, 0usize..10_000, any::<u8>()), 1..60)
    ) {
        let said = said();
        let mut bench = Bench::new(SITES);
        let boot = Boot { incarnation: 1, start: 1 };
        bench.submit("a", 1, create(7, SITES));
        for (number, (which, to, at, with)) in flips.into_iter().enumerate() {
            let envelope = said[which % said.len()].clone();
            let mut bytes = postcard::to_stdvec(&envelope.message).expect("a message can be written");
            let at = at % bytes.len();
            bytes[at] ^= with;
            let Ok(message) = postcard::from_bytes::<Option<Message>>(&bytes) else {
                continue;
            };
            let envelope = Envelope { from: boot, to: Some(boot), number: number as u64 + 1_000, message };
            let from = name(SITES[(to + 1 + number % 2) % SITES.len()]);
            bench.step(SITES[to], Event::Message { from, envelope });
            bench.posts.clear();
            if let Some((site, id, call)) = bench.calls.pop() {
                let local = matches!(call, Call::Create { .. }).then_some("3");
                bench.outcome(site.as_str(), id, applied(local));
            }
        }
        bench.wait(5_000);
    }
}

#[test]
fn a_position_from_the_future_is_not_listened_to() {
    let mut bench = Bench::new(SITES);
    let boot = Boot {
        incarnation: 1,
        start: 1,
    };
    for (number, mut envelope) in said().into_iter().enumerate() {
        let Some(Message::Append { header, .. }) = &mut envelope.message else {
            continue;
        };
        header.epoch.counter = u64::MAX;
        header.runs.last = u64::MAX;
        let from = header.epoch.site.clone();
        (envelope.from, envelope.to, envelope.number) = (boot, Some(boot), number as u64 + 1);
        bench.step("b", Event::Message { from, envelope });
    }
    assert!(
        bench.sites[&name("b")].replicant(ReplicantId(7)).is_none(),
        "nothing was believed"
    );
}

#[test]
fn a_removed_member_is_not_listened_to() {
    let mut bench = Bench::new(SITES);
    let boot = Boot {
        incarnation: 1,
        start: 1,
    };
    bench.step("b", Event::Remove(name("a")));
    for (number, mut envelope) in said().into_iter().enumerate() {
        (envelope.from, envelope.to, envelope.number) = (boot, Some(boot), number as u64 + 1);
        let from = name("a");
        bench.step("b", Event::Message { from, envelope });
    }
    assert!(
        bench.sites[&name("b")].replicant(ReplicantId(7)).is_none(),
        "nothing was believed"
    );
    assert!(bench.posts.is_empty(), "and nothing was answered");
}
