//! Messages in any order, repeated, to the wrong site, from strangers: never a panic.

mod common;

use cheops_core::operation::Kind;
use cheops_core::{Boot, Call, Envelope, Event, ReplicantId};
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
}
