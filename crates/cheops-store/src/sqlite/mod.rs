//! A store in a file: SQLite with a write-ahead log, every commit synced.
//!
//! A folder holds `store.db` (and SQLite's `-wal` and `-shm`), `store.marker`, which vouches for
//! it, and `store.lock`. One writer thread commits what has gathered in one transaction; readers
//! have connections of their own. Every value is stored with a seal.

mod backup;
mod checkpoint;
mod fault;
mod folder;
mod marker;
mod meta;
mod queue;
mod readers;
mod rows;
mod schema;
mod shared;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rusqlite::Connection;

pub use backup::restore;
pub use marker::Mark;
pub use meta::Meta;
pub use shared::Counters;

use crate::files;
use crate::key::{Key, KeyRange, Value};
use crate::store::{Done, Page, Store};
use crate::{Batch, Incarnation, Opening, StoreError, Table};
use checkpoint::Checkpoints;
use fault::{file_reaction, reaction};
use folder::Folder;
use marker::Marker;
use queue::{Chore, Job, Queue};
use readers::Readers;
use schema::Found;
use shared::Shared;
use writer::{Marked, Writer};

/// A store in a folder. Closing it (dropping it) stores what was submitted and waits for that.
pub struct SqliteStore {
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    readers: Readers,
    writer: Option<JoinHandle<()>>,
    database: PathBuf,
    meta: Meta,
    opening: Opening,
    /// Let go of last.
    _folder: Folder,
}

impl SqliteStore {
    /// Opens the store in `folder`, and creates it if there never was one.
    pub fn open(folder: &Path) -> Result<SqliteStore, StoreError> {
        let folder = Folder::lock(folder)?;
        let database = folder.database();
        refuse_half_a_store(&folder)?;
        let mut connection = connect(&database)?;
        let created = create_if_empty(&mut connection)?;
        // The name of the database is safe before a marker vouches for it.
        files::sync_folder(&folder.path).map_err(|fault| file_reaction(fault, 0))?;
        carry_over(&connection)?;

        let (meta, sequence) = meta::load(&connection)?;
        let marker = Marker::at(&folder.marker());
        let (meta, opening) = vouch(&connection, &marker, (meta, sequence), created)?;
        let shared = Arc::new(Shared::default());
        let quarantined = rows::quarantine::keys(&connection).map_err(|e| reaction(e, 0))?;
        for (table, key) in quarantined {
            shared.quarantine(table, &key);
        }
        let queue = Arc::new(Queue::default());
        let writer = Writer {
            connection,
            queue: Arc::clone(&queue),
            shared: Arc::clone(&shared),
            marker,
            incarnation: meta.incarnation,
            sequence,
            marked: Marked {
                sequence,
                at: Instant::now(),
            },
            checkpoints: Checkpoints::new(),
        };
        let thread = thread::Builder::new().name("store-writer".to_owned());
        let writer = thread.spawn(move || writer.run()).map_err(StoreError::Io)?;
        Ok(SqliteStore {
            queue,
            readers: Readers::new(&database, Arc::clone(&shared)),
            shared,
            writer: Some(writer),
            database,
            meta,
            opening,
            _folder: folder,
        })
    }

    /// What opening found: the same life, or why a new one began.
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// What was done since it was opened.
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Lets the database grow no further than `bytes_max`: a commit beyond it is `Full`, though the
    /// disk is not, so that the application beside it keeps its room. Holds until it is closed.
    pub fn bound_bytes(&self, bytes_max: u64) -> Result<(), StoreError> {
        self.ask(Chore::Bound(bytes_max))
    }

    /// Writes a copy of one moment to `to`, which must not exist; commits go on meanwhile.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.shared.usable()?;
        backup::backup(&self.database, to)
    }

    fn ask(&self, chore: Chore) -> Result<(), StoreError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let done: Done = Box::new(move |outcome| drop(answer.send(outcome)));
        self.queue_up(Job::Chore(chore, done));
        answered.recv().unwrap_or_else(|_| Err(ended()))
    }

    fn queue_up(&self, job: Job) {
        if let Err(Job::Store(_, done) | Job::Chore(_, done)) = self.queue.add(job) {
            done(Err(ended()));
        }
    }
}

impl Store for SqliteStore {
    fn submit(&self, batch: Batch, done: Done) {
        self.queue_up(Job::Store(batch, done));
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Value>, StoreError> {
        self.readers.get(table, key)
    }

    fn scan(&self, table: Table, range: KeyRange, limit: usize) -> Result<Page, StoreError> {
        self.readers.scan(table, range, limit)
    }

    fn quarantine(&self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.ask(Chore::Quarantine(table, key.to_vec()))
    }

    fn quarantined(&self) -> Result<Vec<(Table, Key)>, StoreError> {
        self.shared.usable()?;
        Ok(self.shared.quarantined())
    }

    fn incarnation(&self) -> Incarnation {
        self.meta.incarnation
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was answered to whoever waited.
            let _ = writer.join();
        }
    }
}

fn ended() -> StoreError {
    StoreError::unusable("its writer has ended")
}

/// A folder that was left half-way, or lost its database, is not silently made an empty store.
fn refuse_half_a_store(folder: &Folder) -> Result<(), StoreError> {
    if folder.restoring().exists() {
        return Err(StoreError::unusable(
            "a restore was not finished; run it again",
        ));
    }
    let database = folder.database();
    let is_empty = std::fs::metadata(&database).map_or(true, |found| found.len() == 0);
    if is_empty && Marker::at(&folder.marker()).is_there() {
        return Err(StoreError::unusable(
            "there was a database here and it is gone; restore the last backup, or remove store.marker to begin \
             with nothing",
        ));
    }
    Ok(())
}

fn connect(database: &Path) -> Result<Connection, StoreError> {
    // Made here and not by SQLite, so that nobody else can read it; its other files follow suit.
    let made = files::open_private(database);
    made.map_err(|fault| file_reaction(fault, 0))?;
    schema::connect_writer(database).map_err(|error| reaction(error, 0))
}

fn create_if_empty(connection: &mut Connection) -> Result<bool, StoreError> {
    let found = schema::inspect(connection)?;
    schema::make_durable(connection).map_err(|error| reaction(error, 0))?;
    if found == Found::Ours {
        return Ok(false);
    }
    let created = schema::create(connection, &Meta::first());
    created.map_err(|error| reaction(error, 0))?;
    Ok(true)
}

/// Carries what a crash left in the log over into the database, synced. New commits never follow
/// frames that may be in the kernel's memory only: a lost frame would take all later ones along.
fn carry_over(connection: &Connection) -> Result<(), StoreError> {
    let carried = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
    carried.map_err(|error| reaction(error, 0))
}

/// Decides whether this is still the same life, and has the marker say so from now on.
fn vouch(
    connection: &Connection,
    marker: &Marker,
    (meta, sequence): (Meta, u64),
    created: bool,
) -> Result<(Meta, Opening), StoreError> {
    let judged = marker.judge(meta.incarnation, sequence);
    let (meta, opening) = match judged.map_err(|fault| file_reaction(fault, 0))? {
        Opening::Continued => return Ok((meta, Opening::Continued)),
        _ if created => (meta, Opening::Created),
        why => (meta.renewed(), why),
    };
    // The database first: a crash in between makes another new life, never an old one.
    meta::save(connection, &meta)?;
    let written = marker.write(meta.incarnation, sequence);
    written.map_err(|fault| file_reaction(fault, 0))?;
    Ok((meta, opening))
}
