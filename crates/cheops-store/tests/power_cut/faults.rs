//! The disk tells the truth about itself: it forgets, it is full, it fails to sync.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::child::Remote;
use crate::disk::{Cut, Disk};
use crate::mount::mount;

/// Whether FUSE can be had.
pub fn mount_nothing() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let mounted = mount(Arc::default(), Box::new(|_| ()), folder.path())?;
    mounted.umount_and_join()
}

/// Runs `case` in a mounted folder of a disk of its own.
fn with_disk(case: impl FnOnce(&Path, &Mutex<Disk>)) {
    let disk = Arc::new(Mutex::new(Disk::default()));
    let folder = tempfile::tempdir().unwrap();
    let mounted = mount(Arc::clone(&disk), Box::new(|_| ()), folder.path()).unwrap();
    case(folder.path(), &disk);
    mounted.umount_and_join().unwrap();
}

pub fn what_is_not_synced_is_lost() {
    with_disk(|folder, disk| {
        let cut = || disk.lock().unwrap().cut(Cut::Strict, 0);
        let mut file = File::create(folder.join("file")).unwrap();
        file.write_all(b"one").unwrap();
        file.sync_all().unwrap();
        assert!(cut().is_empty(), "its name is not synced");
        File::open(folder).unwrap().sync_all().unwrap();
        file.write_all(b"two").unwrap();
        assert_eq!(cut()["file"], b"one");
        fs::rename(folder.join("file"), folder.join("other")).unwrap();
        assert!(cut().contains_key("file"));
        file.sync_all().unwrap();
        File::open(folder).unwrap().sync_all().unwrap();
        assert_eq!(
            cut().into_iter().collect::<Vec<_>>(),
            [("other".into(), b"onetwo".to_vec())]
        );
    });
}

pub fn a_full_disk_recovers() {
    with_disk(|folder, disk| {
        let mut store = Remote::start(folder);
        assert_eq!(store.ask("open"), "ok");
        disk.lock().unwrap().room = Some(600_000);
        let stored = (0..100).take_while(|key| store.ask(&format!("put {key} 50000")) == "ok");
        let stored = stored.count();
        assert!((3..12).contains(&stored), "{stored}");
        assert_eq!(store.ask(&format!("put {stored} 50000")), "full");
        assert_eq!(store.ask(&format!("get {stored}")), "none");
        assert_eq!(store.ask("get 0"), "50000", "a full disk serves reads");

        disk.lock().unwrap().room = None;
        assert_eq!(store.ask(&format!("put {stored} 50000")), "ok");
        assert_eq!(store.ask("close"), "ok");
        assert_eq!(store.ask("open"), "ok");
        for key in 0..=stored {
            assert_eq!(store.ask(&format!("get {key}")), "50000");
        }
    });
}

pub fn a_failed_sync_ends_the_store() {
    with_disk(|folder, disk| {
        let mut store = Remote::start(folder);
        assert_eq!(store.ask("open"), "ok");
        assert_eq!(store.ask("put 1 10"), "ok");
        disk.lock().unwrap().sync_fails = true;
        assert_eq!(store.ask("put 2 10"), "unusable");
        // The disk syncs again, and nobody knows what it has lost.
        disk.lock().unwrap().sync_fails = false;
        assert_eq!(store.ask("put 3 10"), "unusable");
        assert_eq!(store.ask("get 1"), "unusable");
        assert_eq!(store.ask("close"), "ok");
        assert_eq!(store.ask("open"), "ok");
        assert_eq!(store.ask("get 1"), "10");
        assert_eq!(store.ask("get 3"), "none");
    });
}
