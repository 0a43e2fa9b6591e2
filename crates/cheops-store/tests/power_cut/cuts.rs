//! Cuts at instants drawn by lot, one life of the disk after another.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};

use cheops_store::sqlite::SqliteStore;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use crate::child::Remote;
use crate::disk::{Cut, Disk, Image};
use crate::mount::{Watch, mount};
use crate::workload::{self, Told};

/// Lives of a disk: each begins with what a cut in the last one left.
const LIVES: u64 = 4;
const BATCHES: u64 = 200;
/// One change in so many is a cut; each costs an opening.
const CHANGES_PER_CUT: u32 = 600;

/// What a cut left, and what had been acknowledged by then.
struct Taken {
    image: Image,
    told: Told,
    seed: u64,
}

pub fn a_cut_loses_nothing_acknowledged() {
    let seed: u64 = rand::random();
    println!("power_cut: seed {seed}");
    let mut image = Image::new();
    let mut told = Told::new();
    let mut cuts = 0;
    for life in 0..LIVES {
        let cut = [Cut::Torn, Cut::Strict, Cut::Torn][life as usize % 3];
        let (taken, checkpoints) = live(&image, told.clone(), cut, seed.wrapping_add(life << 32));
        assert!(checkpoints > 0, "a life without a checkpoint proves little");
        for taken in taken {
            let found = verify(&taken).unwrap_or_else(|why| panic!("seed {}: {why}", taken.seed));
            cuts += 1;
            (image, told) = (taken.image, found);
        }
    }
    println!("power_cut: {cuts} cuts in {LIVES} lives, nothing acknowledged was lost");
    assert!(cuts > 20);
}

/// Runs a store on a disk that holds `image`; gives back some cuts and the number of checkpoints.
fn live(image: &Image, told: Told, cut: Cut, seed: u64) -> (Vec<Taken>, u64) {
    let told = Arc::new(Mutex::new(told));
    let (watch, taken) = cutter(cut, seed, Arc::clone(&told));
    let disk = Arc::new(Mutex::new(Disk::holding(image)));
    let folder = tempfile::tempdir().unwrap();
    let mounted = mount(disk, watch, folder.path()).unwrap();
    let taken = std::thread::spawn(move || taken.iter().collect());
    let mut store = Remote::start(folder.path());
    assert_eq!(store.ask("open"), "ok");
    let checkpoints = store.ask_hearing(&format!("run {BATCHES}"), |writer, number| {
        told.lock().unwrap().insert(writer, number);
    });
    drop(store);
    mounted.umount_and_join().unwrap();
    (taken.join().unwrap(), checkpoints.parse().unwrap())
}

/// Takes a cut before some of the changes.
fn cutter(cut: Cut, seed: u64, told: Arc<Mutex<Told>>) -> (Watch, Receiver<Taken>) {
    let (sender, taken): (SyncSender<Taken>, _) = mpsc::sync_channel(1000);
    let lot = Mutex::new(StdRng::seed_from_u64(seed));
    let changes = AtomicU64::new(seed);
    let watch = move |disk: &Disk| {
        let seed = changes.fetch_add(1, Ordering::Relaxed);
        if lot.lock().unwrap().random_ratio(1, CHANGES_PER_CUT) {
            // First what was told: what is told later may or may not be on the disk.
            let told = told.lock().unwrap().clone();
            let image = disk.cut(cut, seed);
            sender.send(Taken { image, told, seed }).unwrap();
        }
    };
    (Box::new(watch), taken)
}

fn verify(taken: &Taken) -> Result<Told, String> {
    let folder = somewhere_fast();
    write_out(&taken.image, folder.path());
    let store = SqliteStore::open(folder.path()).map_err(|error| error.to_string())?;
    workload::check(&store, &taken.told)
}

/// The copies need no real disk: in memory, hundreds of openings cost nothing.
fn somewhere_fast() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn write_out(image: &Image, folder: &Path) {
    for (name, content) in image {
        std::fs::write(folder.join(name), content).unwrap();
    }
}

/// The same with a disk that only says that it syncs: if nothing is found missing, the test has
/// no teeth.
pub fn a_disk_that_lies_is_noticed() {
    let disk = Arc::new(Mutex::new(Disk::default()));
    disk.lock().unwrap().sync_lies = true;
    let folder = tempfile::tempdir().unwrap();
    let mounted = mount(Arc::clone(&disk), Box::new(|_| ()), folder.path()).unwrap();
    let mut store = Remote::start(folder.path());
    assert_eq!(store.ask("open"), "ok");
    let mut told = Told::new();
    store.ask_hearing("run 10", |writer, number| {
        told.insert(writer, number);
    });
    let image = disk.lock().unwrap().cut(Cut::Strict, 0);
    drop(store);
    mounted.umount_and_join().unwrap();
    let seed = 0;
    assert!(verify(&Taken { image, told, seed }).is_err());
}
