//! What the store keeps about itself: which life it is in, and how many commits it has seen.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::fault::reaction;
use crate::record::{self, First, Record};
use crate::{Incarnation, StoreError};

/// The store's own record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The life the database is in.
    pub incarnation: Incarnation,
    /// How many lives it has had, this one included.
    pub incarnations: u64,
}

impl Record for Meta {
    const KIND: [u8; 4] = *b"META";
    const VERSION: u16 = 1;
    type Previous = First;
    fn migrate(first: First) -> Meta {
        match first {}
    }
}

impl Meta {
    /// The first life.
    pub(super) fn first() -> Meta {
        Meta {
            incarnation: draw(),
            incarnations: 1,
        }
    }

    /// The life after this one.
    pub(super) fn renewed(&self) -> Meta {
        Meta {
            incarnation: draw(),
            incarnations: self.incarnations + 1,
        }
    }
}

/// Reads the record and the number of transactions so far.
pub(super) fn load(connection: &Connection) -> Result<(Meta, u64), StoreError> {
    let row = connection.query_row("SELECT meta, sequence FROM store", (), |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?))
    });
    let (bytes, sequence) = row.map_err(|error| reaction(error, 0))?;
    let broken = |why: String| StoreError::unusable(format!("its own record is broken ({why})"));
    let meta = record::decode(&bytes).map_err(|fault| broken(fault.to_string()))?;
    let sequence = u64::try_from(sequence).map_err(|fault| broken(fault.to_string()))?;
    Ok((meta, sequence))
}

/// Puts `meta` in the place of the one before.
pub(super) fn save(connection: &Connection, meta: &Meta) -> Result<(), StoreError> {
    let bytes = record::encode(meta);
    let needed = bytes.len();
    let saved = connection.execute("UPDATE store SET meta = ?1", [bytes]);
    saved.map(drop).map_err(|error| reaction(error, needed))
}

fn draw() -> Incarnation {
    Incarnation::from_bytes(rand::random())
}
