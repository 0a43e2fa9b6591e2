//! The tables on disk, how a connection is set up, and whether a file is ours to open.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::fault::reaction;
use super::meta::Meta;
use crate::limits::{BUSY_DEADLINE, CACHE_KIB, STATEMENTS_MAX, WAL_BYTES_MAX};
use crate::record;
use crate::{StoreError, Table};

/// "Cheo" in SQLite's header: tells our files from other people's.
pub(super) const APPLICATION: i64 = 0x4368_656f;

/// The format this crate writes, kept in SQLite's `user_version`. 1: the first.
pub(super) const FORMAT: i64 = 1;

/// The unit in which SQLite writes; 4 KiB is what disks and kernels like.
pub(super) const PAGE_BYTES: u64 = 4096;

/// The one connection that writes. Nothing is changed yet: the file may not be ours.
pub(super) fn connect_writer(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    set_up(Connection::open_with_flags(path, flags)?)
}

/// Has every commit written to a log and synced.
pub(super) fn make_durable(connection: &Connection) -> rusqlite::Result<()> {
    // Heeded only as long as the file is empty.
    connection.pragma_update(None, "page_size", PAGE_BYTES.cast_signed())?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0))?;
    assert_eq!(
        mode, "wal",
        "a database in a file can have a write-ahead log"
    );
    // FULL: every commit is synced. The writer says when to checkpoint: after the answers.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_MAX.cast_signed())?;
    Ok(())
}

/// One of the connections that read.
pub(super) fn connect_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    set_up(Connection::open_with_flags(path, flags)?)
}

fn set_up(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(BUSY_DEADLINE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Ours,
}

/// Looks at a file without changing it. Somebody else's, or one of a newer Cheops: `Unusable`.
pub(super) fn inspect(connection: &Connection) -> Result<Found, StoreError> {
    let number = |sql| connection.query_row(sql, (), |row| row.get::<_, i64>(0));
    let number = |sql| number(sql).map_err(|error| reaction(error, 0));
    let application = number("PRAGMA application_id")?;
    if application == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(Found::Nothing);
    }
    if application != APPLICATION {
        return Err(StoreError::unusable(
            "the file is a database of something else; give the store a folder of its own",
        ));
    }
    match number("PRAGMA user_version")? {
        FORMAT => Ok(Found::Ours),
        found => Err(StoreError::unusable(format!(
            "the database has format {found}, and this agent knows {FORMAT}: a newer Cheops has written it; run \
             that one, or restore a backup of the older one"
        ))),
    }
}

/// Makes an empty file a store, all in one transaction.
pub(super) fn create(connection: &mut Connection, meta: &Meta) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for table in Table::ALL {
        // One tree per table, ordered by key; no second one for row numbers.
        transaction.execute_batch(&format!(
            "CREATE TABLE {table} (key BLOB PRIMARY KEY, value BLOB NOT NULL, seal BLOB NOT NULL) \
             STRICT, WITHOUT ROWID"
        ))?;
    }
    transaction.execute_batch(
        "CREATE TABLE quarantine (
             place TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, seal BLOB NOT NULL,
             PRIMARY KEY (place, key)
         ) STRICT, WITHOUT ROWID;
         CREATE TABLE store (
             only INTEGER PRIMARY KEY CHECK (only = 1), sequence INTEGER NOT NULL, meta BLOB NOT NULL
         ) STRICT;",
    )?;
    transaction.execute(
        "INSERT INTO store (only, sequence, meta) VALUES (1, 0, ?1)",
        [record::encode(meta)],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}
