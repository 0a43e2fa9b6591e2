//! A content on its way in from a client.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use crate::error::BlobError;
use crate::limits::{BLOB_BYTES_MAX, SYNC_EVERY_BYTES};
use crate::store::{BlobStore, Pin, SUMS};
use crate::sums::Summer;

/// A content that comes in. Dropped before its end, it leaves nothing.
#[derive(Debug)]
pub struct Upload {
    store: BlobStore,
    file: File,
    path: PathBuf,
    summer: Summer,
    unsynced: u64,
}

impl Upload {
    pub(crate) fn new(store: BlobStore, file: File, path: PathBuf) -> Upload {
        Upload {
            store,
            file,
            path,
            summer: Summer::default(),
            unsynced: 0,
        }
    }

    /// How much has come.
    pub fn bytes(&self) -> u64 {
        self.summer.bytes()
    }

    /// The next piece.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), BlobError> {
        let more = piece.len() as u64;
        if self.bytes() + more > BLOB_BYTES_MAX {
            return Err(BlobError::TooLong);
        }
        self.store.0.usage.take(more)?;
        // Counted whether it is written or not: dropping gives back what was counted.
        self.summer.update(piece);
        self.file.write_all(piece)?;
        self.unsynced += more;
        if self.unsynced >= SYNC_EVERY_BYTES {
            self.unsynced = 0;
            self.file.sync_data()?;
            self.store.0.usage.check(&self.store.0.incoming, 0)?;
        }
        Ok(())
    }

    /// All of it has come. When this returns `Ok`, it survives a power cut.
    pub fn finish(mut self) -> Result<Pin, BlobError> {
        self.file.sync_all()?;
        let sums = std::mem::take(&mut self.summer).finish();
        let of = sums.reference();
        let pin = self.store.pin(of);
        let beside = self.path.with_extension(SUMS);
        let settled = self
            .store
            .write_sums(&beside, &sums)
            .and_then(|()| Ok(self.store.settle_in(&self.path, &beside, of)?));
        if let Err(fault) = settled {
            let _ = self.store.remove(&self.path);
            let _ = self.store.remove(&beside);
            return Err(fault);
        }
        Ok(pin)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.store.0.usage.give_back(self.summer.bytes());
        // Under its own name, it is gone from here.
        let _ = fs::remove_file(&self.path);
    }
}
