//! The writer: one thread, one connection, and a transaction for whatever has gathered.
//!
//! While one group is being synced, the next one gathers: a busy agent pays one sync for many
//! batches. Everybody is answered after the commit, and checkpoints come after the answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::checkpoint::Checkpoints;
use super::fault::reaction;
use super::marker::Marker;
use super::queue::{Chore, Queue, Work};
use super::rows;
use super::schema::PAGE_BYTES;
use super::shared::Shared;
use crate::limits::{MARK_INTERVAL, QUARANTINE_MAX};
use crate::store::Done;
use crate::{Batch, Incarnation, StoreError, Table};

pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) queue: Arc<Queue>,
    pub(super) shared: Arc<Shared>,
    pub(super) marker: Marker,
    pub(super) incarnation: Incarnation,
    pub(super) sequence: u64,
    pub(super) marked: Marked,
    pub(super) checkpoints: Checkpoints,
}

/// What the marker says, and since when.
pub(super) struct Marked {
    pub(super) sequence: u64,
    pub(super) at: Instant,
}

impl Writer {
    pub(super) fn run(mut self) {
        // However this ends, nobody waits for it.
        let _end = End(Arc::clone(&self.queue));
        loop {
            match self.queue.take(self.patience()) {
                Work::Group(group) => self.store(group),
                Work::Chore(chore, done) => {
                    let outcome = self.chore(chore);
                    done(outcome);
                }
                Work::Idle => (),
                Work::End => break,
            }
            if self.patience() == Some(Duration::ZERO) {
                self.mark();
            }
        }
        if self.marked.sequence != self.sequence {
            self.mark();
        }
    }

    /// How long until the marker lags too far behind; `None` if it does not lag.
    fn patience(&self) -> Option<Duration> {
        let lags = self.marked.sequence != self.sequence;
        lags.then(|| MARK_INTERVAL.saturating_sub(self.marked.at.elapsed()))
    }

    /// A marker that cannot be written lags, which is what it is allowed to do.
    fn mark(&mut self) {
        let written = self.marker.write(self.incarnation, self.sequence);
        if written.is_ok() {
            self.marked.sequence = self.sequence;
        }
        self.marked.at = Instant::now();
    }

    fn store(&mut self, group: Vec<(Batch, Done)>) {
        let (batches, answers): (Vec<Batch>, Vec<Done>) = group.into_iter().unzip();
        match self.transact(&batches) {
            Ok(()) => answers.into_iter().for_each(|done| done(Ok(()))),
            // One that does not fit must not take along those that do.
            Err(StoreError::Full { .. }) if batches.len() > 1 => {
                for (batch, done) in batches.iter().zip(answers) {
                    let stored = self.transact(std::slice::from_ref(batch));
                    done(stored);
                }
            }
            Err(error) => answers
                .into_iter()
                .for_each(|done| done(Err(again(&error)))),
        }
        self.checkpoint_if_due();
    }

    /// Stores `batches` in one transaction, with one sync.
    fn transact(&mut self, batches: &[Batch]) -> Result<(), StoreError> {
        self.shared.usable()?;
        let needed = batches.iter().map(Batch::bytes).sum();
        let next = self.sequence + 1;
        let mended = self.mended(batches);
        let stored = write(&mut self.connection, batches, &mended, next);
        let stored = stored.map_err(|error| reaction(error, needed));
        self.settle(stored)?;
        self.sequence = next;
        for (table, key) in &mended {
            self.shared.release(*table, key);
        }
        self.shared.groups.fetch_add(1, Ordering::Relaxed);
        let stored = batches.len() as u64;
        self.shared.batches.fetch_add(stored, Ordering::Relaxed);
        Ok(())
    }

    fn mended(&self, batches: &[Batch]) -> Vec<(Table, Vec<u8>)> {
        let written = batches.iter().flat_map(Batch::writes);
        let targets = written.map(|write| write.target());
        let mended = targets.filter(|(table, key)| self.shared.is_quarantined(*table, key));
        mended.map(|(table, key)| (table, key.to_vec())).collect()
    }

    /// Passes an outcome on, unless the transaction is still open: then nothing can be trusted.
    fn settle<T>(&self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        if !self.connection.is_autocommit() {
            let stuck = StoreError::unusable("a failed transaction could not be taken back");
            return Err(self.shared.note(stuck));
        }
        outcome.map_err(|error| self.shared.note(error))
    }

    fn chore(&mut self, chore: Chore) -> Result<(), StoreError> {
        self.shared.usable()?;
        match chore {
            Chore::Quarantine(table, key) => self.quarantine(table, &key),
            Chore::Bound(bytes_max) => self.bound(bytes_max),
        }
    }

    fn quarantine(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let found = rows::get(&self.connection, table, key).map_err(|error| reaction(error, 0));
        let Some(found) = self.settle(found)? else {
            return Ok(());
        };
        if found.is_sound(table) {
            return Ok(());
        }
        if self.shared.quarantined().len() >= QUARANTINE_MAX {
            let why = format!(
                "more than {QUARANTINE_MAX} records are damaged: the disk is failing; restore the last backup to \
                 another one"
            );
            return Err(self.shared.note(StoreError::unusable(why)));
        }
        // First here, then on disk: at no time does the key read as one that never was.
        self.shared.quarantine(table, key);
        let moved = move_aside(&mut self.connection, table, &found, self.sequence + 1);
        let moved = self.settle(moved.map_err(|error| reaction(error, found.value.len())));
        match moved {
            Ok(()) => self.sequence += 1,
            Err(_) => self.shared.release(table, key),
        }
        moved
    }

    fn bound(&mut self, bytes_max: u64) -> Result<(), StoreError> {
        // SQLite keeps page numbers in 32 bits.
        let pages = (bytes_max / PAGE_BYTES).clamp(1, u64::from(u32::MAX - 1));
        let sql = format!("PRAGMA max_page_count = {pages}");
        let bound = self.connection.query_row(&sql, (), |_| Ok(()));
        bound.map_err(|error| reaction(error, 0))
    }

    fn checkpoint_if_due(&mut self) {
        if self.shared.usable().is_err() {
            return;
        }
        match self.checkpoints.run_if_due(&self.connection) {
            Ok(true) => drop(self.shared.checkpoints.fetch_add(1, Ordering::Relaxed)),
            Ok(false) => (),
            // No room or no time now: the log keeps everything. A failed sync is noted.
            Err(error) => drop(self.shared.note(reaction(error, 0))),
        }
    }
}

struct End(Arc<Queue>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn write(
    connection: &mut Connection,
    batches: &[Batch],
    mended: &[(Table, Vec<u8>)],
    sequence: u64,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for write in batches.iter().flat_map(Batch::writes) {
        rows::apply(&transaction, write)?;
    }
    for (table, key) in mended {
        rows::quarantine::remove(&transaction, *table, key)?;
    }
    count(&transaction, sequence)?;
    transaction.commit()
}

fn move_aside(
    connection: &mut Connection,
    table: Table,
    found: &rows::Found,
    sequence: u64,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    rows::quarantine::add(&transaction, table, found)?;
    rows::delete(&transaction, table, &found.key)?;
    count(&transaction, sequence)?;
    transaction.commit()
}

fn count(connection: &Connection, sequence: u64) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached("UPDATE store SET sequence = ?1")?;
    update.execute([sequence.cast_signed()]).map(drop)
}

/// The same error for the next one who waits.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Io(fault) => StoreError::Io(std::io::Error::other(fault.to_string())),
        StoreError::Unusable { why } => StoreError::unusable(why),
        StoreError::Full { needed_bytes } => StoreError::Full {
            needed_bytes: *needed_bytes,
        },
        StoreError::Corrupt { table, key } => StoreError::Corrupt {
            table: *table,
            key: key.clone(),
        },
    }
}
