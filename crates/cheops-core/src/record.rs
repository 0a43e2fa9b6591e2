//! Records: a version, a check sum, a payload. What cannot be read is named, and never a panic.
//!
//! The bytes of every version that was ever written are kept in `tests/fixtures`. A new version is a new arm of
//! [`decode`], which turns the old form into the present one.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Where a record lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// One record: this site's own counters.
    Site,
    /// By replicant.
    Replicants,
    /// By replicant and index.
    Log,
    /// By operation: what clients were told.
    Answers,
    /// By operation: what this site still has to hand to a leader.
    Outbox,
}

/// The version written now.
pub const VERSION: u8 = 1;

const SUM_BYTES: usize = 8;

/// Why bytes are not a record. Quarantine it and serve the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Written by a later release.
    #[error(
        "the record has version {0}, this release knows {VERSION}: do not go back to an older release"
    )]
    UnknownVersion(u8),
    /// Fewer bytes than any record has.
    #[error("the record is cut off")]
    Truncated,
    /// The check sum does not fit.
    #[error("the record is damaged")]
    Damaged,
    /// The check sum fits, the content does not.
    #[error("the record does not hold what its table holds")]
    Malformed,
}

/// The bytes of a record.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let payload = postcard::to_stdvec(value).expect("records hold nothing that cannot be written");
    let mut bytes = Vec::with_capacity(1 + SUM_BYTES + payload.len());
    bytes.push(VERSION);
    bytes.extend(sum(VERSION, &payload));
    bytes.extend(payload);
    bytes
}

/// Reads a record of whatever version.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    let (&version, rest) = bytes.split_first().ok_or(RecordError::Truncated)?;
    if version != VERSION {
        return Err(RecordError::UnknownVersion(version));
    }
    let (found, payload) = rest
        .split_at_checked(SUM_BYTES)
        .ok_or(RecordError::Truncated)?;
    if found != sum(version, payload) {
        return Err(RecordError::Damaged);
    }
    let (value, left) = postcard::take_from_bytes(payload).map_err(|_| RecordError::Malformed)?;
    if left.is_empty() {
        Ok(value)
    } else {
        Err(RecordError::Malformed)
    }
}

fn sum(version: u8, payload: &[u8]) -> [u8; SUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[version]);
    hasher.update(payload);
    hasher.finalize().as_bytes()[..SUM_BYTES]
        .try_into()
        .expect("32 bytes hold 8")
}

pub(crate) fn key_of(id: u128) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

pub(crate) fn log_key(id: u128, index: u64) -> Vec<u8> {
    let mut key = key_of(id);
    key.extend(index.to_be_bytes());
    key
}
