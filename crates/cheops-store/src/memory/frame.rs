//! A commit as bytes: what a crash can cut short.

use crate::batch::{Batch, Write};
use crate::key::{Key, Value};
use crate::table::Table;

const CHECK_BYTES: usize = 16;

/// A write, on its way to the disk: table, key, and the value unless it is a delete.
type Line = (u8, Key, Option<Value>);

/// The bytes of `batch`, checksum first.
pub(super) fn encode(batch: &Batch) -> Vec<u8> {
    let lines: Vec<Line> = batch.writes().iter().map(line).collect();
    let payload = postcard::to_stdvec(&lines).expect("writes are plain values of known length");
    let mut frame = blake3::hash(&payload).as_bytes()[..CHECK_BYTES].to_vec();
    frame.extend(payload);
    frame
}

/// The writes of a whole frame; `None` if it is torn.
pub(super) fn decode(frame: &[u8]) -> Option<Vec<Write>> {
    let (check, payload) = frame.split_at_checked(CHECK_BYTES)?;
    if blake3::hash(payload).as_bytes()[..CHECK_BYTES] != *check {
        return None;
    }
    let lines: Vec<Line> = postcard::from_bytes(payload).ok()?;
    lines.into_iter().map(write).collect()
}

fn line(write: &Write) -> Line {
    let (table, key) = write.target();
    let value = match write {
        Write::Put { value, .. } => Some(value.clone()),
        Write::Delete { .. } => None,
    };
    (table as u8, key.to_vec(), value)
}

fn write((table, key, value): Line) -> Option<Write> {
    let table = *Table::ALL.get(usize::from(table))?;
    Some(match value {
        Some(value) => Write::Put { table, key, value },
        None => Write::Delete { table, key },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_cut_anywhere_is_no_frame() {
        let mut batch = Batch::new();
        batch.put(Table::Outbox, b"a", b"1").unwrap();
        batch.delete(Table::Idempotency, b"b").unwrap();
        let frame = encode(&batch);
        assert_eq!(decode(&frame).as_deref(), Some(batch.writes()));
        for length in 0..frame.len() {
            assert_eq!(decode(&frame[..length]), None);
        }
    }
}
