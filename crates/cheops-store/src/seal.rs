//! The seal: a checksum over a record and the place where it belongs.
//!
//! Table and key are part of it, so that a whole value in the wrong place is noticed too. It is
//! against accidents, not against people.

use crate::Table;

/// Bytes of a seal.
pub(crate) const SEAL_BYTES: usize = 16;

pub(crate) type Seal = [u8; SEAL_BYTES];

/// The seal of `value` under `key` in `table`.
pub(crate) fn seal(table: Table, key: &[u8], value: &[u8]) -> Seal {
    let mut hasher = blake3::Hasher::new();
    hasher.update(table.name().as_bytes());
    hasher.update(&[0]);
    // The length keeps (ab, c) and (a, bc) apart.
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(value);
    let mut seal = Seal::default();
    seal.copy_from_slice(&hasher.finalize().as_bytes()[..SEAL_BYTES]);
    seal
}

/// Whether the record is as it was written.
pub(crate) fn holds(table: Table, key: &[u8], value: &[u8], found: &[u8]) -> bool {
    seal(table, key, value) == found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_move_breaks_the_seal() {
        let (key, value) = (b"key".to_vec(), b"value".to_vec());
        let good = seal(Table::Log, &key, &value);
        assert!(holds(Table::Log, &key, &value, &good));
        assert!(!holds(Table::Meta, &key, &value, &good));
        assert!(!holds(Table::Log, b"keyv", b"alue", &good));
        for bit in 0..value.len() * 8 {
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!holds(Table::Log, &key, &flipped, &good));
        }
    }
}
