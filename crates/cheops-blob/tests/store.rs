//! The folder of contents through crashes, torn and changed files, wrong chunks and full disks.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use cheops_blob::limits::CHUNK_BYTES;
use cheops_blob::{BlobError, BlobStore, Partial, Reference, Room, Sums};
use tempfile::TempDir;

const LONG: usize = 3 * CHUNK_BYTES + 77;

fn content(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7) as u8 ^ seed).collect()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(folder: &TempDir) -> BlobStore {
    BlobStore::open(folder.path(), Room::Disk).unwrap()
}

fn put(store: &BlobStore, content: &[u8]) -> Reference {
    let mut upload = store.begin(Some(content.len() as u64)).unwrap();
    for piece in content.chunks(100_003) {
        upload.write(piece).unwrap();
    }
    upload.finish().unwrap().reference()
}

fn get(store: &BlobStore, of: Reference) -> Result<Vec<u8>, BlobError> {
    let mut reader = store.reader(of)?.expect("it is there");
    let mut content = Vec::new();
    for index in 0..reader.sums().chunks() {
        content.extend(reader.chunk(index)?);
    }
    Ok(content)
}

fn files(folder: &Path, part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(part)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Everything another store has to say of a content.
fn told(from: &BlobStore, of: Reference) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut reader = from.reader(of).unwrap().unwrap();
    let chunks = (0..reader.sums().chunks()).map(|index| reader.chunk(index).unwrap());
    let chunks = chunks.collect();
    (reader.sums().to_bytes(), chunks)
}

fn fetch(partial: &mut Partial, sums: &[u8], chunks: &[Vec<u8>], upto: usize) {
    if partial.needs_sums() {
        partial.set_sums(sums).unwrap();
    }
    while let Some(next) = partial.next().filter(|next| *next < upto as u64) {
        partial.put(&chunks[next as usize]).unwrap();
    }
}

#[test]
fn what_came_in_comes_out_also_after_a_restart() {
    let folder = folder();
    let store = open(&folder);
    for bytes in [0, 1, CHUNK_BYTES, LONG] {
        let content = content(1, bytes);
        let of = put(&store, &content);
        assert_eq!(of.hash, *blake3::hash(&content).as_bytes());
        assert_eq!(get(&open(&folder), of).unwrap(), content);
        assert!(store.list().unwrap().contains(&of));
    }
    assert!(files(folder.path(), "incoming").is_empty());
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing_and_a_crash_leaves_it_to_the_next_start() {
    let folder = folder();
    let store = open(&folder);
    let mut upload = store.begin(None).unwrap();
    upload.write(&content(1, LONG)).unwrap();
    assert_eq!(store.bytes(), LONG as u64);
    drop(upload);
    assert_eq!(
        (store.bytes(), files(folder.path(), "incoming").len()),
        (0, 0)
    );

    let mut upload = store.begin(None).unwrap();
    upload.write(&content(1, LONG)).unwrap();
    std::mem::forget(upload);
    let store = open(&folder);
    assert_eq!(
        (store.bytes(), files(folder.path(), "incoming").len()),
        (0, 0)
    );
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn the_same_content_twice_is_kept_and_counted_once() {
    let folder = folder();
    let store = open(&folder);
    let of = put(&store, &content(1, LONG));
    let taken = store.bytes();
    assert_eq!(put(&store, &content(1, LONG)), of);
    assert_eq!(store.bytes(), taken);
    assert_eq!(open(&folder).bytes(), taken);
}

#[test]
fn a_content_from_elsewhere_goes_on_where_it_stopped() {
    let (there, here) = (folder(), folder());
    let (from, to) = (open(&there), open(&here));
    let content = content(3, LONG);
    let of = put(&from, &content);
    let (sums, chunks) = told(&from, of);
    let mut partial = to.partial(of).unwrap();
    fetch(&mut partial, &sums, &chunks, 2);
    assert_eq!(partial.bytes(), 2 * CHUNK_BYTES as u64);
    assert!(!to.has(of) && to.reader(of).unwrap().is_none());
    drop(partial);

    let to = open(&here);
    let mut partial = to.partial(of).unwrap();
    assert_eq!(partial.next(), Some(2));
    fetch(&mut partial, &sums, &chunks, 9);
    partial.finish().unwrap();
    assert!(to.has(of));
    assert_eq!(get(&to, of).unwrap(), content);
    assert_eq!(to.bytes(), from.bytes());
    assert!(files(here.path(), "partial").is_empty());
}

#[test]
fn a_torn_partial_goes_on_after_its_last_right_chunk() {
    let (there, here) = (folder(), folder());
    let from = open(&there);
    let of = put(&from, &content(3, LONG));
    let (sums, chunks) = told(&from, of);
    let path = here.path().join("partial").join(of.name());
    for torn in [2 * CHUNK_BYTES as u64 + 5, 2 * CHUNK_BYTES as u64, 1] {
        let to = open(&here);
        let mut partial = to.partial(of).unwrap();
        fetch(&mut partial, &sums, &chunks, 3);
        drop(partial);
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(torn)
            .unwrap();
        let partial = open(&here).partial(of).unwrap();
        assert_eq!(partial.next(), Some(torn / CHUNK_BYTES as u64));
    }
    // A power cut may leave the length and not the bytes.
    fs::write(&path, vec![0; 3 * CHUNK_BYTES]).unwrap();
    let to = open(&here);
    assert_eq!(to.partial(of).unwrap().next(), Some(0));
    assert_eq!(
        to.bytes(),
        fs::metadata(path.with_extension("sums")).unwrap().len()
    );
    // So may the sums.
    fs::write(path.with_extension("sums"), b"torn").unwrap();
    assert!(open(&here).partial(of).unwrap().needs_sums());
}

#[test]
fn a_wrong_chunk_and_wrong_sums_are_known_at_once() {
    let (there, here) = (folder(), folder());
    let (from, to) = (open(&there), open(&here));
    let of = put(&from, &content(3, LONG));
    let (mut sums, mut chunks) = told(&from, of);
    let mut partial = to.partial(of).unwrap();
    sums[0] ^= 1;
    assert!(matches!(
        partial.set_sums(&sums),
        Err(BlobError::Damaged(_))
    ));
    sums[0] ^= 1;
    fetch(&mut partial, &sums, &chunks, 1);
    let taken = to.bytes();
    chunks[1][100] ^= 1;
    assert!(matches!(
        partial.put(&chunks[1]),
        Err(BlobError::Damaged(_))
    ));
    assert_eq!((partial.next(), to.bytes()), (Some(1), taken));
    chunks[1][100] ^= 1;
    fetch(&mut partial, &sums, &chunks, 9);
    assert!(matches!(partial.put(&[]), Err(BlobError::Damaged(_))));
    partial.finish().unwrap();
    assert_eq!(get(&to, of).unwrap(), content(3, LONG));
}

#[test]
fn an_unfinished_content_does_not_pass_for_whole() {
    let (there, here) = (folder(), folder());
    let (from, to) = (open(&there), open(&here));
    let of = put(&from, &content(3, LONG));
    let (sums, chunks) = told(&from, of);
    let mut partial = to.partial(of).unwrap();
    fetch(&mut partial, &sums, &chunks, 3);
    assert!(matches!(partial.finish(), Err(BlobError::Damaged(_))));
    assert!(!to.has(of));
}

#[test]
fn what_was_changed_by_hand_is_damaged_and_what_was_removed_is_not_there() {
    let folder = folder();
    let store = open(&folder);
    let original = content(4, LONG);
    let of = put(&store, &original);
    let path = folder.path().join("whole").join(of.name());
    let mut changed = original.clone();
    changed[CHUNK_BYTES + 9] ^= 1;
    fs::write(&path, &changed).unwrap();
    let mut reader = store.reader(of).unwrap().unwrap();
    assert_eq!(reader.chunk(0).unwrap(), &original[..CHUNK_BYTES]);
    assert!(matches!(reader.chunk(1), Err(BlobError::Damaged(_))));
    fs::write(&path, &original[..CHUNK_BYTES + 1]).unwrap();
    assert!(!store.has(of));
    let mut reader = store.reader(of).unwrap().unwrap();
    assert!(matches!(reader.chunk(1), Err(BlobError::Damaged(_))));
    // Brought again, it takes the place of what is there.
    assert_eq!(put(&store, &original), of);
    assert_eq!(get(&store, of).unwrap(), original);
    fs::remove_file(path.with_extension("sums")).unwrap();
    assert!(!store.has(of));
    assert!(matches!(store.reader(of), Err(BlobError::Damaged(_))));
    fs::remove_file(&path).unwrap();
    assert!(store.reader(of).unwrap().is_none());
    store.discard(of).unwrap();
}

#[test]
fn no_room_is_said_before_the_first_byte_if_the_length_is_known_and_else_as_it_comes() {
    let folder = folder();
    let store = BlobStore::open(folder.path(), Room::Bytes(2 << 20)).unwrap();
    assert!(matches!(store.begin(Some(3 << 20)), Err(BlobError::Full)));
    let mut upload = store.begin(None).unwrap();
    upload.write(&content(1, 2 << 20)).unwrap();
    assert!(matches!(upload.write(b"x"), Err(BlobError::Full)));
    // The sums want a little room as well.
    assert!(matches!(upload.finish(), Err(BlobError::Full)));
    assert_eq!(
        (store.bytes(), files(folder.path(), "incoming").len()),
        (0, 0)
    );
    put(&store, &content(1, 1 << 20));
    store.set_room(Room::Bytes(10));
    assert!(matches!(store.begin(Some(1)), Err(BlobError::Full)));
}

#[test]
fn no_room_for_a_content_from_elsewhere_is_said_with_its_sums_and_goes_on_when_there_is() {
    let (there, here) = (folder(), folder());
    let from = open(&there);
    let of = put(&from, &content(3, LONG));
    let (sums, chunks) = told(&from, of);
    let to = BlobStore::open(here.path(), Room::Bytes(2 << 20)).unwrap();
    let mut partial = to.partial(of).unwrap();
    assert!(matches!(partial.set_sums(&sums), Err(BlobError::Full)));
    to.set_room(Room::Disk);
    fetch(&mut partial, &sums, &chunks, 1);
    to.set_room(Room::Bytes(0));
    assert!(matches!(partial.put(&chunks[1]), Err(BlobError::Full)));
    assert_eq!(partial.next(), Some(1));
    to.set_room(Room::Disk);
    fetch(&mut partial, &sums, &chunks, 9);
    partial.finish().unwrap();
}

#[test]
fn only_what_is_neither_needed_nor_pinned_is_collected() {
    let (there, here) = (folder(), folder());
    let (from, store) = (open(&there), open(&here));
    let needed = put(&store, &content(1, LONG));
    let surplus = put(&store, &content(2, LONG));
    let pinned = put(&store, &content(3, LONG));
    let elsewhere = put(&from, &content(4, LONG));
    let (sums, chunks) = told(&from, elsewhere);
    let mut partial = store.partial(elsewhere).unwrap();
    fetch(&mut partial, &sums, &chunks, 1);
    fs::write(here.path().join("whole").join("README"), "not ours").unwrap();
    let pin = store.pin(pinned);
    let marked = HashSet::from([needed]);
    let collected = store.mark().sweep(&marked).unwrap();
    assert_eq!((collected.blobs, store.has(surplus)), (1, false));
    assert!(store.has(needed) && store.has(pinned));
    // What was held when the mark began may have become needed since.
    let mark = store.mark();
    drop((pin, partial));
    assert_eq!(mark.sweep(&marked).unwrap().blobs, 0);
    let collected = store.mark().sweep(&marked).unwrap();
    assert_eq!((collected.blobs, store.has(pinned)), (2, false));
    assert_eq!(get(&store, needed).unwrap(), content(1, LONG));
    assert!(files(here.path(), "partial").is_empty());
    assert!(here.path().join("whole").join("README").exists());
}

#[test]
fn sums_say_how_long_every_chunk_is() {
    let folder = folder();
    let store = open(&folder);
    let of = put(&store, &content(1, LONG));
    let (bytes, _) = told(&store, of);
    let sums = Sums::read(of, &bytes).unwrap();
    let lengths: Vec<usize> = (0..5).map(|index| sums.chunk_bytes(index)).collect();
    assert_eq!(lengths, [CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 77, 0]);
}
