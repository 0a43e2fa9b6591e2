//! The core's records in the store: sealed, one family of keys per shard.

use std::collections::HashSet;
use std::sync::Arc;

use cheops_core::{Change, Table as CoreTable};
use cheops_store::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX};
use cheops_store::{Batch, KeyRange, Opening, Store, StoreError, Table};

use super::mint::unix_ms;
use super::seal::Seal;

/// Under this key of the store's own table: which number its present life has.
const LIFE_KEY: &[u8] = b"life";

/// Before the marks of replicants.
const MARK_KEY: [u8; 5] = *b"mark/";

/// Under this key: that all of them have one.
const MARKED_KEY: &[u8] = b"marked";

/// The records of all shards.
pub(super) struct Disk {
    store: Arc<dyn Store>,
    seal: Seal,
}

/// Whether this site was there before its store was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// Nothing tells of it.
    None,
    /// It knew other sites: an earlier store of it is lost.
    Some,
}

/// A part of what there is.
pub(super) struct Found {
    pub(super) entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where it goes on.
    pub(super) next: Option<KeyRange>,
}

/// Why a batch was not stored.
#[derive(Debug)]
pub(super) enum DiskFault {
    /// Refuse, and try again when there may be room.
    Full,
    /// Try again later.
    Later(String),
    /// Never again: what is there cannot be trusted, or what was to be written can never be.
    Unusable(String),
}

impl From<StoreError> for DiskFault {
    fn from(error: StoreError) -> DiskFault {
        match error {
            StoreError::Full { .. } => DiskFault::Full,
            StoreError::Io(fault) => DiskFault::Later(fault.to_string()),
            error @ (StoreError::Corrupt { .. } | StoreError::Unusable { .. }) => {
                DiskFault::Unusable(error.to_string())
            }
        }
    }
}

impl Disk {
    pub(super) fn new(store: Arc<dyn Store>, seal: Seal) -> Disk {
        Disk { store, seal }
    }

    /// The number of the store's present life: 1 for the first store that this site ever had, else
    /// greater than every one before it, on whatever disk.
    pub(super) fn life(&self, opening: Opening, past: Past) -> Result<u64, DiskFault> {
        let kept = self.store.get(Table::Meta, LIFE_KEY)?;
        let kept = kept.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?)));
        if let Some(life) = kept.filter(|_| !opening.is_new_incarnation()) {
            return Ok(life);
        }
        let life = match (opening, past) {
            (Opening::Created, Past::None) => 1,
            _ => unix_ms().max(kept.map_or(2, |life| life + 1)),
        };
        let mut batch = Batch::new();
        batch
            .put(Table::Meta, LIFE_KEY, life.to_be_bytes())
            .expect("eight bytes fit");
        self.store.commit(batch)?;
        Ok(life)
    }

    /// The number of one shard's life: the store's, or a later one that others told of.
    pub(super) fn life_of(&self, shard: u8, store: u64) -> Result<u64, DiskFault> {
        let kept = self.store.get(Table::Meta, &life_key(shard))?;
        let kept = kept.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?)));
        Ok(kept.map_or(store, |life| life.max(store)))
    }

    /// Others know later runs of this site than its disk: it is another disk. Begins a life after all of them.
    pub(super) fn begin_life(&self, shard: u8, after: u64) -> Result<u64, DiskFault> {
        let life = unix_ms().max(after.saturating_add(1));
        let mut batch = Batch::new();
        batch
            .put(Table::Meta, life_key(shard), life.to_be_bytes())
            .expect("eight bytes fit");
        self.store.commit(batch)?;
        Ok(life)
    }

    /// True if every replicant of a shard has a mark: a start need not look at the others.
    pub(super) fn is_marked(&self, shard: u8) -> Result<bool, DiskFault> {
        Ok(self.store.get(Table::Meta, &marked_key(shard))?.is_some())
    }

    /// From now on every replicant of a shard has a mark.
    pub(super) fn set_marked(&self, shard: u8) -> Result<(), DiskFault> {
        let mut batch = Batch::new();
        batch
            .put(Table::Meta, marked_key(shard), b"1")
            .expect("a byte fits");
        Ok(self.store.commit(batch)?)
    }

    /// What one shard has in a table under keys that begin with `prefix`, from one place to the next: with the keys
    /// of the core. Damaged records are set aside, and said.
    pub(super) fn page(
        &self,
        shard: u8,
        core: CoreTable,
        range: KeyRange,
    ) -> Result<Found, DiskFault> {
        let table = table_of(core);
        let page = loop {
            match self.store.scan(table, range.clone(), usize::MAX) {
                Ok(page) => break page,
                Err(StoreError::Corrupt { table, key }) => {
                    tracing::error!(%table, ?key, "a damaged record was set aside");
                    self.store.quarantine(table, &key)?;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let mut entries = Vec::with_capacity(page.entries.len());
        let skip = key_in(shard, core, b"").len();
        for (key, value) in page.entries {
            match self.seal.unseal(&place(table, &key), &value) {
                Ok(value) => entries.push((key[skip..].to_vec(), value)),
                Err(_) => {
                    tracing::error!(%table, ?key, "a record does not open with this site's key");
                }
            }
        }
        Ok(Found {
            entries,
            next: page.next,
        })
    }

    /// One record of one shard.
    pub(super) fn get(
        &self,
        shard: u8,
        core: CoreTable,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, DiskFault> {
        let (table, key) = (table_of(core), key_in(shard, core, key));
        let value = self.store.get(table, &key)?;
        Ok(value.and_then(|value| self.seal.unseal(&place(table, &key), &value).ok()))
    }

    /// Stores the changes of one step; durable on return. All or none as long as they fit one batch of the store: see
    /// [`batches`] for the few steps that do not.
    pub(super) fn persist(&self, shard: u8, changes: Vec<Change>) -> Result<(), DiskFault> {
        for changes in batches(changes) {
            self.persist_together(shard, changes)?;
        }
        Ok(())
    }

    fn persist_together(&self, shard: u8, changes: Vec<Change>) -> Result<(), DiskFault> {
        let mut batch = Batch::new();
        for change in changes {
            let Change { table, key, value } = change;
            let key = key_in(shard, table, &key);
            let table = table_of(table);
            let added = match value {
                Some(value) => {
                    let sealed = self.seal.seal(&place(table, &key), &value);
                    batch.put(table, key, sealed)
                }
                None => batch.delete(table, key),
            };
            added.map_err(|bound| DiskFault::Unusable(bound.to_string()))?;
        }
        Ok(self.store.commit(batch)?)
    }
}

fn life_key(shard: u8) -> Vec<u8> {
    [LIFE_KEY, &[b'-', shard]].concat()
}

/// What sealing and the number of the shard add to a record.
const SEAL_BYTES: usize = 64;

/// One step may touch every replicant there is: the first one on a disk that was restored, the one that takes a site out.
/// Such a step is stored in several batches. What is kept for another leader is stored before it is taken out of a log,
/// and is let go only after a log has it: a crash in between leaves it twice, which everybody who gets it notices, and
/// never nowhere. What belongs to one replicant stays together; what the site knows of itself comes last. Replicants
/// that were not reached are as they were: nothing has been said or answered yet.
fn batches(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let weight =
        |change: &Change| change.key.len() + change.value.as_ref().map_or(0, Vec::len) + SEAL_BYTES;
    let bytes: usize = changes.iter().map(weight).sum();
    if changes.len() <= BATCH_WRITES_MAX && bytes <= BATCH_BYTES_MAX {
        return vec![changes];
    }
    let rank = |change: &Change| match (change.table, &change.value) {
        (CoreTable::Outbox, Some(_)) => 0,
        (CoreTable::Replicants | CoreTable::Log | CoreTable::Marks, _) => 1,
        (CoreTable::Answers, _) => 2,
        (CoreTable::Outbox, None) => 3,
        (CoreTable::Site, _) => 4,
    };
    let owner = |change: &Change| match rank(change) {
        1 => change.key.get(..16).map(<[u8]>::to_vec),
        _ => None,
    };
    let mut changes = last_writes(changes);
    changes.sort_by_cached_key(|change| (rank(change), owner(change)));
    let (mut all, mut now, mut now_bytes) = (Vec::new(), Vec::new(), 0);
    let mut rest = changes.into_iter().peekable();
    while let Some(change) = rest.next() {
        let mut group = vec![change];
        while let Some(next) =
            rest.next_if(|next| owner(next).is_some() && owner(next) == owner(&group[0]))
        {
            group.push(next);
        }
        let group_bytes: usize = group.iter().map(weight).sum();
        let full =
            now.len() + group.len() > BATCH_WRITES_MAX || now_bytes + group_bytes > BATCH_BYTES_MAX;
        if full && !now.is_empty() {
            all.push(std::mem::take(&mut now));
            now_bytes = 0;
        }
        now_bytes += group_bytes;
        now.extend(group);
    }
    all.push(now);
    all
}

/// Of several writes to one key, the last: they can then stand in any order.
fn last_writes(changes: Vec<Change>) -> Vec<Change> {
    let mut seen = HashSet::new();
    let mut last: Vec<Change> = changes.into_iter().rev().collect();
    last.retain(|change| seen.insert((table_of(change.table).name(), change.key.clone())));
    last.reverse();
    last
}

fn table_of(table: CoreTable) -> Table {
    match table {
        CoreTable::Site => Table::Sites,
        CoreTable::Replicants => Table::Replicants,
        CoreTable::Log => Table::Log,
        CoreTable::Answers => Table::Idempotency,
        CoreTable::Outbox => Table::Outbox,
        CoreTable::Marks => Table::Meta,
    }
}

/// Where a record of the core lies: each shard has its own, and marks lie among what the agent knows of itself.
pub(super) fn key_in(shard: u8, table: CoreTable, key: &[u8]) -> Vec<u8> {
    match table {
        CoreTable::Marks => [&MARK_KEY[..], &[shard], key].concat(),
        _ => [&[shard], key].concat(),
    }
}

fn marked_key(shard: u8) -> Vec<u8> {
    [MARKED_KEY, &[b'-', shard]].concat()
}

/// What a value is bound to: moved to another key, it does not open.
fn place(table: Table, key: &[u8]) -> Vec<u8> {
    [table.name().as_bytes(), b"/", key].concat()
}

#[cfg(test)]
mod tests {
    use cheops_store::memory::MemoryDisk;

    use super::*;

    fn disk(memory: &MemoryDisk, folder: &std::path::Path) -> Disk {
        let seal = Seal::open(&folder.join("seal.key")).unwrap();
        Disk::new(Arc::new(memory.open()), seal)
    }

    fn all_of(disk: &Disk, shard: u8, table: CoreTable) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (mut all, mut range) = (
            Vec::new(),
            Some(KeyRange::prefix(&key_in(shard, table, b""))),
        );
        while let Some(next) = range {
            let found = disk.page(shard, table, next).unwrap();
            all.extend(found.entries);
            range = found.next;
        }
        all
    }

    #[test]
    fn shards_do_not_see_each_other_and_a_life_goes_on_until_the_disk_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let memory = MemoryDisk::new(7);
        let disk = disk(&memory, folder.path());
        let change = |key: &[u8], value: Option<&[u8]>| Change {
            table: CoreTable::Log,
            key: key.to_vec(),
            value: value.map(<[u8]>::to_vec),
        };
        disk.persist(0, vec![change(b"a", Some(b"1")), change(b"b", Some(b"2"))])
            .unwrap();
        disk.persist(1, vec![change(b"a", Some(b"3"))]).unwrap();
        disk.persist(0, vec![change(b"b", None)]).unwrap();
        let found = |shard| all_of(&disk, shard, CoreTable::Log);
        assert_eq!(found(0), [(b"a".to_vec(), b"1".to_vec())]);
        assert_eq!(found(1), [(b"a".to_vec(), b"3".to_vec())]);
        assert!(!disk.is_marked(1).unwrap());
        disk.set_marked(1).unwrap();
        assert!(disk.is_marked(1).unwrap() && !disk.is_marked(0).unwrap());

        let life = |opening, past| disk.life(opening, past).unwrap();
        assert_eq!(life(Opening::Created, Past::None), 1);
        assert_eq!(life(Opening::Continued, Past::Some), 1);
        let restored = life(Opening::RolledBack, Past::Some);
        assert!(restored > 1);
        assert_eq!(life(Opening::Continued, Past::Some), restored);
        assert!(life(Opening::Copied, Past::Some) > restored);
        assert!(
            life(Opening::Created, Past::Some) > 1,
            "an earlier store is lost"
        );

        // What others remember counts more, shard by shard.
        assert_eq!(disk.life_of(2, 1).unwrap(), 1);
        let later = disk.begin_life(2, 5).unwrap();
        assert!(later > 5);
        assert_eq!(disk.life_of(2, 1).unwrap(), later);
        assert_eq!(disk.life_of(3, 1).unwrap(), 1);
        assert_eq!(disk.life_of(2, later + 1).unwrap(), later + 1);
    }

    #[test]
    fn a_step_over_every_replicant_is_stored_with_what_belongs_together_together() {
        let folder = tempfile::tempdir().unwrap();
        let memory = MemoryDisk::new(7);
        let disk = disk(&memory, folder.path());
        let count = BATCH_WRITES_MAX as u128 + 10;
        let change = |table, key: Vec<u8>, value: &[u8]| Change {
            table,
            key,
            value: Some(value.to_vec()),
        };
        let mut changes = vec![change(CoreTable::Site, Vec::new(), b"site")];
        changes.push(change(
            CoreTable::Outbox,
            9u128.to_be_bytes().to_vec(),
            b"op",
        ));
        for id in 0..count {
            let key = id.to_be_bytes().to_vec();
            let entry = [&key[..], &1u64.to_be_bytes()].concat();
            changes.push(change(CoreTable::Log, entry, b"entry"));
            changes.push(change(CoreTable::Replicants, key.clone(), b"first"));
            changes.push(change(CoreTable::Replicants, key, b"last"));
        }
        let all = batches(changes.clone());
        assert!(all.len() > 1);
        let owners = |batch: &Vec<Change>| -> std::collections::BTreeSet<Vec<u8>> {
            let own = |change: &&Change| change.table != CoreTable::Outbox;
            let of = |change: &Change| change.key.get(..16).map(<[u8]>::to_vec);
            batch.iter().filter(own).filter_map(of).collect()
        };
        for (at, batch) in all.iter().enumerate() {
            assert!(batch.len() <= BATCH_WRITES_MAX);
            for other in &all[at + 1..] {
                assert!(owners(batch).is_disjoint(&owners(other)));
            }
        }
        assert_eq!(all.last().unwrap().last().unwrap().table, CoreTable::Site);

        disk.persist(0, changes).unwrap();
        let found = |table| all_of(&disk, 0, table);
        assert_eq!(found(CoreTable::Log).len() as u128, count);
        assert_eq!(found(CoreTable::Outbox).len(), 1);
        let replicants = found(CoreTable::Replicants);
        assert_eq!(replicants.len() as u128, count);
        assert!(replicants.iter().all(|(_, value)| value == b"last"));
    }

    #[test]
    fn what_leaves_a_log_is_kept_before_and_let_go_after() {
        let change = |table, key: u16, value: Option<u8>| Change {
            table,
            key: [vec![0; 16], key.to_be_bytes().to_vec()].concat(),
            value: value.map(|byte| vec![byte]),
        };
        let mut changes = vec![
            change(CoreTable::Log, 1, None),
            change(CoreTable::Outbox, 2, None),
            change(CoreTable::Outbox, 3, None),
            change(CoreTable::Outbox, 3, Some(7)),
        ];
        let many = BATCH_WRITES_MAX as u16 + 1;
        changes.extend((0..many).map(|n| change(CoreTable::Answers, n, Some(0))));
        let all = batches(changes).concat();
        let place = |wanted: Change| all.iter().position(|change| *change == wanted);
        let kept = place(change(CoreTable::Outbox, 3, Some(7))).unwrap();
        let cut = place(change(CoreTable::Log, 1, None)).unwrap();
        let let_go = place(change(CoreTable::Outbox, 2, None)).unwrap();
        assert!(kept < cut && cut < let_go);
        assert_eq!(place(change(CoreTable::Outbox, 3, None)), None);
    }
}
