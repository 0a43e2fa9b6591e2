//! What a durable commit costs: `cargo bench -p cheops-store`. `-- FOLDER` chooses the disk.
//!
//! Plain clocks. Each writer is a thread that commits one batch after another; the first row is
//! what the disk itself takes for a sync, so that the others can be read against it.

// A benchmark prints, and stops at the first fault.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cheops_store::sqlite::SqliteStore;
use cheops_store::{Batch, KeyRange, Store, Table};
use tempfile::TempDir;

const ROUND: Duration = Duration::from_secs(3);
const VALUE_BYTES: usize = 1024;

fn main() {
    // Cargo passes words of its own, all of which begin with a dash.
    let at = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let folder = match at {
        Some(at) => tempfile::tempdir_in(at),
        None => tempfile::tempdir(),
    };
    let folder = folder.unwrap();
    println!(
        "{:<36} {:>10} {:>10} {:>10} {:>10}",
        "", "per s", "median", "p99", "group"
    );
    syncs(folder.path());
    for writers in [1, 32, 256] {
        commits(&folder, writers);
    }
    submissions(&folder, 256);
    reads(&folder);
}

/// Appends of 4 KiB, each followed by a sync: the floor under a lone commit.
fn syncs(folder: &Path) {
    let mut file = File::create(folder.join("syncs")).unwrap();
    let took = repeat(|| {
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
    });
    row(
        "append 4 KiB and sync",
        took.len() as f64 / ROUND.as_secs_f64(),
        took,
        1.0,
    );
}

fn commits(folder: &TempDir, writers: usize) {
    let store = SqliteStore::open(&folder.path().join(format!("commits-{writers}"))).unwrap();
    let next = AtomicU64::new(0);
    let mut took = Vec::new();
    std::thread::scope(|scope| {
        let each = || {
            repeat(|| {
                store
                    .commit(batch(next.fetch_add(1, Ordering::Relaxed)))
                    .unwrap()
            })
        };
        let running: Vec<_> = (0..writers).map(|_| scope.spawn(each)).collect();
        for writer in running {
            took.extend(writer.join().unwrap());
        }
    });
    let rate = took.len() as f64 / ROUND.as_secs_f64();
    row(
        &format!("commits, {writers} threads"),
        rate,
        took,
        group(&store),
    );
}

/// One thread that keeps `in_flight` batches under way: how the engine does it.
fn submissions(folder: &TempDir, in_flight: usize) {
    let store = SqliteStore::open(&folder.path().join("submissions")).unwrap();
    let (told, heard) = mpsc::channel();
    let submit = |number| {
        let (told, began) = (told.clone(), Instant::now());
        let done = Box::new(move |stored: Result<(), _>| {
            stored.unwrap();
            // The last ones end after the clock, and nobody listens.
            let _ = told.send(began.elapsed());
        });
        store.submit(batch(number), done);
    };
    (0..in_flight as u64).for_each(submit);
    let mut number = in_flight as u64;
    let took = repeat_timed(|| {
        let took = heard.recv().unwrap();
        submit(number);
        number += 1;
        took
    });
    let rate = took.len() as f64 / ROUND.as_secs_f64();
    row(
        &format!("submissions, {in_flight} under way"),
        rate,
        took,
        group(&store),
    );
}

fn reads(folder: &TempDir) {
    const RECORDS: u64 = 20_000;
    let store = SqliteStore::open(&folder.path().join("reads")).unwrap();
    for first in (0..RECORDS).step_by(1000) {
        let mut many = Batch::new();
        for number in first..first + 1000 {
            many.put(Table::Log, key(number), vec![7; VALUE_BYTES])
                .unwrap();
        }
        store.commit(many).unwrap();
    }
    let mut number = 0;
    let took = repeat(|| {
        number = (number + 7919) % RECORDS;
        store.get(Table::Log, &key(number)).unwrap().unwrap();
    });
    row(
        "gets, 1 thread",
        took.len() as f64 / ROUND.as_secs_f64(),
        took,
        0.0,
    );
    let mut entries = 0;
    let took = repeat(|| {
        let page = store.scan(Table::Log, KeyRange::all(), 1000).unwrap();
        entries += page.entries.len();
    });
    row(
        "entries scanned, pages of 1000",
        entries as f64 / ROUND.as_secs_f64(),
        took,
        0.0,
    );
}

/// A record and its place in the log: two small writes, as an operation makes them.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    let id = blake3::hash(&number.to_le_bytes());
    batch
        .put(
            Table::Operations,
            &id.as_bytes()[..16],
            vec![7; VALUE_BYTES],
        )
        .unwrap();
    batch
        .put(Table::Log, key(number), &id.as_bytes()[..16])
        .unwrap();
    batch
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn group(store: &SqliteStore) -> f64 {
    let counters = store.counters();
    counters.batches as f64 / counters.groups as f64
}

fn repeat(mut once: impl FnMut()) -> Vec<Duration> {
    repeat_timed(|| {
        let began = Instant::now();
        once();
        began.elapsed()
    })
}

fn repeat_timed(mut once: impl FnMut() -> Duration) -> Vec<Duration> {
    let end = Instant::now() + ROUND;
    let mut took = Vec::new();
    while Instant::now() < end {
        took.push(once());
    }
    took
}

fn row(name: &str, rate: f64, mut took: Vec<Duration>, group: f64) {
    took.sort();
    let ms = |at: usize| format!("{:.3} ms", took[at].as_secs_f64() * 1000.0);
    let (median, p99) = (ms(took.len() / 2), ms(took.len() * 99 / 100));
    let group = if group > 0.0 {
        format!("{group:.1}")
    } else {
        String::new()
    };
    println!("{name:<36} {rate:>10.0} {median:>10} {p99:>10} {group:>10}");
}
