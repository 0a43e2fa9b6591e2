//! A new disk is told what there is page by page.

#![allow(clippy::unwrap_used)]

mod common;

use cheops_core::{Event, Message, ReplicantId};
use common::{Bench, SHARED_MAX, applied, create, name};

const SITES: &[&str] = &["a", "b"];
const MANY: u128 = SHARED_MAX as u128 * 2 + 1;

/// Many that are the same on both sites, led by `a`; then the disk of `b` is a new one.
fn wiped() -> Bench {
    let mut bench = Bench::new(SITES);
    for id in 1..=MANY {
        bench.submit("a", id as u64, create(id, SITES));
        for site in SITES {
            let (call, _) = bench.call_at(site);
            bench.outcome(site, call, applied(Some(&id.to_string())));
            bench.settle();
        }
    }
    bench.disks.get_mut(&name("b")).unwrap().clear();
    bench.start("b", 2);
    bench
}

/// Delivers what is on its way once, but for what is to be lost. How many replicants each page told.
fn round(bench: &mut Bench, mut is_lost: impl FnMut(&Message) -> bool) -> Vec<usize> {
    let mut pages = Vec::new();
    for (from, to, envelope) in std::mem::take(&mut bench.posts) {
        if let Some(Message::Shared { headers, .. }) = &envelope.message {
            pages.push(headers.len());
        }
        if !envelope.message.as_ref().is_some_and(&mut is_lost) {
            bench.step(to.as_str(), Event::Message { from, envelope });
        }
    }
    pages
}

fn known(bench: &Bench) -> usize {
    let (awake, resting) = bench.sites[&name("b")].populations();
    awake + resting
}

#[test]
fn a_page_at_a_time_until_everything_is_told() {
    let mut bench = wiped();
    let mut pages = Vec::new();
    while !bench.posts.is_empty() {
        pages.extend(round(&mut bench, |_| false));
    }
    assert_eq!(pages, [SHARED_MAX, SHARED_MAX, 1]);
    assert_eq!(known(&bench), MANY as usize);
}

#[test]
fn a_page_that_is_lost_is_asked_for_again_and_no_other() {
    let mut bench = wiped();
    let mut pages = Vec::new();
    let second = |message: &Message| matches!(message, Message::Shared { after: Some(_), .. });
    while !bench.posts.is_empty() {
        pages.extend(round(&mut bench, second));
    }
    assert_eq!(pages, [SHARED_MAX, SHARED_MAX], "the second did not arrive");
    bench.wait(2_000);
    assert_eq!(known(&bench), MANY as usize);
}

#[test]
fn whoever_does_not_come_forward_is_not_listened_to() {
    let mut bench = wiped();
    let mut heard = 0;
    for _ in 0..20 {
        // A peer whose every page says that there is more, and where it began.
        for (_, _, envelope) in &mut bench.posts {
            if let Some(Message::Shared { after, next, .. }) = &mut envelope.message {
                *next = after.or(Some(ReplicantId(0)));
                *after = *next;
            }
        }
        heard += round(&mut bench, |_| false).len();
    }
    assert_eq!(
        heard, 1,
        "nothing more is asked of it before the time has come"
    );
    assert!(known(&bench) <= SHARED_MAX);
}
