//! A content on its way from another site: chunk after chunk, each checked as it comes, so that a
//! cut costs one chunk and a wrong one is known at once.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use crate::error::BlobError;
use crate::limits::{BLOB_BYTES_MAX, CHUNK_BYTES, SYNC_EVERY_BYTES};
use crate::reference::Reference;
use crate::store::{BlobStore, Pin, SUMS};
use crate::sums::Sums;

/// A content that is not here whole yet. One at a time for each content.
#[derive(Debug)]
pub struct Partial {
    store: BlobStore,
    pin: Pin,
    path: PathBuf,
    file: File,
    sums: Option<Sums>,
    /// Chunks that are here and right.
    chunks: u64,
    unsynced: u64,
}

impl Partial {
    /// What an earlier run left is looked at: it goes on after the last chunk that is right.
    pub(crate) fn open(store: BlobStore, of: Reference) -> Result<Partial, BlobError> {
        if of.bytes > BLOB_BYTES_MAX {
            return Err(BlobError::TooLong);
        }
        let pin = store.pin(of);
        let path = store.0.partial.join(of.name());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let file = options.open(&path)?;
        let sums = match fs::read(path.with_extension(SUMS)) {
            Ok(bytes) => Sums::read(of, &bytes),
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => None,
            Err(fault) => return Err(fault.into()),
        };
        let mut partial = Partial {
            store,
            pin,
            path,
            file,
            sums,
            chunks: 0,
            unsynced: 0,
        };
        partial.look_over()?;
        Ok(partial)
    }

    /// Which.
    pub fn reference(&self) -> Reference {
        self.pin.reference()
    }

    /// The chunk to ask for next; none if all are here. Before the sums are known, the first.
    pub fn next(&self) -> Option<u64> {
        let all = self
            .sums
            .as_ref()
            .is_some_and(|sums| self.chunks == sums.chunks());
        (!all).then_some(self.chunks)
    }

    /// How much is here.
    pub fn bytes(&self) -> u64 {
        (self.chunks * CHUNK_BYTES as u64).min(self.reference().bytes)
    }

    /// True until [`Partial::set_sums`].
    pub fn needs_sums(&self) -> bool {
        self.sums.is_none()
    }

    /// The sums of its chunks, as another site says.
    pub fn set_sums(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let of = self.reference();
        let sums = Sums::read(of, bytes).ok_or(BlobError::Damaged(of))?;
        self.store.0.usage.check(&self.store.0.partial, of.bytes)?;
        self.store
            .write_sums(&self.path.with_extension(SUMS), &sums)?;
        self.sums = Some(sums);
        Ok(())
    }

    /// The next chunk, as another site says.
    pub fn put(&mut self, chunk: &[u8]) -> Result<(), BlobError> {
        let of = self.reference();
        let sums = self.sums.as_ref().ok_or(BlobError::Damaged(of))?;
        if !sums.fits(self.chunks, chunk) {
            return Err(BlobError::Damaged(of));
        }
        self.store.0.usage.take(chunk.len() as u64)?;
        let start = self.chunks * CHUNK_BYTES as u64;
        if let Err(fault) = self.file.write_all_at(chunk, start) {
            self.store.0.usage.give_back(chunk.len() as u64);
            // What was written of it is not counted, so it must not be there.
            self.file.set_len(start)?;
            return Err(fault.into());
        }
        self.chunks += 1;
        self.unsynced += chunk.len() as u64;
        if self.unsynced >= SYNC_EVERY_BYTES {
            self.unsynced = 0;
            self.file.sync_data()?;
            self.store.0.usage.check(&self.store.0.partial, 0)?;
        }
        Ok(())
    }

    /// All of it has come. When this returns `Ok`, it survives a power cut.
    pub fn finish(self) -> Result<Pin, BlobError> {
        let of = self.reference();
        if self.next().is_some() {
            return Err(BlobError::Damaged(of));
        }
        self.file.sync_all()?;
        let sums = self.path.with_extension(SUMS);
        self.store.settle_in(&self.path, &sums, of)?;
        Ok(self.pin)
    }

    /// Keeps what is right of what is there, and nothing after it.
    fn look_over(&mut self) -> Result<(), BlobError> {
        let found = self.file.metadata()?.len();
        let mut right = 0;
        if let Some(sums) = &self.sums {
            let mut chunk = Vec::new();
            while self.chunks < sums.chunks() && right < found {
                chunk.resize(sums.chunk_bytes(self.chunks), 0);
                if self.file.read_exact_at(&mut chunk, right).is_err()
                    || !sums.fits(self.chunks, &chunk)
                {
                    break;
                }
                self.chunks += 1;
                right += chunk.len() as u64;
            }
        }
        if right < found {
            self.file.set_len(right)?;
            self.store.0.usage.give_back(found - right);
        }
        Ok(())
    }
}
