//! When the write-ahead log is carried over into the database: after the answers, and bounded.

use rusqlite::Connection;

use super::schema::PAGE_BYTES;
use crate::limits::{CHECKPOINT_BYTES, WAL_BYTES_MAX};

/// When the next one is due.
pub(super) struct Checkpoints {
    /// How much of the log may wait to be carried over.
    at_waiting: u64,
    /// How long the log may be before readers are waited for, so that it can start over.
    at_length: u64,
}

impl Checkpoints {
    pub(super) fn new() -> Checkpoints {
        Checkpoints {
            at_waiting: CHECKPOINT_BYTES,
            at_length: WAL_BYTES_MAX,
        }
    }

    /// Carries the log over if it is time; says whether it was.
    pub(super) fn run_if_due(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let log = checkpoint(connection, "NOOP")?;
        if log.waiting < self.at_waiting {
            return Ok(false);
        }
        // A try that fails is not repeated at once.
        self.at_waiting = log.waiting + CHECKPOINT_BYTES;
        let left = checkpoint(connection, self.manner(&log))?;
        self.at_waiting = left.waiting + CHECKPOINT_BYTES;
        Ok(true)
    }

    /// Readers that hold on to the log are waited for only when it has grown out of bounds, and
    /// once for each time that it does.
    fn manner(&mut self, log: &Log) -> &'static str {
        if log.length >= self.at_length {
            self.at_length = log.length + WAL_BYTES_MAX;
            return "RESTART";
        }
        if log.length < WAL_BYTES_MAX {
            self.at_length = WAL_BYTES_MAX;
        }
        "PASSIVE"
    }
}

/// The write-ahead log, in bytes.
struct Log {
    length: u64,
    /// Not yet carried over into the database.
    waiting: u64,
}

/// Checkpoints in the manner of `how`, and says what the log is like afterwards.
fn checkpoint(connection: &Connection, how: &str) -> rusqlite::Result<Log> {
    let sql = format!("PRAGMA wal_checkpoint({how})");
    let mut checkpoint = connection.prepare_cached(&sql)?;
    let row = checkpoint.query_row((), |row| Ok((row.get(1)?, row.get(2)?)));
    let (pages, carried): (i64, i64) = row?;
    let bytes = |pages: i64| u64::try_from(pages).unwrap_or(0) * PAGE_BYTES;
    Ok(Log {
        length: bytes(pages),
        waiting: bytes(pages - carried),
    })
}
