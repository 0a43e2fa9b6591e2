//! What can go wrong, by what there is to do about it.

use std::io;

use crate::reference::Reference;

/// Why a content is not taken in, or not given back.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// Refuse it, and try again when something was collected.
    #[error("no room for contents")]
    Full,
    /// Refuse it for good.
    #[error("a content may have {} GiB", crate::limits::BLOB_BYTES_MAX >> 30)]
    TooLong,
    /// Fetch it again, from another site: what came, or what is on the disk, is not what it should be.
    #[error("{0} is damaged")]
    Damaged(Reference),
    /// Try again later.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for BlobError {
    fn from(fault: io::Error) -> BlobError {
        match fault.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::Full,
            _ => BlobError::Io(fault),
        }
    }
}
