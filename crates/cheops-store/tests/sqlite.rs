//! What only a store in files can do: be copied, broken, locked, of another version.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;

use cheops_store::limits::QUARANTINE_MAX;
use cheops_store::sqlite::{SqliteStore, restore};
use cheops_store::{Batch, Opening, Store, StoreError, Table};
use common::puts;

fn get(store: &SqliteStore, key: &[u8]) -> Option<Vec<u8>> {
    store.get(Table::Log, key).unwrap()
}

/// Opens the store in `folder` and commits `n` batches of their own.
fn fill(folder: &Path, n: u8) -> SqliteStore {
    let store = SqliteStore::open(folder).unwrap();
    for key in 0..n {
        store.commit(puts(&[(&[key], b"v")])).unwrap();
    }
    store
}

fn copy_over(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[track_caller]
fn assert_unusable<T>(outcome: Result<T, StoreError>, says: &str) {
    match outcome {
        Err(StoreError::Unusable { why }) => assert!(why.contains(says), "{why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn a_database_put_back_by_hand_is_a_new_incarnation() {
    let folder = tempfile::tempdir().unwrap();
    let (live, copy) = (folder.path().join("live"), folder.path().join("copy"));
    let first = fill(&live, 3).incarnation();
    copy_over(&live, &copy);
    drop(fill(&live, 5));

    // The database alone, in place.
    fs::copy(copy.join("store.db"), live.join("store.db")).unwrap();
    let store = SqliteStore::open(&live).unwrap();
    assert_eq!(store.opening(), Opening::RolledBack);
    let second = store.incarnation();
    assert_ne!(second, first);
    drop(store);

    // The whole folder, in place: the same names, the same inodes, older content.
    copy_over(&copy, &live);
    let store = SqliteStore::open(&live).unwrap();
    assert_eq!(store.opening(), Opening::Copied);
    assert!(![first, second].contains(&store.incarnation()));
    drop(store);

    // The copy, opened where it is.
    assert_eq!(fill(&copy, 0).opening(), Opening::Copied);

    // And without its marker.
    fs::remove_file(copy.join("store.marker")).unwrap();
    assert_eq!(fill(&copy, 0).opening(), Opening::Unvouched);
    assert_eq!(fill(&copy, 0).opening(), Opening::Continued);
}

#[test]
fn a_lost_log_is_a_new_incarnation() {
    let folder = tempfile::tempdir().unwrap();
    let (live, copy) = (folder.path().join("live"), folder.path().join("copy"));
    let store = fill(&live, 3);
    // As it is while it runs: what was committed is in the log, the database is still empty.
    copy_over(&live, &copy);
    drop(store);
    fs::copy(copy.join("store.db"), live.join("store.db")).unwrap();
    let store = SqliteStore::open(&live).unwrap();
    assert_eq!(store.opening(), Opening::RolledBack);
    assert_eq!(get(&store, &[0]), None);
}

#[test]
fn a_lost_database_is_not_made_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    drop(fill(folder.path(), 1));
    fs::remove_file(folder.path().join("store.db")).unwrap();
    assert_unusable(SqliteStore::open(folder.path()), "restore the last backup");
}

#[test]
fn a_broken_file_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    drop(fill(folder.path(), 100));
    let database = folder.path().join("store.db");
    let mut bytes = fs::read(&database).unwrap();
    bytes[..4096].fill(0x5a);
    fs::write(&database, &bytes).unwrap();
    assert_unusable(SqliteStore::open(folder.path()), "restore the last backup");
}

#[test]
fn a_broken_page_stops_the_store() {
    let folder = tempfile::tempdir().unwrap();
    drop(fill(folder.path(), 200));
    let database = folder.path().join("store.db");
    let mut bytes = fs::read(&database).unwrap();
    let root: i64 = {
        let connection = rusqlite::Connection::open(&database).unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'log'";
        connection.query_row(sql, (), |row| row.get(0)).unwrap()
    };
    let start = (usize::try_from(root).unwrap() - 1) * 4096;
    bytes[start..start + 4096].fill(0xee);
    fs::write(&database, &bytes).unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    assert_unusable(store.get(Table::Log, &[1]), "broken");
    assert_unusable(store.commit(puts(&[(b"k", b"v")])), "broken");
    assert_unusable(store.get(Table::Meta, b"k"), "broken");
}

#[test]
fn other_formats_and_other_peoples_databases_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(fill(folder.path(), 1));
    let database = folder.path().join("store.db");
    let change = |sql| {
        rusqlite::Connection::open(&database)
            .unwrap()
            .execute_batch(sql)
            .unwrap()
    };
    change("PRAGMA user_version = 99");
    assert_unusable(SqliteStore::open(folder.path()), "a newer Cheops");
    change("PRAGMA user_version = 1");
    drop(fill(folder.path(), 1));

    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let theirs = rusqlite::Connection::open(other.join("store.db")).unwrap();
    theirs
        .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        .unwrap();
    drop(theirs);
    let before = fs::read(other.join("store.db")).unwrap();
    assert_unusable(SqliteStore::open(&other), "something else");
    assert_eq!(fs::read(other.join("store.db")).unwrap(), before);
}

#[test]
fn a_store_belongs_to_one_agent() {
    let folder = tempfile::tempdir().unwrap();
    let store = fill(folder.path(), 1);
    assert_unusable(SqliteStore::open(folder.path()), "another agent");
    let backup = folder.path().join("backup.db");
    store.backup(&backup).unwrap();
    assert_unusable(restore(folder.path(), &backup), "another agent");
    drop(store);
    assert_eq!(fill(folder.path(), 0).opening(), Opening::Continued);
}

#[test]
fn only_the_owner_reads_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    let store = fill(&at, 1);
    store.backup(&at.join("backup.db")).unwrap();
    assert_eq!(
        fs::metadata(&at).unwrap().permissions().mode() & 0o777,
        0o700
    );
    for entry in fs::read_dir(&at).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
}

#[test]
fn a_batch_that_does_not_fit_leaves_its_neighbours_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = fill(folder.path(), 10);
    store.bound_bytes(0).unwrap();
    let (told, heard) = mpsc::channel();
    // The first keeps the writer busy while the others gather into one group.
    for n in 0..20u8 {
        let mut batch = puts(&[(&[n], b"w")]);
        if n % 5 == 4 {
            batch.put(Table::Outbox, [n], vec![n; 500_000]).unwrap();
        }
        let told = told.clone();
        store.submit(
            batch,
            Box::new(move |stored| told.send((n, stored.is_ok())).unwrap()),
        );
    }
    drop(told);
    for (n, stored) in heard {
        assert_eq!(stored, n % 5 != 4, "{n}");
        assert_eq!(get(&store, &[n]) == Some(b"w".to_vec()), stored, "{n}");
    }
}

#[test]
fn a_backup_is_one_moment_while_commits_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = fill(&folder.path().join("live"), 1);
    let backup = folder.path().join("backup.db");
    let pair = |n: u32| puts(&[(b"a", &n.to_be_bytes()), (b"b", &n.to_be_bytes())]);
    store.commit(pair(0)).unwrap();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| (1..200).for_each(|n| store.commit(pair(n)).unwrap()));
        store.backup(&backup).unwrap();
        busy.join().unwrap();
    });
    assert!(
        matches!(store.backup(&backup), Err(StoreError::Io(_))),
        "never overwritten"
    );

    let elsewhere = folder.path().join("elsewhere");
    assert_eq!(restore(&elsewhere, &backup).unwrap(), None);
    let restored = SqliteStore::open(&elsewhere).unwrap();
    assert_eq!(restored.opening(), Opening::Unvouched);
    assert_eq!(get(&restored, b"a"), get(&restored, b"b"));
    assert!(get(&restored, b"a").is_some());
}

#[test]
fn a_restore_keeps_what_was_there_and_takes_no_rubbish() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    let store = fill(&live, 2);
    let backup = folder.path().join("backup.db");
    store.backup(&backup).unwrap();
    store.commit(puts(&[(b"later", b"v")])).unwrap();
    drop(store);

    let rubbish = folder.path().join("rubbish.db");
    fs::write(
        &rubbish,
        b"not a database, and longer than a header".repeat(200),
    )
    .unwrap();
    assert_unusable(restore(&live, &rubbish), "broken");
    assert_eq!(get(&fill(&live, 0), b"later"), Some(b"v".to_vec()));

    let kept = restore(&live, &backup).unwrap().unwrap();
    assert_eq!(get(&fill(&live, 0), b"later"), None);
    assert_eq!(get(&fill(&kept, 0), b"later"), Some(b"v".to_vec()));
}

#[test]
fn half_a_restore_does_not_open_and_can_be_finished() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    let backup = folder.path().join("backup.db");
    fill(&live, 2).backup(&backup).unwrap();
    // Cut short after the old files went aside.
    fs::write(live.join("store.restoring"), b"").unwrap();
    fs::remove_file(live.join("store.db")).unwrap();
    assert_unusable(SqliteStore::open(&live), "run it again");
    restore(&live, &backup).unwrap();
    assert_eq!(get(&fill(&live, 0), &[1]), Some(b"v".to_vec()));
}

#[test]
fn the_log_is_carried_over_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = fill(folder.path(), 0);
    for n in 0..40u8 {
        let mut batch = Batch::new();
        batch.put(Table::Outbox, [n % 4], vec![n; 1 << 20]).unwrap();
        store.commit(batch).unwrap();
    }
    assert!(store.counters().checkpoints >= 5, "{:?}", store.counters());
    let log = fs::metadata(folder.path().join("store.db-wal"))
        .unwrap()
        .len();
    assert!(log < 12 << 20, "{log} bytes");
}

#[test]
fn what_was_submitted_before_closing_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = fill(folder.path(), 0);
    for n in 0..100u8 {
        store.submit(puts(&[(&[n], b"v")]), Box::new(|stored| stored.unwrap()));
    }
    drop(store);
    let store = fill(folder.path(), 0);
    assert!((0..100u8).all(|n| get(&store, &[n]).is_some()));
}

#[test]
fn too_many_damaged_records_are_a_dying_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = fill(folder.path(), 0);
    let keys: Vec<_> = (0..=QUARANTINE_MAX as u16).map(u16::to_be_bytes).collect();
    let mut many = Batch::new();
    for key in &keys {
        many.put(Table::Log, key.as_slice(), b"v").unwrap();
    }
    store.commit(many).unwrap();
    let behind = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    behind.execute("UPDATE log SET value = x'00'", ()).unwrap();
    let (last, most) = keys.split_last().unwrap();
    for key in most {
        store.quarantine(Table::Log, key).unwrap();
    }
    assert_eq!(store.quarantined().unwrap().len(), QUARANTINE_MAX);
    store.commit(puts(&[(b"still", b"v")])).unwrap();
    assert_unusable(store.quarantine(Table::Log, last), "the disk is failing");
    assert_unusable(
        store.commit(puts(&[(b"over", b"v")])),
        "the disk is failing",
    );
}
