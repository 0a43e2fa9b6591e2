//! From SQLite's many codes to our few reactions.

use std::io;

use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::StoreError;

/// What to do when the file itself is broken.
const BROKEN: &str = "stop the agent, keep the folder, and restore the last backup";

/// What to do about `error`, met while `needed_bytes` were to be written.
pub(super) fn reaction(error: rusqlite::Error, needed_bytes: usize) -> StoreError {
    let code = error.sqlite_error_code();
    match code {
        Some(ErrorCode::DiskFull) => StoreError::Full { needed_bytes },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::unusable(format!("the database file is broken ({error}); {BROKEN}"))
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::unusable(format!("the database cannot be written to ({error})"))
        }
        Some(ErrorCode::SystemIoFailure) if is_loss(&error) => StoreError::unusable(format!(
            "the disk failed to write ({error}), and what it holds is not known; look at the disk, and start again \
             only once it is sound"
        )),
        Some(_) => StoreError::Io(io::Error::other(error)),
        // Not from SQLite: rows are not as our own schema says.
        None => StoreError::unusable(format!(
            "the database is not as it should be ({error}); {BROKEN}"
        )),
    }
}

/// Files beside the database.
pub(super) fn file_reaction(error: io::Error, needed_bytes: usize) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { needed_bytes }
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::unusable(format!("its folder cannot be written to: {error}"))
        }
        _ => StoreError::Io(error),
    }
}

/// Whether something may have been written that is not there, or the other way round. After a
/// failed sync the kernel has forgotten which pages were dirty, and a second sync proves nothing.
fn is_loss(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error().map(|error| error.extended_code),
        Some(
            ffi::SQLITE_IOERR_FSYNC
                | ffi::SQLITE_IOERR_DIR_FSYNC
                | ffi::SQLITE_IOERR_WRITE
                | ffi::SQLITE_IOERR_TRUNCATE
                | ffi::SQLITE_IOERR_CORRUPTFS
                | ffi::SQLITE_IOERR_DATA
        )
    )
}
