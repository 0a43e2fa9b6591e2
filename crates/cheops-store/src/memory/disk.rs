//! The disk itself: records with seals, one frame in flight, and the faults that were ordered.

use std::collections::{BTreeMap, VecDeque};
use std::{io, mem};

use super::frame;
use crate::batch::{Batch, Write};
use crate::key::{Key, KeyRange, Value};
use crate::limits::QUARANTINE_MAX;
use crate::paging::Paging;
use crate::seal::{Seal, holds, seal};
use crate::store::Page;
use crate::{Incarnation, Opening, StoreError, Table};

/// What can be ordered to happen to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies before anything is written.
    CrashBefore,
    /// The process dies when `bytes` of the commit are written, at most all but one.
    CrashDuring {
        /// How far it got.
        bytes: usize,
    },
    /// The process dies when the commit is on disk and nobody has heard of it.
    CrashAfter,
    /// `Io`: nothing is stored, the store goes on.
    Fail,
    /// `Unusable`: a sync failed. Nothing is stored, and the store answers nothing any more.
    FailSync,
}

/// What was on a disk at one moment.
#[derive(Clone)]
pub struct Snapshot {
    records: Records,
    quarantine: Records,
}

type Records = BTreeMap<(Table, Key), (Value, Seal)>;

pub(super) struct Disk {
    records: Records,
    quarantine: Records,
    /// The commit that a crash caught, as far as it was written.
    in_flight: Vec<u8>,
    ordered: VecDeque<Fault>,
    full: bool,
    running: bool,
    life: u64,
    seed: u64,
    incarnations: u64,
    /// Why the next opening is a new incarnation, if it is.
    next: Opening,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Disk {
        Disk {
            records: Records::new(),
            quarantine: Records::new(),
            in_flight: Vec::new(),
            ordered: VecDeque::new(),
            full: false,
            running: false,
            life: 0,
            seed,
            incarnations: 0,
            next: Opening::Created,
        }
    }

    pub(super) fn open(&mut self) -> Opening {
        let caught = mem::take(&mut self.in_flight);
        for write in frame::decode(&caught).unwrap_or_default() {
            self.apply(&write);
        }
        self.running = true;
        self.life += 1;
        let opening = mem::replace(&mut self.next, Opening::Continued);
        self.incarnations += u64::from(opening.is_new_incarnation());
        opening
    }

    pub(super) fn stop(&mut self) {
        self.running = false;
    }

    pub(super) fn is_running(&self) -> bool {
        self.running
    }

    pub(super) fn life(&self) -> u64 {
        self.life
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        let mut drawn = [0; 16];
        drawn[..8].copy_from_slice(&self.seed.to_le_bytes());
        drawn[8..].copy_from_slice(&self.incarnations.to_le_bytes());
        let hash = blake3::hash(&drawn);
        drawn.copy_from_slice(&hash.as_bytes()[..16]);
        Incarnation::from_bytes(drawn)
    }

    pub(super) fn order(&mut self, fault: Fault) {
        self.ordered.push_back(fault);
    }

    pub(super) fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    pub(super) fn flip_bit(&mut self, table: Table, key: &[u8], bit: usize) {
        let record = self.records.get_mut(&(table, key.to_vec()));
        let (value, _) = record.expect("only a record that is there can rot");
        let bit = bit % (value.len() * 8);
        value[bit / 8] ^= 1 << (bit % 8);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            records: self.records.clone(),
            quarantine: self.quarantine.clone(),
        }
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) {
        self.records = snapshot.records.clone();
        self.quarantine = snapshot.quarantine.clone();
        self.in_flight.clear();
        self.running = false;
        self.next = Opening::RolledBack;
    }

    pub(super) fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.full {
            let needed_bytes = batch.bytes();
            return Err(StoreError::Full { needed_bytes });
        }
        match self.ordered.pop_front() {
            Some(fault) => self.suffer(fault, batch),
            None => {
                batch.writes().iter().for_each(|write| self.apply(write));
                Ok(())
            }
        }
    }

    fn suffer(&mut self, fault: Fault, batch: &Batch) -> Result<(), StoreError> {
        let mut frame = frame::encode(batch);
        match fault {
            Fault::Fail => return Err(StoreError::Io(io::Error::other("ordered to fail"))),
            Fault::FailSync => {
                self.running = false;
                return Err(StoreError::unusable("a sync was ordered to fail"));
            }
            Fault::CrashBefore => frame.clear(),
            Fault::CrashDuring { bytes } => frame.truncate(bytes.min(frame.len() - 1)),
            Fault::CrashAfter => (),
        }
        self.in_flight = frame;
        self.running = false;
        Err(StoreError::unusable("the process has crashed in a commit"))
    }

    fn apply(&mut self, write: &Write) {
        let (table, key) = write.target();
        let target = (table, key.to_vec());
        self.quarantine.remove(&target);
        match write {
            Write::Put { value, .. } => {
                let sealed = (value.clone(), seal(table, key, value));
                self.records.insert(target, sealed);
            }
            Write::Delete { .. } => drop(self.records.remove(&target)),
        }
    }

    pub(super) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Value>, StoreError> {
        let target = (table, key.to_vec());
        match self.records.get(&target) {
            Some((value, seal)) if holds(table, key, value, seal) => Ok(Some(value.clone())),
            None if !self.quarantine.contains_key(&target) => Ok(None),
            Some(_) | None => Err(corrupt(table, key)),
        }
    }

    pub(super) fn scan(
        &self,
        table: Table,
        range: KeyRange,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let mut paging = Paging::new(range, limit);
        if paging.range().is_empty() {
            return Ok(paging.end());
        }
        let until = paging.range().until().map(<[u8]>::to_vec);
        let first = (table, paging.range().from().to_vec());
        for ((of, key), (value, seal)) in self.records.range(first..) {
            if *of != table || until.as_ref().is_some_and(|until| key >= until) {
                break;
            }
            if paging.is_full() {
                return Ok(paging.cut());
            }
            if !holds(table, key, value, seal) {
                return Err(corrupt(table, key));
            }
            paging.add(key.clone(), value.clone());
        }
        Ok(paging.end())
    }

    pub(super) fn quarantine(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let target = (table, key.to_vec());
        let Some((value, seal)) = self.records.get(&target) else {
            return Ok(());
        };
        if holds(table, key, value, seal) {
            return Ok(());
        }
        if self.quarantine.len() >= QUARANTINE_MAX {
            return Err(StoreError::unusable("too many damaged records"));
        }
        if let Some(record) = self.records.remove(&target) {
            self.quarantine.insert(target, record);
        }
        Ok(())
    }

    pub(super) fn quarantined(&self) -> Vec<(Table, Key)> {
        self.quarantine.keys().cloned().collect()
    }
}

fn corrupt(table: Table, key: &[u8]) -> StoreError {
    let key = key.to_vec();
    StoreError::Corrupt { table, key }
}
