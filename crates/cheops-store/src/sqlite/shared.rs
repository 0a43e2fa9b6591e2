//! What the writer and the readers of one open store have in common.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, RwLock};

use crate::key::Key;
use crate::{StoreError, Table};

#[derive(Default)]
pub(super) struct Shared {
    /// Why nothing is answered any more.
    unusable: OnceLock<String>,
    /// Keys in quarantine: mostly none, so that asking costs nothing.
    quarantine: RwLock<BTreeSet<(Table, Key)>>,
    pub(super) groups: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) checkpoints: AtomicU64,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Transactions, each with one sync.
    pub groups: u64,
    /// Batches stored in them.
    pub batches: u64,
    /// Times that the write-ahead log was carried over into the database.
    pub checkpoints: u64,
}

impl Shared {
    pub(super) fn usable(&self) -> Result<(), StoreError> {
        match self.unusable.get() {
            Some(why) => Err(StoreError::unusable(why)),
            None => Ok(()),
        }
    }

    /// Passes `error` on; if it is the end of the store, it is so for everybody.
    pub(super) fn note(&self, error: StoreError) -> StoreError {
        if let StoreError::Unusable { why } = &error {
            // The first reason is the one to tell.
            let _ = self.unusable.set(why.clone());
        }
        error
    }

    pub(super) fn is_quarantined(&self, table: Table, key: &[u8]) -> bool {
        let keys = self.quarantine.read().expect(UNBROKEN);
        !keys.is_empty() && keys.contains(&(table, key.to_vec()))
    }

    pub(super) fn quarantined(&self) -> Vec<(Table, Key)> {
        let keys = self.quarantine.read().expect(UNBROKEN);
        keys.iter().cloned().collect()
    }

    pub(super) fn quarantine(&self, table: Table, key: &[u8]) {
        let mut keys = self.quarantine.write().expect(UNBROKEN);
        keys.insert((table, key.to_vec()));
    }

    pub(super) fn release(&self, table: Table, key: &[u8]) {
        let mut keys = self.quarantine.write().expect(UNBROKEN);
        keys.remove(&(table, key.to_vec()));
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            groups: self.groups.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
        }
    }
}

const UNBROKEN: &str = "nothing panics while it holds the set";
