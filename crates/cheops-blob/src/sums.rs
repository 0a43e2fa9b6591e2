//! The sums of a content's chunks: nodes of BLAKE3's own tree, so that they prove themselves
//! against the hash of the whole.

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::limits::{BLOB_BYTES_MAX, CHUNK_BYTES};
use crate::reference::Reference;

const SUM_BYTES: usize = 32;

/// The sum of every chunk of one content. Checked against its name when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    of: Reference,
    values: Vec<ChainingValue>,
}

impl Sums {
    /// Sums as bytes say; none if they are not those of that content.
    pub fn read(of: Reference, bytes: &[u8]) -> Option<Sums> {
        let (values, rest) = bytes.as_chunks::<SUM_BYTES>();
        let fits = rest.is_empty()
            && of.bytes <= BLOB_BYTES_MAX
            && values.len() as u64 == chunks_of(of.bytes);
        let sums = Sums {
            of,
            values: values.to_vec(),
        };
        (fits && root(&sums.values) == of.hash).then_some(sums)
    }

    /// As they are kept and sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.values.concat()
    }

    /// Whose.
    pub fn reference(&self) -> Reference {
        self.of
    }

    /// How many chunks there are. Even an empty content has one.
    pub fn chunks(&self) -> u64 {
        self.values.len() as u64
    }

    /// How long one chunk is; 0 past the end.
    pub fn chunk_bytes(&self, index: u64) -> usize {
        let start = index.saturating_mul(CHUNK_BYTES as u64);
        self.of.bytes.saturating_sub(start).min(CHUNK_BYTES as u64) as usize
    }

    /// True if that is that chunk.
    pub fn fits(&self, index: u64, chunk: &[u8]) -> bool {
        let expected = usize::try_from(index)
            .ok()
            .and_then(|at| self.values.get(at));
        let Some(expected) = expected.filter(|_| chunk.len() == self.chunk_bytes(index)) else {
            return false;
        };
        if self.values.len() == 1 {
            return blake3::hash(chunk).as_bytes() == expected;
        }
        let mut hasher = Hasher::new();
        hasher.set_input_offset(index * CHUNK_BYTES as u64);
        hasher.update(chunk);
        hasher.finalize_non_root() == *expected
    }
}

fn chunks_of(bytes: u64) -> u64 {
    bytes.div_ceil(CHUNK_BYTES as u64).max(1)
}

/// The hash of the whole. A single chunk is the whole, and its sum is that already.
fn root(values: &[ChainingValue]) -> [u8; 32] {
    match values {
        [] => [0; 32],
        [whole] => *whole,
        more => {
            let (left, right) = more.split_at(left_of(more.len()));
            *merge_subtrees_root(&node(left), &node(right), Mode::Hash).as_bytes()
        }
    }
}

fn node(values: &[ChainingValue]) -> ChainingValue {
    match values {
        [one] => *one,
        more => {
            let (left, right) = more.split_at(left_of(more.len()));
            merge_subtrees_non_root(&node(left), &node(right), Mode::Hash)
        }
    }
}

/// The left subtree is the largest power of two that leaves something to the right.
fn left_of(count: usize) -> usize {
    count.next_power_of_two() / 2
}

/// Sums a content as it comes.
#[derive(Debug, Default)]
pub(crate) struct Summer {
    hasher: Hasher,
    in_chunk: usize,
    bytes: u64,
    values: Vec<ChainingValue>,
    /// Of the first chunk, if it turns out to be the whole.
    whole: Option<[u8; 32]>,
}

impl Summer {
    pub(crate) fn update(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            if self.in_chunk == CHUNK_BYTES {
                self.end_chunk();
                self.begin_chunk();
            }
            let (now, later) = piece.split_at(piece.len().min(CHUNK_BYTES - self.in_chunk));
            self.hasher.update(now);
            self.in_chunk += now.len();
            self.bytes += now.len() as u64;
            piece = later;
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn finish(mut self) -> Sums {
        self.end_chunk();
        let mut values = self.values;
        if let ([only], Some(whole)) = (&mut values[..], self.whole) {
            *only = whole;
        }
        let of = Reference {
            hash: root(&values),
            bytes: self.bytes,
        };
        Sums { of, values }
    }

    fn end_chunk(&mut self) {
        if self.values.is_empty() {
            self.whole = Some(*self.hasher.finalize().as_bytes());
        }
        // An empty content has no subtree but the root.
        let value = match self.bytes {
            0 => [0; SUM_BYTES],
            _ => self.hasher.finalize_non_root(),
        };
        self.values.push(value);
    }

    fn begin_chunk(&mut self) {
        self.hasher = Hasher::new();
        self.hasher.set_input_offset(self.bytes);
        self.in_chunk = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    fn sums_of(content: &[u8], piece: usize) -> Sums {
        let mut summer = Summer::default();
        content
            .chunks(piece.max(1))
            .for_each(|piece| summer.update(piece));
        summer.finish()
    }

    fn check(bytes: usize, piece: usize) {
        let content = content(bytes);
        let sums = sums_of(&content, piece);
        let reference = sums.reference();
        assert_eq!(
            reference.hash,
            *blake3::hash(&content).as_bytes(),
            "{bytes}"
        );
        assert_eq!(reference.bytes, bytes as u64);
        assert_eq!(Sums::read(reference, &sums.to_bytes()), Some(sums.clone()));
        let chunks: Vec<&[u8]> = match bytes {
            0 => vec![&[]],
            _ => content.chunks(CHUNK_BYTES).collect(),
        };
        assert_eq!(sums.chunks(), chunks.len() as u64);
        for (index, chunk) in chunks.iter().enumerate() {
            assert!(sums.fits(index as u64, chunk), "{bytes} {index}");
            assert!(!sums.fits(index as u64 + 1, chunk), "{bytes} {index}");
        }
    }

    #[test]
    fn the_tree_of_chunks_ends_in_the_plain_hash() {
        let chunk = CHUNK_BYTES;
        for bytes in [
            0,
            1,
            1024,
            chunk - 1,
            chunk,
            chunk + 1,
            2 * chunk,
            5 * chunk + 7,
        ] {
            check(bytes, 300_007);
        }
        check(7 * chunk, chunk);
        check(3 * chunk, 3 * chunk);
    }

    #[test]
    fn sums_of_something_else_are_none() {
        let sums = sums_of(&content(3 * CHUNK_BYTES), CHUNK_BYTES);
        let (of, bytes) = (sums.reference(), sums.to_bytes());
        let mut wrong = bytes.clone();
        wrong[40] ^= 1;
        assert_eq!(Sums::read(of, &wrong), None);
        assert_eq!(Sums::read(of, &bytes[..64]), None);
        assert_eq!(Sums::read(of, &bytes[..95]), None);
        assert_eq!(Sums::read(of, &[]), None);
        let longer = Reference {
            bytes: of.bytes + 1,
            ..of
        };
        assert_eq!(Sums::read(longer, &bytes), None);
        let huge = Reference {
            bytes: u64::MAX,
            ..of
        };
        assert_eq!(Sums::read(huge, &bytes), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn any_pieces_give_the_same_sums(bytes in 0..4 * CHUNK_BYTES, piece in 1..2 * CHUNK_BYTES) {
            check(bytes, piece);
        }

        #[test]
        fn a_flipped_bit_is_in_no_chunk(bytes in 1..3 * CHUNK_BYTES, at in any::<prop::sample::Index>()) {
            let mut content = content(bytes);
            let sums = sums_of(&content, CHUNK_BYTES);
            let at = at.index(bytes);
            content[at] ^= 0x10;
            let chunk = at / CHUNK_BYTES;
            let end = bytes.min((chunk + 1) * CHUNK_BYTES);
            prop_assert!(!sums.fits(chunk as u64, &content[chunk * CHUNK_BYTES..end]));
        }
    }
}
