//! What can go wrong, by what there is to do about it.

use std::{fmt, io};

use crate::Table;
use crate::key::{Key, Shown};

/// One variant per reaction.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Quarantine that record and mend it from another replica; everything else serves on.
    #[error("{table}: the record {} is damaged", Shown(key))]
    Corrupt {
        /// Where it is.
        table: Table,
        /// Which one.
        key: Key,
    },
    /// Refuse writes, keep serving reads. Nothing of the batch was stored; once there is room the
    /// next commit goes through, without a restart.
    #[error("no room on disk for {needed_bytes} bytes more")]
    Full {
        /// Keys and values of the batch.
        needed_bytes: usize,
    },
    /// Try again later. Nothing of the batch was stored.
    #[error("the store did not answer: {0}")]
    Io(#[source] io::Error),
    /// Stop the agent: what was written can no longer be trusted, or is not ours to write to.
    #[error("the store cannot be used: {why}")]
    Unusable {
        /// What was found, and what an operator can do about it.
        why: String,
    },
}

impl StoreError {
    pub(crate) fn unusable(why: impl Into<String>) -> StoreError {
        StoreError::Unusable { why: why.into() }
    }
}

/// A write that does not fit: refuse the request that made it, since it will never fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} {bound}; at most {max} are taken")]
pub struct TooLarge {
    /// What was too large.
    pub bound: Bound,
    /// How large it was.
    pub found: usize,
    /// How large it may be.
    pub max: usize,
}

/// The bounds of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX).
    KeyBytes,
    /// [`VALUE_BYTES_MAX`](crate::limits::VALUE_BYTES_MAX).
    ValueBytes,
    /// [`BATCH_WRITES_MAX`](crate::limits::BATCH_WRITES_MAX).
    BatchWrites,
    /// [`BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX).
    BatchBytes,
}

impl fmt::Display for Bound {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Bound::KeyBytes => "bytes of a key",
            Bound::ValueBytes => "bytes of a value",
            Bound::BatchWrites => "writes of a batch",
            Bound::BatchBytes => "bytes of a batch",
        })
    }
}
