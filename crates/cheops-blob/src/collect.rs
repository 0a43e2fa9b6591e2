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

/// The beginning of a collection: what was pinned since then is not swept.
#[derive(Debug)]
pub struct Mark(BlobStore);

impl BlobStore {
    /// Begins a collection. What is needed is to be found out after this.
    pub fn mark(&self) -> Mark {
        self.pins().retain(|_, count| *count > 0);
        Mark(self.clone())
    }
}

impl Mark {
    /// Removes every content that is neither needed nor pinned.
    pub fn sweep(self, needed: &HashSet<Reference>) -> io::Result<Collected> {
        let store = self.0;
        let needed: HashSet<String> = needed.iter().map(Reference::name).collect();
        let before = store.bytes();
        let mut collected = Collected::default();
        for folder in [&store.0.whole, &store.0.partial] {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if remove_surplus(&store, &path, &needed)? {
                    collected.blobs += u64::from(path.extension().is_none());
                }
            }
        }
        collected.bytes = before.saturating_sub(store.bytes());
        Ok(collected)
    }
}

/// Removes one file if nobody needs it, and says whether it did.
fn remove_surplus(store: &BlobStore, path: &Path, needed: &HashSet<String>) -> io::Result<bool> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let Some(hash) = stem.and_then(|stem| blake3::Hash::from_hex(stem).ok()) else {
        // Nothing of ours.
        return Ok(false);
    };
    if stem.is_some_and(|stem| needed.contains(stem)) {
        return Ok(false);
    }
    // Held until it is gone: a pin that comes later finds nothing, and not half.
    let pins = store.pins();
    if pins.contains_key(hash.as_bytes()) {
        return Ok(false);
    }
    store.remove(path)?;
    Ok(true)
}
