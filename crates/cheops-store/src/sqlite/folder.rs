//! The folder of a store: its files, and the lock that makes it one agent's.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::fault::file_reaction;
use crate::StoreError;
use crate::files;

/// The files of one store.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Held until the store is closed, or the process ends however it ends.
    _lock: File,
}

impl Folder {
    /// Creates the folder if need be and locks it.
    pub(super) fn lock(path: &Path) -> Result<Folder, StoreError> {
        let locked = files::create_folder(path);
        let locked = locked.and_then(|()| files::open_private(&path.join("store.lock")));
        let lock = locked.map_err(|fault| file_reaction(fault, 0))?;
        match lock.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::unusable(format!(
                    "another agent is using {}; a store belongs to one",
                    path.display()
                )));
            }
            Err(TryLockError::Error(fault)) => return Err(file_reaction(fault, 0)),
        }
        let path = path.to_path_buf();
        Ok(Folder { path, _lock: lock })
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join("store.db")
    }

    pub(super) fn marker(&self) -> PathBuf {
        self.path.join("store.marker")
    }

    /// There while a restore is under way.
    pub(super) fn restoring(&self) -> PathBuf {
        self.path.join("store.restoring")
    }
}
