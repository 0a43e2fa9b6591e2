//! The store in a process of its own, asked line by line.
//!
//! Of its own because SQLite maps a file into memory: the kernel may hold the memory of a process
//! while it waits for the file system, and a file system in the same process would wait for that.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use cheops_store::sqlite::SqliteStore;
use cheops_store::{Batch, Store, StoreError, Table};

use crate::workload;

const FOLDER: &str = "CHEOPS_STORE_POWER_CUT_FOLDER";

/// The child's side: answers until there are no more questions. `false` in the parent.
pub fn serve() -> bool {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return false;
    };
    let mut store = None;
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match (words.as_slice(), &store) {
            (["open"], _) => match SqliteStore::open(Path::new(&folder)) {
                Ok(opened) => {
                    store = Some(opened);
                    "ok".to_owned()
                }
                Err(error) => name(&error).to_owned(),
            },
            (["close"], _) => {
                store = None;
                "ok".to_owned()
            }
            (["put", key, length], Some(store)) => put(store, key, length.parse().unwrap()),
            (["get", key], Some(store)) => get(store, key),
            (["run", count], Some(store)) => run(store, count.parse().unwrap()),
            other => panic!("{:?}", other.0),
        };
        println!("{answer}");
    }
    true
}

fn put(store: &SqliteStore, key: &str, length: usize) -> String {
    let mut batch = Batch::new();
    batch.put(Table::Log, key, vec![7; length]).unwrap();
    match store.commit(batch) {
        Ok(()) => "ok".to_owned(),
        Err(error) => name(&error).to_owned(),
    }
}

fn get(store: &SqliteStore, key: &str) -> String {
    match store.get(Table::Log, key.as_bytes()) {
        Ok(Some(value)) => value.len().to_string(),
        Ok(None) => "none".to_owned(),
        Err(error) => name(&error).to_owned(),
    }
}

/// Says every number when it was acknowledged, and at the end how many checkpoints there were.
fn run(store: &SqliteStore, count: u64) -> String {
    let out = Mutex::new(std::io::stdout());
    workload::run(store, count, |writer, number| {
        writeln!(out.lock().unwrap(), "stored {writer} {number}").unwrap();
    });
    store.counters().checkpoints.to_string()
}

fn name(error: &StoreError) -> &'static str {
    match error {
        StoreError::Corrupt { .. } => "corrupt",
        StoreError::Full { .. } => "full",
        StoreError::Io(_) => "io",
        StoreError::Unusable { .. } => "unusable",
    }
}

/// The parent's side.
pub struct Remote {
    child: Child,
    questions: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Remote {
    /// Starts a process for the store in `folder`.
    pub fn start(folder: &Path) -> Remote {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Remote {
            child,
            questions,
            answers,
        }
    }

    pub fn ask(&mut self, question: &str) -> String {
        self.ask_hearing(question, |_, _| ())
    }

    /// Asks, and passes on every number that is said before the answer.
    pub fn ask_hearing(&mut self, question: &str, mut heard: impl FnMut(u8, u64)) -> String {
        writeln!(self.questions.as_mut().unwrap(), "{question}").unwrap();
        loop {
            let line = self.answers.next().expect("the child answers").unwrap();
            let Some(rest) = line.strip_prefix("stored ") else {
                return line;
            };
            let (writer, number) = rest.split_once(' ').unwrap();
            heard(writer.parse().unwrap(), number.parse().unwrap());
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.questions = None;
        if std::thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
