//! A content on its way out: every chunk is checked before anybody sees it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::BlobError;
use crate::reference::Reference;
use crate::sums::Sums;

/// A content that is here whole, as far as is known.
#[derive(Debug)]
pub struct Reader {
    sums: Sums,
    file: File,
}

impl Reader {
    pub(crate) fn new(sums: Sums, file: File) -> Reader {
        Reader { sums, file }
    }

    /// Which.
    pub fn reference(&self) -> Reference {
        self.sums.reference()
    }

    /// The sums of its chunks.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// One chunk; empty past the end.
    pub fn chunk(&mut self, index: u64) -> Result<Vec<u8>, BlobError> {
        let mut chunk = vec![0; self.sums.chunk_bytes(index)];
        let start = index.saturating_mul(crate::limits::CHUNK_BYTES as u64);
        match self.file.read_exact_at(&mut chunk, start) {
            Ok(()) => (),
            Err(fault) if fault.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(BlobError::Damaged(self.reference()));
            }
            Err(fault) => return Err(fault.into()),
        }
        match index >= self.sums.chunks() || self.sums.fits(index, &chunk) {
            true => Ok(chunk),
            false => Err(BlobError::Damaged(self.reference())),
        }
    }
}
