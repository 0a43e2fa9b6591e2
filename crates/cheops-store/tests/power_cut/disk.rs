//! A disk that forgets: what was not synced may be lost at a power cut, in whole or in part.
//!
//! One folder of files. A file's content is safe after a sync of the file, its name after a sync
//! of the folder; until then a cut may keep any part of it: writes survive sector by sector and out
//! of order, changes of names in order, as journals of real file systems have it.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What a disk tears apart.
const SECTOR_BYTES: usize = 512;

/// The files that a cut left behind.
pub type Image = BTreeMap<String, Vec<u8>>;

/// How much of what was not synced survives.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// Nothing.
    Strict,
    /// Any part of it, drawn by lot.
    Torn,
}

#[derive(Default)]
pub struct Disk {
    pub files: BTreeMap<u64, File>,
    pub names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
    renamings: Vec<BTreeMap<String, u64>>,
    inode: u64,
    /// No room beyond this many bytes of content.
    pub room: Option<usize>,
    /// Syncs fail.
    pub sync_fails: bool,
    /// Syncs of files do nothing, and say that they did.
    pub sync_lies: bool,
}

#[derive(Default)]
pub struct File {
    pub content: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Resize(usize),
}

/// There is no room.
pub struct NoRoom;

impl Disk {
    /// A disk that holds what a cut left behind.
    pub fn holding(image: &Image) -> Disk {
        let mut disk = Disk::default();
        for (name, content) in image {
            let inode = disk.create(name);
            disk.files.insert(
                inode,
                File {
                    content: content.clone(),
                    synced: content.clone(),
                    unsynced: Vec::new(),
                },
            );
        }
        disk.sync_names();
        disk
    }

    pub fn create(&mut self, name: &str) -> u64 {
        // 1 is the folder.
        self.inode = self.inode.max(1) + 1;
        self.files.insert(self.inode, File::default());
        self.names.insert(name.to_owned(), self.inode);
        self.renamings.push(self.names.clone());
        self.inode
    }

    pub fn unlink(&mut self, name: &str) -> bool {
        let found = self.names.remove(name).is_some();
        self.renamings.push(self.names.clone());
        found
    }

    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(inode) = self.names.remove(from) else {
            return false;
        };
        self.names.insert(to.to_owned(), inode);
        self.renamings.push(self.names.clone());
        true
    }

    pub fn write(&mut self, inode: u64, at: usize, bytes: &[u8]) -> Result<(), NoRoom> {
        let used: usize = self.files.values().map(|file| file.content.len()).sum();
        let file = self.files.entry(inode).or_default();
        let grows = (at + bytes.len()).saturating_sub(file.content.len());
        if self
            .room
            .is_some_and(|room| grows > 0 && used + grows > room)
        {
            return Err(NoRoom);
        }
        file.change(Change::Write {
            at,
            bytes: bytes.to_vec(),
        });
        Ok(())
    }

    pub fn resize(&mut self, inode: u64, length: usize) {
        let file = self.files.entry(inode).or_default();
        file.change(Change::Resize(length));
    }

    pub fn sync(&mut self, inode: u64) {
        if self.sync_lies {
            return;
        }
        let file = self.files.entry(inode).or_default();
        for change in file.unsynced.drain(..) {
            change.apply(&mut file.synced);
        }
    }

    pub fn sync_names(&mut self) {
        self.synced_names = self.names.clone();
        self.renamings.clear();
        // Files that no name leads to, before or after a cut, are gone; open ones stay a while.
        self.files.retain(|inode, file| {
            self.names.values().any(|named| named == inode) || !file.content.is_empty()
        });
    }

    /// What is left if the power is cut now.
    pub fn cut(&self, cut: Cut, seed: u64) -> Image {
        let mut lot = StdRng::seed_from_u64(seed);
        let names = match cut {
            Cut::Strict => &self.synced_names,
            Cut::Torn => match lot.random_range(0..=self.renamings.len()) {
                0 => &self.synced_names,
                upto => &self.renamings[upto - 1],
            },
        };
        let mut image = Image::new();
        for (name, inode) in names {
            let file = &self.files[inode];
            image.insert(name.clone(), file.survivor(cut, &mut lot));
        }
        image
    }
}

impl File {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.content);
        self.unsynced.push(change);
    }

    fn survivor(&self, cut: Cut, lot: &mut StdRng) -> Vec<u8> {
        let mut content = self.synced.clone();
        let Cut::Torn = cut else {
            return content;
        };
        // Sometimes nearly all gets through, sometimes nearly nothing.
        let chance = [0.05, 0.5, 0.95][lot.random_range(0..3)];
        for change in &self.unsynced {
            match change {
                Change::Resize(_) if lot.random_bool(chance) => change.apply(&mut content),
                Change::Resize(_) => (),
                Change::Write { at, bytes } => {
                    for (at, sector) in sectors(*at, bytes) {
                        if lot.random_bool(chance) {
                            write_at(&mut content, at, sector);
                        }
                    }
                }
            }
        }
        content
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write { at, bytes } => write_at(content, *at, bytes),
            Change::Resize(length) => content.resize(*length, 0),
        }
    }
}

fn write_at(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

/// Cuts a write where sectors meet.
fn sectors(mut at: usize, mut bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    std::iter::from_fn(move || {
        let length = (SECTOR_BYTES - at % SECTOR_BYTES).min(bytes.len());
        let (sector, rest) = bytes.split_at(length);
        let here = at;
        (at, bytes) = (at + length, rest);
        (length > 0).then_some((here, sector))
    })
}
