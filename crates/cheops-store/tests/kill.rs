//! `kill -9` of a real process that commits: what it was told is stored, is stored.
//!
//! The test runs itself as a child, with a folder in its environment. The child writes numbered
//! batches from several threads and says each number once it was acknowledged; it is killed at a
//! number drawn by lot. Rounds follow each other on the same store.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cheops_store::sqlite::SqliteStore;
use cheops_store::{Batch, KeyRange, Opening, Store, Table};

const FOLDER: &str = "CHEOPS_STORE_KILL_FOLDER";
const WRITERS: u8 = 8;
/// Where a batch puts its number: all of them or none.
const TABLES: [Table; 3] = [Table::Operations, Table::Log, Table::Outbox];
const ROUNDS_MAX: usize = 200;
const ROUNDS_MIN: usize = 10;
const ROUNDS_FOR: Duration = Duration::from_secs(8);

/// The last number of each writer.
type Numbers = BTreeMap<u8, u64>;

#[test]
fn whatever_was_acknowledged_before_a_kill_is_there_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let mut acknowledged = Numbers::new();
    let mut incarnation = None;
    let mut heard = 0;
    let mut rounds = 0;
    while rounds < ROUNDS_MIN || (rounds < ROUNDS_MAX && began.elapsed() < ROUNDS_FOR) {
        heard += run_and_kill(folder.path(), &mut acknowledged);
        let store = SqliteStore::open(folder.path()).unwrap();
        let found = check(&store, &acknowledged);
        // What was stored and not acknowledged counts from now on: it must not vanish later.
        acknowledged.extend(found);
        let same = *incarnation.get_or_insert(store.incarnation());
        assert_eq!(store.incarnation(), same, "a kill is no new incarnation");
        assert_eq!(store.opening(), Opening::Continued);
        rounds += 1;
    }
    println!("kill: {rounds} rounds, {heard} acknowledged batches");
}

/// Starts a child, hears some numbers, kills it, hears the rest; gives back how many.
fn run_and_kill(folder: &Path, acknowledged: &mut Numbers) -> usize {
    let mut child = Killed(child(folder));
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let last = rand::random_range(1..120);
    let mut heard = 0;
    for line in lines {
        // Other lines are the test harness of the child.
        let Some((writer, number)) = parse(&line.unwrap()) else {
            continue;
        };
        let before = acknowledged.insert(writer, number);
        assert!(before.is_none_or(|before| before < number));
        heard += 1;
        if heard == last {
            child.0.kill().unwrap();
        }
    }
    assert!(heard >= last, "the child ended before it was killed");
    heard
}

fn child(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "commit_until_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A child that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn parse(line: &str) -> Option<(u8, u64)> {
    let (writer, number) = line.strip_prefix("stored ")?.split_once(' ')?;
    Some((writer.parse().ok()?, number.parse().ok()?))
}

/// Every writer's numbers are there without a gap, whole, and as far as was acknowledged.
fn check(store: &SqliteStore, acknowledged: &Numbers) -> Numbers {
    let mut found = Numbers::new();
    for writer in 0..WRITERS {
        let lasts = TABLES.map(|table| last_without_gap(store, table, writer));
        assert_eq!(lasts, [lasts[0]; 3], "half a batch of writer {writer}");
        let told = acknowledged.get(&writer).copied();
        assert!(
            lasts[0] >= told,
            "writer {writer} was told {told:?}, found {:?}",
            lasts[0]
        );
        found.extend(lasts[0].map(|last| (writer, last)));
    }
    found
}

fn last_without_gap(store: &SqliteStore, table: Table, writer: u8) -> Option<u64> {
    let mut next = Some(KeyRange::prefix(&[writer]));
    let mut count = 0;
    while let Some(range) = next {
        let page = store.scan(table, range, 1000).unwrap();
        for (key, value) in page.entries {
            assert_eq!(key[1..], u64::to_be_bytes(count), "a gap");
            assert_eq!(value, content(count));
            count += 1;
        }
        next = page.next;
    }
    count.checked_sub(1)
}

/// Between nothing and a few pages: batches of different shapes.
fn content(number: u64) -> Vec<u8> {
    vec![number.to_le_bytes()[0]; usize::try_from(number * 997 % 9000).unwrap()]
}

/// The child. Run as a test of its own it does nothing.
#[test]
fn commit_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let store = SqliteStore::open(&folder).unwrap();
    let out = Mutex::new(std::io::stdout());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, out) = (&store, &out);
            scope.spawn(move || {
                let first = last_without_gap(store, Table::Log, writer).map_or(0, |last| last + 1);
                for number in first.. {
                    store.commit(batch(writer, number)).unwrap();
                    let mut out = out.lock().unwrap();
                    writeln!(out, "stored {writer} {number}").unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

fn batch(writer: u8, number: u64) -> Batch {
    let mut batch = Batch::new();
    let key = [&[writer][..], &number.to_be_bytes()].concat();
    for table in TABLES {
        batch.put(table, key.as_slice(), content(number)).unwrap();
    }
    batch
}
