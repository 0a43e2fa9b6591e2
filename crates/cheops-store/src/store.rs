//! The trait: what an agent may rely on, whatever lies below.

use std::sync::mpsc;

use crate::key::{Key, KeyRange, Value};
use crate::{Batch, Incarnation, StoreError, Table};

/// What is called once a batch has been stored, or has not.
///
/// It runs on the store's own thread while others wait: it hands the news on and returns, and does
/// not call the store, which would wait for itself. Dropped without a call, it says that the store
/// has ended and the outcome is not known.
pub type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Durable, ordered bytes. Calls block; the engine keeps them off its own threads.
pub trait Store: Send + Sync + 'static {
    /// Asks for `batch` to be stored, and calls `done` when it survives a power cut or never was
    /// stored. Batches of one thread are stored in the order of its calls. Waits only while too
    /// many batches are waiting already (see [`limits`](crate::limits)).
    fn submit(&self, batch: Batch, done: Done);

    /// Applies `batch` atomically. When this returns `Ok`, the batch survives a power cut, and
    /// every read that begins afterwards sees it.
    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let (answer, answered) = mpsc::sync_channel(1);
        // Nobody hears it only if this thread is gone.
        self.submit(batch, Box::new(move |stored| drop(answer.send(stored))));
        answered
            .recv()
            .unwrap_or_else(|_| Err(StoreError::unusable("its writer has ended")))
    }

    /// The value of `key`. `Corrupt` if it is damaged, and also after it went into quarantine: a
    /// record that was there never reads as one that never was.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Value>, StoreError>;

    /// Entries of `range` in the order of their keys, at most `limit`. A page is one moment; two
    /// pages are two moments. `Corrupt` at a damaged record, until it is in quarantine; then scans
    /// pass it by.
    fn scan(&self, table: Table, range: KeyRange, limit: usize) -> Result<Page, StoreError>;

    /// Moves a damaged record aside. A sound one stays where it is. The next write to its key, a
    /// delete too, ends the quarantine: the key is mended.
    fn quarantine(&self, table: Table, key: &[u8]) -> Result<(), StoreError>;

    /// What is in quarantine, in order.
    fn quarantined(&self) -> Result<Vec<(Table, Key)>, StoreError>;

    /// Which life of this store is speaking; the same from open to close.
    fn incarnation(&self) -> Incarnation;
}

/// One answer of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In the order of their keys.
    pub entries: Vec<(Key, Value)>,
    /// Where to go on; `None` if the range is at its end. A page may be shorter than was asked
    /// for and still have one.
    pub next: Option<KeyRange>,
}
