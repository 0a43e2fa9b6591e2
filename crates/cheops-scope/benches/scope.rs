//! How long a scope takes: to read, to resolve, to remember. `cargo bench -p cheops-scope`.
//!
//! Plain clocks: each row is the median of several rounds, each long enough to drown the clock.

// A benchmark prints.
#![allow(clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use cheops_scope::{Checked, Memo, Scope, World, parse};

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(40);

/// 40 bytes, as people write them.
const SCOPE: &str = "compute: paris1, image: lyon1 & rennes12";

fn main() {
    println!("{:<52} {:>12} {:>12}", "", "median", "aim");
    reading();
    resolving();
    remembering();
    println!(
        "\n{:<52} {:>12} {:>12}",
        "worst texts", "median", "per byte"
    );
    worst_texts();
}

fn reading() {
    assert_eq!(SCOPE.len(), 40);
    row("parse and check, 40 bytes", "1 µs", || {
        parse(black_box(SCOPE)).and_then(Scope::check)
    });
}

fn resolving() {
    let world = world(1000);
    let scope = checked("compute: site1, image: site2 & site3");
    row("resolve, two bindings, 1,000 sites", "1 µs", || {
        scope.resolve(black_box(&world))
    });
    let world = self::world(5000);
    let scope = checked("image: around(site0, 1h)");
    row("resolve around, 5,000 sites within", "1 ms", || {
        scope.resolve(black_box(&world))
    });
    let scope = checked("image: around(site0, 50ms)");
    row("resolve around, 50 of 5,000 sites within", "1 ms", || {
        scope.resolve(black_box(&world))
    });
}

fn remembering() {
    let mut memo = Memo::new(1024);
    for n in 0..1000 {
        memo.put(
            format!("compute: site{n}, image: site{}", n + 1).as_bytes(),
            n,
        );
    }
    let known = b"compute: site500, image: site501".as_slice();
    row("memo, known bytes", "50 ns", || memo.get(black_box(known)));
}

/// Time per byte has to stay flat from row to row.
fn worst_texts() {
    let families = [
        ("one group of groups", "s:", "a&b+", "a"),
        ("choices", "s:", "a;", "a"),
        ("calls", "s:", "none(a);", "a"),
        ("parentheses without an end", "s:", "(", ""),
        ("one long quote", "s:\"", "\\\\", ""),
        ("one name of many words", "s:", "a ", "a"),
    ];
    for (name, open, middle, close) in families {
        for length in [1024, 2048, 4096] {
            let times = (length - open.len() - close.len()) / middle.len();
            per_byte(name, &format!("{open}{}{close}", middle.repeat(times)));
        }
    }
    for length in [1024, 2048, 4096] {
        let pairs: String = (0..length / 8 - 2).map(|n| format!("k{n:04}=v,")).collect();
        per_byte("different keys", &format!("s:all({pairs}k=v)"));
    }
}

fn per_byte(name: &str, text: &str) {
    let took = median(|| parse(black_box(text)).and_then(Scope::check));
    let each = took.as_nanos() as f64 / text.len() as f64;
    let name = format!("{name}, {} bytes", text.len());
    println!("{name:<52} {took:>12.1?} {each:>9.2} ns");
}

fn row<T>(name: &str, aim: &str, run: impl FnMut() -> T) {
    println!("{name:<52} {:>12.1?} {aim:>12}", median(run));
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

fn checked(text: &str) -> Checked {
    parse(text).and_then(Scope::check).expect("it is a scope")
}

/// site0 … with a round trip from site0 to every other.
fn world(sites: u64) -> World {
    let name = |n: u64| format!("site{n}").parse().expect("it is a name");
    let mut world = World::builder(name(0));
    for n in 1..sites {
        world.site(name(n));
        world.round_trip(name(0), name(n), Duration::from_millis(n));
    }
    for service in ["compute", "image"] {
        world.service(service.parse().expect("it is a name"), []);
    }
    world.build()
}
