//! How long a request takes to be classified, and a body to be rewritten. `cargo bench -p cheops-rest`.
//!
//! Plain clocks: each row is the median of several rounds, each long enough to drown the clock.

// A benchmark prints.
#![allow(clippy::print_stdout, missing_docs)]

use std::borrow::Cow;
use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use cheops_rest::{Answer, Api, Body, Id, Side};

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(40);

fn main() {
    println!("{:<58} {:>12} {:>12}", "", "median", "per byte");
    classifying();
    rewriting();
    merging();
}

fn classifying() {
    let rest = api(include_str!("../../../profiles/rest.toml"));
    let compute = api(include_str!("../../../profiles/openstack-compute.toml"));
    let id = "/v2.1/servers/72d5c1a0-0000-4000-8000-00000000000a";
    for (name, api) in [("rest", &rest), ("openstack-compute", &compute)] {
        row(&format!("classify a read, {name}"), || {
            api.classify("GET", black_box(id)).item().is_some()
        });
        row(&format!("classify an action, {name}"), || {
            api.classify(
                "POST",
                black_box("/v2.1/servers/72d5c1a0-0000-4000-8000-00000000000a/action"),
            )
            .item()
            .is_some()
        });
        row(&format!("classify a list, {name}"), || {
            api.classify("GET", black_box("/v2.1/servers?limit=20"))
                .spot()
                .is_some()
        });
        row(&format!("ids of a path, none known, {name}"), || {
            let mut count = 0;
            api.target_ids(black_box(id), |_, _| count += 1);
            count
        });
    }
}

fn rewriting() {
    let rest = api(include_str!("../../../profiles/rest.toml"));
    for items in [1, 100, 10_000] {
        let list = list(items, "9f6c1a52-7f0e-4a53-9f3e-");
        let body = Body {
            side: Side::Answer,
            kind: Some("images"),
            media: Some("application/json"),
            encoding: None,
            bytes: list.as_bytes(),
        };
        per_byte(
            &format!("rewrite a list of {items}, no id known"),
            list.len(),
            || {
                rest.rewrite_body(black_box(&body), |_| None)
                    .map(|body| body.len())
            },
        );
        per_byte(
            &format!("rewrite a list of {items}, every id replaced"),
            list.len(),
            || {
                rest.rewrite_body(black_box(&body), replaced)
                    .map(|body| body.len())
            },
        );
    }
}

fn replaced(id: &Id<'_>) -> Option<Cow<'static, str>> {
    (id.text.len() == 36).then_some(Cow::Borrowed("72d5c1a0-0000-4000-8000-00000000000a"))
}

fn merging() {
    let rest = api(include_str!("../../../profiles/rest.toml"));
    let (one, two) = (
        list(1000, "9f6c1a52-7f0e-4a53-9f3e-"),
        list(1000, "1d0e3c52-7f0e-4a53-9f3e-"),
    );
    let (one, two) = (
        Answer {
            headers: &[],
            body: one.as_bytes(),
        },
        Answer {
            headers: &[],
            body: two.as_bytes(),
        },
    );
    per_byte(
        "merge two lists of 1000",
        one.body.len() + two.body.len(),
        || {
            rest.merge("images", black_box(&[&[one], &[two]]))
                .map(|body| body.len())
        },
    );
}

fn list(items: usize, prefix: &str) -> String {
    let mut list = "{\"images\": [".to_owned();
    for n in 0..items {
        let comma = if n == 0 { "" } else { ", " };
        let id = format!("{prefix}{n:012x}");
        let _ = write!(
            list,
            "{comma}{{\"id\": \"{id}\", \"name\": \"debian {n}\", \"size\": {n}, \"status\": \"active\", \
             \"tags\": [\"stable\", \"x86\"], \"owner_id\": null, \"self\": \"/v2/images/{id}\"}}"
        );
    }
    list + "]}"
}

fn api(profile: &str) -> Api {
    Api::compile(&toml::from_str(profile).expect("it is a profile")).expect("it is a good one")
}

fn row<T>(name: &str, run: impl FnMut() -> T) {
    println!("{name:<58} {:>12.1?}", median(run));
}

fn per_byte<T>(name: &str, bytes: usize, run: impl FnMut() -> T) {
    let took = median(run);
    let each = took.as_nanos() as f64 / bytes as f64;
    println!("{name:<58} {took:>12.1?} {each:>9.2} ns");
}

/// The median over the rounds of the mean time of a call.
fn median<T>(mut run: impl FnMut() -> T) -> Duration {
    let mut calls = 1;
    while time(calls, &mut run) < ROUND {
        calls *= 2;
    }
    let mut rounds: Vec<Duration> = (0..ROUNDS).map(|_| time(calls, &mut run) / calls).collect();
    rounds.sort();
    rounds[ROUNDS / 2]
}

fn time<T>(calls: u32, run: &mut impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(run());
    }
    start.elapsed()
}
