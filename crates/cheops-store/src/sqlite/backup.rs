//! Copies of a store, and how one takes the store's place.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::fault::{file_reaction, reaction};
use super::folder::Folder;
use super::schema::{self, Found};
use crate::StoreError;
use crate::files;

/// Writes one moment of `database` to `to`: aside first, synced, then named.
pub(super) fn backup(database: &Path, to: &Path) -> Result<(), StoreError> {
    let aside = files::name_aside(to);
    let copied = copy_moment(database, &aside);
    let named = copied.and_then(|()| name(&aside, to).map_err(|fault| file_reaction(fault, 0)));
    let _ = fs::remove_file(&aside);
    named
}

fn name(aside: &Path, to: &Path) -> io::Result<()> {
    File::open(aside)?.sync_all()?;
    // A hard link, unlike a rename, refuses a name that is taken.
    fs::hard_link(aside, to)?;
    files::sync_folder_of(to)
}

fn copy_moment(database: &Path, aside: &Path) -> Result<(), StoreError> {
    let text = aside.to_str().ok_or_else(|| {
        let fault = "the path of a backup has to be text";
        StoreError::Io(io::Error::new(io::ErrorKind::InvalidInput, fault))
    })?;
    // Empty and ours alone before SQLite writes into it.
    files::open_private(aside).map_err(|fault| file_reaction(fault, 0))?;
    let connection = schema::connect_reader(database);
    let copied = connection.and_then(|connection| connection.execute("VACUUM INTO ?1", [text]));
    copied.map(drop).map_err(|error| reaction(error, 0))
}

/// Puts `backup` in the place of the store in `folder`. What was there is kept, in a folder beside
/// it, whose path is given back. The next opening is a new incarnation. If this is cut short, the
/// store refuses to open until it was run again.
pub fn restore(folder: &Path, backup: &Path) -> Result<Option<PathBuf>, StoreError> {
    let folder = Folder::lock(folder)?;
    check(backup)?;
    put_back(&folder, backup).map_err(|fault| file_reaction(fault, 0))
}

/// Whether `backup` is a whole store that this agent can open.
fn check(backup: &Path) -> Result<(), StoreError> {
    let named = |error| reaction(error, 0);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(backup, flags).map_err(named)?;
    if schema::inspect(&connection)? == Found::Nothing {
        return Err(StoreError::unusable("the backup is empty"));
    }
    let sql = "PRAGMA integrity_check(1)";
    let verdict: String = connection
        .query_row(sql, (), |row| row.get(0))
        .map_err(named)?;
    if verdict != "ok" {
        return Err(StoreError::unusable(format!(
            "the backup is broken: {verdict}"
        )));
    }
    Ok(())
}

fn put_back(folder: &Folder, backup: &Path) -> io::Result<Option<PathBuf>> {
    let aside = files::name_aside(&folder.database());
    if let Err(fault) = copy(backup, &aside) {
        // No half copy stays behind on a disk that may be full.
        let _ = fs::remove_file(&aside);
        return Err(fault);
    }
    // From here until it is removed, nobody opens the store.
    files::replace(&folder.restoring(), |_| Ok(Vec::new()))?;
    let kept = keep_old(folder)?;
    fs::rename(&aside, folder.database())?;
    files::sync_folder(&folder.path)?;
    files::remove(&folder.restoring())?;
    files::sync_folder(&folder.path)?;
    Ok(kept)
}

/// Moves the old files aside. The log goes with its database: beside another one it would be
/// carried over into that.
fn keep_old(folder: &Folder) -> io::Result<Option<PathBuf>> {
    let name = |ending: &str| format!("store.{ending}");
    let old = ["db", "db-wal", "marker"].map(|ending| folder.path.join(name(ending)));
    files::remove(&folder.path.join(name("db-shm")))?;
    if !old.iter().any(|file| file.exists()) {
        return Ok(None);
    }
    let kept = folder
        .path
        .join(format!("before-restore-{:016x}", rand::random::<u64>()));
    files::create_folder(&kept)?;
    for file in old.iter().filter(|file| file.exists()) {
        fs::rename(file, kept.join(file.file_name().unwrap_or_default()))?;
    }
    files::sync_folder(&kept)?;
    files::sync_folder(&folder.path)?;
    Ok(Some(kept))
}

fn copy(backup: &Path, aside: &Path) -> io::Result<()> {
    let mut copy = files::open_private(aside)?;
    io::copy(&mut File::open(backup)?, &mut copy)?;
    copy.sync_all()
}
