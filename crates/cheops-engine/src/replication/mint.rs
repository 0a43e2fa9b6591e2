//! The clock of the wall, and ids of operations that no key has fixed.

use std::time::SystemTime;

use cheops_core::{OperationId, dated};

/// Now, in milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// A new id, remembered for as long as answers are promised to be kept.
pub fn lasting_id() -> OperationId {
    OperationId::lasting(dated(unix_ms(), rand::random()))
}

/// A new id, soon forgotten.
pub fn passing_id() -> OperationId {
    OperationId::passing(dated(unix_ms(), rand::random()))
}
