//! Removing what nobody needs: marked by whoever knows, swept here.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::reference::Reference;
use crate::store::BlobStore;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many contents, whole or not.
    pub blobs: u64,
    /// What they took.
    pub bytes: u64,
}

impl BlobStore {
    /// Removes every content that is neither needed nor pinned. What is needed has to be asked for
    /// after the operations that name it are on disk, and before this: whoever brings a content holds
    /// its pin until then.
    pub fn collect(&self, needed: &HashSet<Reference>) -> io::Result<Collected> {
        let needed: HashSet<String> = needed.iter().map(Reference::name).collect();
        let before = self.bytes();
        let mut collected = Collected::default();
        for folder in [&self.0.whole, &self.0.partial] {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if self.is_surplus(&path, &needed)? {
                    collected.blobs += u64::from(path.extension().is_none());
                }
            }
        }
        collected.bytes = before.saturating_sub(self.bytes());
        Ok(collected)
    }

    /// Removes one file if nobody needs it, and says so.
    fn is_surplus(&self, path: &Path, needed: &HashSet<String>) -> io::Result<bool> {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let Some(hash) = stem.and_then(|stem| blake3::Hash::from_hex(stem).ok()) else {
            // Nothing of ours.
            return Ok(false);
        };
        if stem.is_some_and(|stem| needed.contains(stem)) {
            return Ok(false);
        }
        // Held until it is gone: a pin that comes later finds nothing, and not half.
        let pins = self.pins();
        if pins.contains_key(hash.as_bytes()) {
            return Ok(false);
        }
        self.remove(path)?;
        Ok(true)
    }
}
