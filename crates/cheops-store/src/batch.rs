//! A batch: writes that are stored together or not at all.
//!
//! The bounds are checked while it is made, so that a batch in hand always fits and a commit never
//! fails by size.

use crate::Table;
use crate::error::{Bound, TooLarge};
use crate::key::{Key, Value};
use crate::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Writes in the order in which they are applied: the last one to a key wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    writes: Vec<Write>,
    bytes: usize,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The key has this value from now on.
    Put {
        /// Where.
        table: Table,
        /// Which.
        key: Key,
        /// What.
        value: Value,
    },
    /// The key has no value from now on; it need not have had one.
    Delete {
        /// Where.
        table: Table,
        /// Which.
        key: Key,
    },
}

impl Batch {
    /// Nothing yet.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds a put; a refused one leaves the batch as it was.
    pub fn put(
        &mut self,
        table: Table,
        key: impl Into<Key>,
        value: impl Into<Value>,
    ) -> Result<&mut Batch, TooLarge> {
        let (key, value) = (key.into(), value.into());
        within(Bound::ValueBytes, value.len(), VALUE_BYTES_MAX)?;
        self.add(key.len(), value.len())?;
        self.writes.push(Write::Put { table, key, value });
        Ok(self)
    }

    /// Adds a delete; a refused one leaves the batch as it was.
    pub fn delete(&mut self, table: Table, key: impl Into<Key>) -> Result<&mut Batch, TooLarge> {
        let key = key.into();
        self.add(key.len(), 0)?;
        self.writes.push(Write::Delete { table, key });
        Ok(self)
    }

    /// The writes, in order.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// Keys and values together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn add(&mut self, key_bytes: usize, value_bytes: usize) -> Result<(), TooLarge> {
        let bytes = self.bytes + key_bytes + value_bytes;
        within(Bound::KeyBytes, key_bytes, KEY_BYTES_MAX)?;
        within(Bound::BatchWrites, self.writes.len() + 1, BATCH_WRITES_MAX)?;
        within(Bound::BatchBytes, bytes, BATCH_BYTES_MAX)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Write {
    /// Where and which.
    pub fn target(&self) -> (Table, &[u8]) {
        match self {
            Write::Put { table, key, .. } | Write::Delete { table, key } => (*table, key),
        }
    }
}

fn within(bound: Bound, found: usize, max: usize) -> Result<(), TooLarge> {
    if found > max {
        return Err(TooLarge { bound, found, max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bound: Bound, fits: Result<&mut Batch, TooLarge>) {
        assert_eq!(fits.unwrap_err().bound, bound);
    }

    #[test]
    fn the_last_that_fits_is_taken_and_the_first_that_does_not_is_refused() {
        let mut batch = Batch::new();
        batch
            .put(Table::Log, vec![0; KEY_BYTES_MAX], vec![0; VALUE_BYTES_MAX])
            .unwrap();
        let before = batch.clone();
        check(
            Bound::KeyBytes,
            batch.delete(Table::Log, vec![0; KEY_BYTES_MAX + 1]),
        );
        check(
            Bound::ValueBytes,
            batch.put(Table::Log, b"k", vec![0; VALUE_BYTES_MAX + 1]),
        );
        assert_eq!(batch, before);
    }

    #[test]
    fn a_batch_holds_so_many_writes_and_so_many_bytes() {
        let mut many = Batch::new();
        for _ in 0..BATCH_WRITES_MAX {
            many.delete(Table::Log, b"k").unwrap();
        }
        check(Bound::BatchWrites, many.delete(Table::Log, b"k"));

        let mut heavy = Batch::new();
        for _ in 0..BATCH_BYTES_MAX / VALUE_BYTES_MAX {
            heavy
                .put(Table::Log, b"", vec![0; VALUE_BYTES_MAX])
                .unwrap();
        }
        check(Bound::BatchBytes, heavy.put(Table::Log, b"k", b""));
        assert_eq!(heavy.bytes(), BATCH_BYTES_MAX);
    }
}
