//! Every replicant of a site: those that something is under way with as they are, the others as a line in a list.
//!
//! One that rests is on disk as it was left. Whoever changes it gets it from there first; whoever only looks gets a
//! copy for the occasion.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Deref};
use std::sync::Arc;

use cheops_model::SiteName;

use super::archive::{Archive, Kin, Summary};
use super::log::{Kept, Log};
use super::replicant::{Marked, Record, Replicant};
use super::site::Quarantined;
use crate::ids::ReplicantId;
use crate::limits::KINS_MAX;
use crate::record::{Table, decode, key_of};

/// All of them.
pub(crate) struct Shelf {
    me: SiteName,
    archive: Option<Arc<dyn Archive>>,
    awake: BTreeMap<ReplicantId, Replicant>,
    resting: BTreeMap<ReplicantId, Arc<Kin>>,
    kins: BTreeSet<Arc<Kin>>,
    /// Awake, though nothing is under way with them; the longest first.
    idle: BTreeSet<(u64, ReplicantId)>,
    /// Their rest is written, but perhaps not durable.
    leaving: BTreeSet<ReplicantId>,
    next: u64,
    /// What could not be read since this was last asked.
    pub(super) unreadable: Vec<Quarantined>,
}

/// A replicant to look at.
pub(crate) enum Held<'a> {
    Awake(&'a Replicant),
    Asleep(Box<Replicant>),
}

impl Deref for Held<'_> {
    type Target = Replicant;

    fn deref(&self) -> &Replicant {
        match self {
            Held::Awake(replicant) => replicant,
            Held::Asleep(replicant) => replicant,
        }
    }
}

impl Shelf {
    pub(super) fn new(me: SiteName, archive: Option<Arc<dyn Archive>>) -> Shelf {
        Shelf {
            me,
            archive,
            awake: BTreeMap::new(),
            resting: BTreeMap::new(),
            kins: BTreeSet::new(),
            idle: BTreeSet::new(),
            leaving: BTreeSet::new(),
            next: 0,
            unreadable: Vec::new(),
        }
    }

    /// True if what rests can be read back.
    pub(super) fn has_archive(&self) -> bool {
        self.archive.is_some()
    }

    pub(super) fn contains_key(&self, id: &ReplicantId) -> bool {
        self.awake.contains_key(id) || self.resting.contains_key(id)
    }

    pub(super) fn is_resting(&self, id: &ReplicantId) -> bool {
        self.resting.contains_key(id)
    }

    /// One that is awake; none if it rests.
    pub(super) fn if_awake(&self, id: &ReplicantId) -> Option<&Replicant> {
        self.awake.get(id)
    }

    /// Wakes it if it rests.
    pub(super) fn get_mut(&mut self, id: &ReplicantId) -> Option<&mut Replicant> {
        self.wake(*id);
        self.awake.get_mut(id)
    }

    pub(super) fn get_or_insert_with(
        &mut self,
        id: ReplicantId,
        make: impl FnOnce() -> Replicant,
    ) -> &mut Replicant {
        self.wake(id);
        self.awake.entry(id).or_insert_with(make)
    }

    pub(super) fn insert(&mut self, id: ReplicantId, replicant: Replicant) {
        self.awake.insert(id, replicant);
    }

    pub(super) fn remove(&mut self, id: &ReplicantId) -> Option<Replicant> {
        self.resting.remove(id);
        self.stir(id);
        self.awake.remove(id)
    }

    /// One to look at, whether it rests or not.
    pub(super) fn held(&self, id: ReplicantId) -> Option<Held<'_>> {
        if let Some(replicant) = self.awake.get(&id) {
            return Some(Held::Awake(replicant));
        }
        self.resting.get(&id)?;
        let replicant = self.read(id)?.ok()?;
        Some(Held::Asleep(Box::new(replicant)))
    }

    pub(super) fn awake(&self) -> impl Iterator<Item = &Replicant> {
        self.awake.values()
    }

    pub(super) fn awake_mut(&mut self) -> impl Iterator<Item = (&ReplicantId, &mut Replicant)> {
        self.awake.iter_mut()
    }

    pub(super) fn resting(&self) -> impl Iterator<Item = (ReplicantId, &Kin)> {
        self.resting.iter().map(|(id, kin)| (*id, &**kin))
    }

    /// Those that a site is involved in beyond `after`, in order.
    pub(super) fn shared_with(
        &self,
        site: &SiteName,
        after: Option<ReplicantId>,
        most: usize,
    ) -> Vec<ReplicantId> {
        let beyond = (
            after.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        );
        let awake = self.awake.range(beyond);
        let awake = awake.filter(|(_, replicant)| replicant.is_involved(site));
        let resting = self.resting.range(beyond);
        let resting = resting.filter(|(_, kin)| kin.sites.contains(site));
        // The first of both are among the first of each.
        let awake = awake.map(|(id, _)| *id).take(most);
        let mut ids: Vec<_> = awake.chain(resting.map(|(id, _)| *id).take(most)).collect();
        ids.sort_unstable();
        ids.truncate(most);
        ids
    }

    /// Every one in turn; what rests is read for the moment.
    pub(super) fn each(&self) -> impl Iterator<Item = Held<'_>> {
        let awake = self.awake.values().map(Held::Awake);
        awake.chain(self.resting.keys().filter_map(|id| self.held(*id)))
    }

    /// Puts one there that rests, as its mark said.
    pub(super) fn lay(&mut self, id: ReplicantId, summary: &Summary) {
        let kin = self.kin(summary);
        self.resting.insert(id, kin);
    }

    fn kin(&mut self, summary: &Summary) -> Arc<Kin> {
        let kin = summary.kin();
        if let Some(known) = self.kins.get(&kin) {
            return known.clone();
        }
        if self.kins.len() >= KINS_MAX {
            self.kins.clear();
        }
        let kin = Arc::new(kin);
        self.kins.insert(kin.clone());
        kin
    }

    /// Takes it from the disk if it rests.
    pub(super) fn wake(&mut self, id: ReplicantId) {
        if !self.resting.contains_key(&id) {
            return;
        }
        match self.read(id) {
            Some(Ok(replicant)) => {
                self.resting.remove(&id);
                self.awake.insert(id, replicant);
                self.doze(id);
            }
            Some(Err(fault)) => {
                self.resting.remove(&id);
                self.unreadable.push(fault);
            }
            // Whoever owns this site knows that nothing of this step counts.
            None => (),
        }
    }

    /// Wakes everything: this disk is not to be relied upon.
    pub(super) fn wake_all(&mut self) {
        for id in self.resting.keys().copied().collect::<Vec<_>>() {
            self.wake(id);
        }
    }

    /// From its records. `None`: not now.
    pub(super) fn load(&self, id: ReplicantId) -> Option<Result<Replicant, Quarantined>> {
        let archive = self.archive.as_ref()?;
        let key = key_of(id.0);
        let records = archive.read(Table::Replicants, &key)?;
        let quarantined = |table, key, error| Quarantined { table, key, error };
        let Some((key, bytes)) = records.into_iter().next() else {
            return Some(Err(quarantined(
                Table::Replicants,
                key,
                crate::record::RecordFault::Truncated { found: 0 },
            )));
        };
        let mut record = match decode::<Record>(&bytes) {
            Ok(record) => record,
            Err(error) => return Some(Err(quarantined(Table::Replicants, key, error))),
        };
        let mut kept = Vec::new();
        for (_, value) in archive.read(Table::Log, &key)? {
            match decode::<Kept>(&value) {
                Ok(entry) => kept.push(entry),
                // What follows cannot be relied upon, as at a start.
                Err(_) => break,
            }
        }
        let log = Log::recover(std::mem::take(&mut record.base), kept);
        Some(Ok(Replicant::found(record, log, &bytes)))
    }

    fn read(&self, id: ReplicantId) -> Option<Result<Replicant, Quarantined>> {
        let mut loaded = self.load(id)?;
        if let Ok(replicant) = &mut loaded {
            replicant.resume(&self.me);
            replicant.marked = Marked::Resting;
        }
        Some(loaded)
    }

    /// Nothing is under way with it.
    pub(super) fn doze(&mut self, id: ReplicantId) {
        self.next += 1;
        if let Some(replicant) = self.awake.get_mut(&id) {
            replicant.idle_since = Some(self.next);
            self.idle.insert((self.next, id));
        }
    }

    /// Something is.
    pub(super) fn stir(&mut self, id: &ReplicantId) {
        self.leaving.remove(id);
        if let Some(since) = self
            .awake
            .get_mut(id)
            .and_then(|replicant| replicant.idle_since.take())
        {
            self.idle.remove(&(since, *id));
        }
    }

    /// The one that has been idle for longest, if there are more than that.
    pub(super) fn longest_idle(&mut self, most: usize) -> Option<&mut Replicant> {
        if self.idle.len() <= most {
            return None;
        }
        let (_, id) = self.idle.pop_first()?;
        self.leaving.insert(id);
        let replicant = self.awake.get_mut(&id)?;
        replicant.idle_since = None;
        Some(replicant)
    }

    /// What was written is durable: what was to rest, rests.
    pub(super) fn put_away(&mut self, mut kin: impl FnMut(&Replicant) -> Option<Summary>) {
        for id in std::mem::take(&mut self.leaving) {
            let summary = self.awake.get(&id).and_then(&mut kin);
            if let Some(summary) = summary {
                self.awake.remove(&id);
                self.lay(id, &summary);
            }
        }
    }

    /// Awake and resting.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.awake.len(), self.resting.len())
    }
}
