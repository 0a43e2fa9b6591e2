//! Versioned records: what is written today still reads in ten years.
//!
//! ```text
//! kind (4 bytes, text) │ version (2, little endian) │ check (8) │ payload (postcard)
//! ```
//!
//! A type writes its newest version only and reads every older one: each version names the one
//! before it and how to get from there to here. The bytes of every version are kept as fixtures.
//! The check is part of the blake3 of all the rest, so that a damaged record is named and never
//! read as something else. One envelope for whatever an agent keeps; no I/O here.

use serde::Serialize;
use serde::de::DeserializeOwned;

const KIND_BYTES: usize = 4;
const VERSION_BYTES: usize = 2;
const CHECK_BYTES: usize = 8;
const HEADER_BYTES: usize = KIND_BYTES + VERSION_BYTES + CHECK_BYTES;

/// A type with a history.
///
/// ```
/// use cheops_model::record::{First, Record, decode, encode};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Seen1 { times: u16 }
/// impl Record for Seen1 {
///     const KIND: [u8; 4] = *b"SEEN";
///     const VERSION: u16 = 1;
///     type Previous = First;
///     fn migrate(first: First) -> Self { match first {} }
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Seen { times: u64, by: Option<String> }
/// impl Record for Seen {
///     const KIND: [u8; 4] = *b"SEEN";
///     const VERSION: u16 = 2;
///     type Previous = Seen1;
///     fn migrate(old: Seen1) -> Self { Seen { times: old.times.into(), by: None } }
/// }
///
/// let written_last_year = encode(&Seen1 { times: 3 });
/// let read_today: Seen = decode(&written_last_year)?;
/// assert_eq!(read_today.times, 3);
/// # Ok::<(), cheops_model::record::RecordFault>(())
/// ```
pub trait Record: Serialize + DeserializeOwned {
    /// What it is, the same in every version.
    const KIND: [u8; 4];
    /// Which version this type is; greater than that of [`Record::Previous`].
    const VERSION: u16;
    /// The version before, [`First`] if there is none.
    type Previous: Record;
    /// Makes this version out of the one before. It cannot fail: what was right stays right.
    fn migrate(previous: Self::Previous) -> Self;
}

/// What stands before the first version: nothing, so there is no value of it.
#[derive(serde::Serialize, serde::Deserialize)]
pub enum First {}

impl Record for First {
    const KIND: [u8; 4] = [0; 4];
    const VERSION: u16 = 0;
    type Previous = First;
    fn migrate(previous: First) -> First {
        previous
    }
}

/// Why bytes are not the record that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// Shorter than any record.
    #[error("the record is cut short: {found} bytes")]
    Truncated {
        /// How many there are.
        found: usize,
    },
    /// A record of something else.
    #[error("this is a record of kind {}, not {}", found.escape_ascii(), expected.escape_ascii())]
    OtherKind {
        /// What it says it is.
        found: [u8; 4],
        /// What was asked for.
        expected: [u8; 4],
    },
    /// Bits are not as they were written.
    #[error("the record is damaged: its check does not match")]
    Damaged,
    /// Written by a newer agent, or a version that never was.
    #[error("the record has version {found}, and {newest} is the newest known here")]
    UnknownVersion {
        /// What it says it is.
        found: u16,
        /// What this agent writes.
        newest: u16,
    },
    /// Whole, and of a known version, but its fields do not read: a fault of ours.
    #[error("the record of version {version} does not read")]
    Unreadable {
        /// Which version.
        version: u16,
    },
}

/// The bytes of `record`, in the version of its type.
pub fn encode<R: Record>(record: &R) -> Vec<u8> {
    const { assert!(R::VERSION > R::Previous::VERSION) };
    let payload = postcard::to_stdvec(record).expect("records are plain values of known length");
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend(R::KIND);
    bytes.extend(R::VERSION.to_le_bytes());
    bytes.extend(check(R::KIND, R::VERSION, &payload));
    bytes.extend(payload);
    bytes
}

/// Reads `bytes` of any version that `R` has had.
pub fn decode<R: Record>(bytes: &[u8]) -> Result<R, RecordFault> {
    let envelope = Envelope::parse(bytes)?;
    if envelope.kind != R::KIND {
        let (found, expected) = (envelope.kind, R::KIND);
        return Err(RecordFault::OtherKind { found, expected });
    }
    // After the kind: a new kind of check would come with a new kind of record.
    if envelope.check != check(envelope.kind, envelope.version, envelope.payload) {
        return Err(RecordFault::Damaged);
    }
    read(envelope.version, envelope.payload, R::VERSION)
}

struct Envelope<'a> {
    kind: [u8; KIND_BYTES],
    version: u16,
    check: [u8; CHECK_BYTES],
    payload: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Envelope<'a>, RecordFault> {
        let parsed = bytes.split_first_chunk().and_then(|(kind, rest)| {
            let (version, rest) = rest.split_first_chunk()?;
            let (check, payload) = rest.split_first_chunk()?;
            let version = u16::from_le_bytes(*version);
            let (kind, check) = (*kind, *check);
            Some(Envelope {
                kind,
                version,
                check,
                payload,
            })
        });
        parsed.ok_or(RecordFault::Truncated { found: bytes.len() })
    }
}

/// Reads version `version` as `R` or, by way of the versions before it, into `R`.
fn read<R: Record>(version: u16, payload: &[u8], newest: u16) -> Result<R, RecordFault> {
    if version == R::VERSION && version != First::VERSION {
        let unreadable = RecordFault::Unreadable { version };
        return match postcard::take_from_bytes(payload) {
            Ok((record, [])) => Ok(record),
            Ok(_) | Err(_) => Err(unreadable),
        };
    }
    if version > R::VERSION || R::VERSION == First::VERSION {
        let found = version;
        return Err(RecordFault::UnknownVersion { found, newest });
    }
    read::<R::Previous>(version, payload, newest).map(R::migrate)
}

fn check(kind: [u8; KIND_BYTES], version: u16, payload: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&kind);
    hasher.update(&version.to_le_bytes());
    hasher.update(payload);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_BYTES]);
    check
}
