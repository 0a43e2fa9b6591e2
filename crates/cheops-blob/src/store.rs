//! The folder of contents: what is whole, what is on its way, and what must stay.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::BlobError;
use crate::limits::BLOB_BYTES_MAX;
use crate::partial::Partial;
use crate::reader::Reader;
use crate::reference::Reference;
use crate::room::{Room, Usage};
use crate::sums::Sums;
use crate::upload::Upload;

/// Beside each content, the sums of its chunks.
pub(crate) const SUMS: &str = "sums";

/// Contents by their hash. Cheap to clone; any thread may use it.
#[derive(Clone, Debug)]
pub struct BlobStore(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    /// Of clients, not whole yet: nothing that outlives the agent.
    pub(crate) incoming: PathBuf,
    /// From other sites, not whole yet.
    pub(crate) partial: PathBuf,
    pub(crate) whole: PathBuf,
    pub(crate) usage: Usage,
    pins: Mutex<HashMap<[u8; 32], usize>>,
    /// Held while a content gets its name: two of the same are counted once.
    naming: Mutex<()>,
}

/// Keeps a content from being collected, whether it is there or still to come.
#[derive(Debug)]
pub struct Pin {
    store: BlobStore,
    of: Reference,
}

impl BlobStore {
    /// Opens or makes the folder. What clients had not sent to the end is gone.
    pub fn open(folder: &Path, room: Room) -> io::Result<BlobStore> {
        let inner = Inner {
            incoming: folder.join("incoming"),
            partial: folder.join("partial"),
            whole: folder.join("whole"),
            usage: Usage::new(room),
            pins: Mutex::default(),
            naming: Mutex::default(),
        };
        for made in [folder, &inner.incoming, &inner.partial, &inner.whole] {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(made)?;
        }
        for entry in fs::read_dir(&inner.incoming)? {
            fs::remove_file(entry?.path())?;
        }
        for kept in [&inner.partial, &inner.whole] {
            for entry in fs::read_dir(kept)? {
                inner.usage.found(entry?.metadata()?.len());
            }
        }
        Ok(BlobStore(Arc::new(inner)))
    }

    /// From now on there is that much room.
    pub fn set_room(&self, room: Room) {
        self.0.usage.set_room(room);
    }

    /// What all contents take, those on their way included.
    pub fn bytes(&self) -> u64 {
        self.0.usage.taken()
    }

    /// Takes a content in as it comes. With its length if that is known: no room is known at once.
    pub fn begin(&self, bytes: Option<u64>) -> Result<Upload, BlobError> {
        if bytes.is_some_and(|bytes| bytes > BLOB_BYTES_MAX) {
            return Err(BlobError::TooLong);
        }
        let folder = &self.0.incoming;
        self.0.usage.check(folder, bytes.unwrap_or(0))?;
        let path = folder.join(format!("{:032x}", rand::random::<u128>()));
        Ok(Upload::new(self.clone(), create(&path)?, path))
    }

    /// Goes on with a content of another site, from the last chunk that is here and right.
    pub fn partial(&self, of: Reference) -> Result<Partial, BlobError> {
        Partial::open(self.clone(), of)
    }

    /// True if it seems to be here whole. Its chunks are looked at when they are read.
    pub fn has(&self, of: Reference) -> bool {
        let length = |path: &Path| fs::metadata(path).map(|file| file.len()).ok();
        length(&self.whole(of)) == Some(of.bytes) && length(&self.whole_sums(of)).is_some()
    }

    /// Gives a content back; none if it is not here.
    pub fn reader(&self, of: Reference) -> Result<Option<Reader>, BlobError> {
        let file = match File::open(self.whole(of)) {
            Ok(file) => file,
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(fault) => return Err(fault.into()),
        };
        let sums = fs::read(self.whole_sums(of)).unwrap_or_default();
        let sums = Sums::read(of, &sums).ok_or(BlobError::Damaged(of))?;
        Ok(Some(Reader::new(sums, file)))
    }

    /// Forgets a content: it is not what it should be.
    pub fn discard(&self, of: Reference) -> io::Result<()> {
        let _pins = self.pins();
        self.remove(&self.whole(of))?;
        self.remove(&self.whole_sums(of))
    }

    /// Every content that is here whole.
    pub fn list(&self) -> io::Result<Vec<Reference>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0.whole)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(hash) = name
                .to_str()
                .and_then(|name| blake3::Hash::from_hex(name).ok())
            else {
                continue;
            };
            found.push(Reference {
                hash: *hash.as_bytes(),
                bytes: entry.metadata()?.len(),
            });
        }
        Ok(found)
    }

    /// Keeps a content from being collected.
    pub fn pin(&self, of: Reference) -> Pin {
        *self.pins().entry(of.hash).or_default() += 1;
        Pin {
            store: self.clone(),
            of,
        }
    }

    pub(crate) fn pins(&self) -> MutexGuard<'_, HashMap<[u8; 32], usize>> {
        self.0.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn whole(&self, of: Reference) -> PathBuf {
        self.0.whole.join(of.name())
    }

    pub(crate) fn whole_sums(&self, of: Reference) -> PathBuf {
        self.whole(of).with_extension(SUMS)
    }

    /// Gives what is complete and on the disk its name, or removes it if it was here already. The content last: with
    /// it, everything is there.
    pub(crate) fn settle_in(&self, data: &Path, sums: &Path, of: Reference) -> io::Result<()> {
        let _naming = self.0.naming.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has(of) {
            self.remove(data)?;
            return self.remove(sums);
        }
        // What is there instead is damaged.
        self.discard(of)?;
        fs::rename(sums, self.whole_sums(of))?;
        fs::rename(data, self.whole(of))?;
        sync_folder(&self.0.whole)
    }

    /// Removes a file, and counts its bytes as free. Gone already is as good.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let bytes = fs::metadata(path).map_or(0, |file| file.len());
        match fs::remove_file(path) {
            Ok(()) => self.0.usage.give_back(bytes),
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => (),
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Writes a small file of the store; durable with the folder's next sync.
    pub(crate) fn write_sums(&self, path: &Path, sums: &Sums) -> Result<(), BlobError> {
        let bytes = sums.to_bytes();
        self.remove(path)?;
        self.0.usage.take(bytes.len() as u64)?;
        let written = create(path).and_then(|mut file| {
            io::Write::write_all(&mut file, &bytes)?;
            file.sync_all()
        });
        if let Err(fault) = written {
            let _ = fs::remove_file(path);
            self.0.usage.give_back(bytes.len() as u64);
            return Err(fault.into());
        }
        Ok(())
    }
}

impl Pin {
    /// What it keeps.
    pub fn reference(&self) -> Reference {
        self.of
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.store.pins();
        // At 0 it stays until the next mark: who marks now may not have seen yet what it was held for.
        if let Some(count) = pins.get_mut(&self.of.hash) {
            *count -= 1;
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
