//! What the index holds: one short entry for each replicant, found by its number and by its names.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cheops_core::ReplicantId;
use cheops_core::eventual::{Glance, ReplicaState, Row, Summary};
use cheops_model::SiteName;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::super::wire::{Asked, decode};
use super::name::Name;
use super::{Known, Population};

/// Entries that lie together: the whole never moves when it grows.
const CHUNK: usize = 4_096;

/// So many sets of sites and of what replicants have in common are kept once; beyond, they are begun anew.
const SHARED_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct Maps {
    entries: Vec<Vec<Entry>>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
    /// Twice the number of the entry, and which of its names.
    by_name: HashTable<u32>,
    hasher: FixedState,
    below: HashMap<ReplicantId, BTreeSet<ReplicantId>>,
    parents: HashMap<ReplicantId, ReplicantId>,
    populations: HashMap<Arc<str>, Population>,
    /// Services and kinds, each once: there are few, and replicants are many.
    words: HashSet<Arc<str>>,
    /// Sets of sites, likewise.
    places: HashSet<Arc<[SiteName]>>,
    traits: HashSet<Arc<Traits>>,
}

/// One replicant.
struct Entry {
    id: ReplicantId,
    meta: Name,
    local: Option<Name>,
    traits: Arc<Traits>,
}

/// What it has in common with many.
#[derive(PartialEq, Eq, Hash)]
struct Traits {
    service: Arc<str>,
    kind: Arc<str>,
    state: u8,
    leader: SiteName,
    sites: Arc<[SiteName]>,
    live: Arc<[SiteName]>,
    deleted: bool,
    stale: bool,
}

const STATES: [ReplicaState; 6] = [
    ReplicaState::Pending,
    ReplicaState::Live,
    ReplicaState::Diverged,
    ReplicaState::InDoubt,
    ReplicaState::Deleted,
    ReplicaState::Carrier,
];

impl Maps {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn find(&self, service: &str, id: &str) -> Option<Known> {
        let found = self.named(id);
        let of = found.filter(|entry| *entry.traits.service == *service);
        let entry = best(of, id)?;
        Some(self.known(entry))
    }

    /// At most one for each service, the ones that clients mean first.
    pub(super) fn find_anywhere(&self, id: &str) -> impl Iterator<Item = Known> {
        let (metas, locals): (Vec<_>, Vec<_>) = self.named(id).partition(|entry| entry.meta.is(id));
        metas
            .into_iter()
            .chain(locals)
            .map(|entry| self.known(entry))
    }

    pub(super) fn get(&self, id: ReplicantId) -> Option<Known> {
        self.slot(id).map(|slot| self.known(self.at(slot)))
    }

    pub(super) fn meta_of(&self, id: ReplicantId) -> Option<String> {
        self.slot(id).map(|slot| self.at(slot).meta.to_string())
    }

    pub(super) fn below(&self, id: ReplicantId) -> Vec<ReplicantId> {
        let below = self.below.get(&id).into_iter().flatten();
        let live = |id: &&ReplicantId| {
            let slot = self.slot(**id);
            slot.is_some_and(|slot| !self.at(slot).traits.deleted)
        };
        below.filter(live).copied().collect()
    }

    pub(super) fn population(&mut self, service: &str) -> &Population {
        let service = self.word(service);
        self.populations.entry(service).or_default()
    }

    pub(super) fn put(&mut self, known: &Known) {
        // Before it is taken out to be put in anew: requests look at the count without the lock, and pass by the index
        // where it says that there is none.
        let population = &self.population(&known.service).0.count;
        population.fetch_add(1, Ordering::Release);
        self.forget(known.id);
        let entry = Entry {
            id: known.id,
            meta: Name::of(&known.meta),
            local: known.local.as_deref().map(Name::of),
            traits: self.traits_of(known),
        };
        let slot = self.store(entry);
        let hasher = &self.hasher;
        let hash = hasher.hash_one(known.id);
        let entries = &self.entries;
        let rehash = |slot: &u32| hasher.hash_one(at(entries, *slot).id);
        self.by_id.insert_unique(hash, slot, rehash);
        self.name(slot, Which::Meta);
        if let Some(local) = known.local.as_ref().filter(|local| **local != known.meta) {
            self.name(slot, Which::Local);
            self.population(&known.service).0.locals.add(local);
        }
        if let Some(parent) = known.parent {
            self.below.entry(parent).or_default().insert(known.id);
            self.parents.insert(known.id, parent);
        }
    }

    pub(super) fn forget(&mut self, id: ReplicantId) {
        let Some(slot) = self.slot(id) else {
            return;
        };
        let entry = self.at(slot);
        let service = entry.traits.service.clone();
        self.unname(slot, Which::Meta);
        self.unname(slot, Which::Local);
        let hash = self.hasher.hash_one(id);
        if let Ok(found) = self.by_id.find_entry(hash, |other| *other == slot) {
            found.remove();
        }
        self.free.push(slot);
        let population = &self.population(&service).0.count;
        population.fetch_sub(1, Ordering::Release);
        if let Some(parent) = self.parents.remove(&id)
            && let Some(siblings) = self.below.get_mut(&parent)
        {
            siblings.remove(&id);
            if siblings.is_empty() {
                self.below.remove(&parent);
            }
        }
    }

    /// None while it has no name.
    pub(super) fn known_of(&mut self, glance: &Glance<'_>, here: &SiteName) -> Option<Known> {
        let meta = glance.meta()?;
        let row = glance.rows().get(here)?;
        let deleted = glance.is_deleted();
        let gone = deleted || row.state == ReplicaState::Deleted;
        let there = |row: &Row| row.local.is_some() && row.state != ReplicaState::Deleted;
        let live = glance.rows().iter().filter(|(_, row)| there(row));
        let live = live.map(|pair| pair.0.clone()).collect();
        let sites = glance.rows().keys().cloned().collect();
        let (sites, live) = (self.place(sites), self.place(live));
        let meta: Arc<str> = meta.into();
        let local = row.local.as_deref().filter(|_| !gone);
        Some(Known {
            id: glance.id(),
            service: self.word(glance.service()),
            kind: self.kind(glance),
            local: local.map(|local| same(&meta, local)),
            meta,
            state: row.state,
            leader: glance.epoch().site.clone(),
            sites,
            live,
            parent: glance.parent(),
            deleted,
            stale: row.applied < glance.last() || row.state == ReplicaState::Diverged,
        })
    }

    pub(super) fn known_at_rest(&mut self, id: ReplicantId, summary: &Summary) -> Known {
        let sites = self.place(summary.sites.clone());
        let meta: Arc<str> = summary.meta.as_str().into();
        Known {
            id,
            service: self.word(&summary.service),
            kind: self.word(&summary.kind),
            local: Some(same(&meta, &summary.local)),
            meta,
            state: ReplicaState::Live,
            leader: summary.leader.clone(),
            live: sites.clone(),
            sites,
            parent: summary.parent,
            deleted: false,
            stale: false,
        }
    }

    /// Of its create, which never changes: the request is read once.
    fn kind(&mut self, glance: &Glance<'_>) -> Arc<str> {
        let known = self
            .slot(glance.id())
            .map(|slot| &self.at(slot).traits.kind);
        if let Some(kind) = known.filter(|kind| !kind.is_empty()) {
            return kind.clone();
        }
        let asked = glance.create().and_then(|op| decode::<Asked>(&op.rest));
        self.word(asked.as_ref().map_or("", |asked| &asked.kind))
    }

    fn known(&self, entry: &Entry) -> Known {
        let traits = &entry.traits;
        let meta: Arc<str> = entry.meta.to_string().into();
        let local = |local: &Name| match *local == entry.meta {
            true => meta.clone(),
            false => local.to_string().into(),
        };
        Known {
            id: entry.id,
            service: traits.service.clone(),
            kind: traits.kind.clone(),
            local: entry.local.as_ref().map(local),
            meta: meta.clone(),
            state: STATES[usize::from(traits.state)],
            leader: traits.leader.clone(),
            sites: traits.sites.clone(),
            live: traits.live.clone(),
            parent: self.parents.get(&entry.id).copied(),
            deleted: traits.deleted,
            stale: traits.stale,
        }
    }

    fn traits_of(&mut self, known: &Known) -> Arc<Traits> {
        let state = STATES.iter().position(|state| *state == known.state);
        let traits = Traits {
            service: self.word(&known.service),
            kind: self.word(&known.kind),
            state: state.map_or(0, |state| state as u8),
            leader: known.leader.clone(),
            sites: known.sites.clone(),
            live: known.live.clone(),
            deleted: known.deleted,
            stale: known.stale,
        };
        if let Some(kept) = self.traits.get(&traits) {
            return kept.clone();
        }
        if self.traits.len() >= SHARED_MAX {
            self.traits.clear();
        }
        let traits = Arc::new(traits);
        self.traits.insert(traits.clone());
        traits
    }

    fn word(&mut self, text: &str) -> Arc<str> {
        if let Some(word) = self.words.get(text) {
            return word.clone();
        }
        let word: Arc<str> = text.into();
        self.words.insert(word.clone());
        word
    }

    fn place(&mut self, sites: Vec<SiteName>) -> Arc<[SiteName]> {
        if let Some(place) = self.places.get(&sites[..]) {
            return place.clone();
        }
        if self.places.len() >= SHARED_MAX {
            self.places.clear();
        }
        let place: Arc<[SiteName]> = sites.into();
        self.places.insert(place.clone());
        place
    }

    fn store(&mut self, entry: Entry) -> u32 {
        if let Some(slot) = self.free.pop() {
            let place = slot as usize;
            self.entries[place / CHUNK][place % CHUNK] = entry;
            return slot;
        }
        if self.entries.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.entries.push(Vec::with_capacity(CHUNK));
        }
        let chunks = self.entries.len();
        let last = self.entries.last_mut().expect("there is one with room");
        last.push(entry);
        ((chunks - 1) * CHUNK + last.len() - 1) as u32
    }

    /// Several replicants may have one name: a meta-id is recognised by everybody, and a local id that equals one does
    /// not hide it.
    fn name(&mut self, slot: u32, which: Which) {
        let (hasher, entries) = (&self.hasher, &self.entries);
        let rehash = |place: &u32| hash_of(hasher, entries, *place);
        let place = slot * 2 + which as u32;
        self.by_name.insert_unique(rehash(&place), place, rehash);
    }

    fn unname(&mut self, slot: u32, which: Which) {
        let place = slot * 2 + which as u32;
        let hash = hash_of(&self.hasher, &self.entries, place);
        if let Ok(found) = self.by_name.find_entry(hash, |other| *other == place) {
            found.remove();
        }
    }

    fn named(&self, id: &str) -> impl Iterator<Item = &Entry> {
        let hash = self.hasher.hash_one(id);
        let places = self.by_name.iter_hash(hash);
        let entries = places.map(|place| self.at(place / 2));
        entries.filter(move |entry| {
            entry.meta.is(id) || entry.local.as_ref().is_some_and(|local| local.is(id))
        })
    }

    fn slot(&self, id: ReplicantId) -> Option<u32> {
        let hash = self.hasher.hash_one(id);
        self.by_id
            .find(hash, |slot| self.at(*slot).id == id)
            .copied()
    }

    fn at(&self, slot: u32) -> &Entry {
        at(&self.entries, slot)
    }
}

fn at(entries: &[Vec<Entry>], slot: u32) -> &Entry {
    let place = slot as usize;
    &entries[place / CHUNK][place % CHUNK]
}

/// One of the names of an entry.
#[derive(Clone, Copy)]
enum Which {
    Meta = 0,
    Local = 1,
}

fn hash_of(hasher: &FixedState, entries: &[Vec<Entry>], place: u32) -> u64 {
    let entry = at(entries, place / 2);
    let local = entry
        .local
        .as_ref()
        .filter(|_| place % 2 == Which::Local as u32);
    hasher.hash_one(&*local.unwrap_or(&entry.meta).to_string())
}

/// Clients mean the one that they see under that name.
fn best<'a>(mut found: impl Iterator<Item = &'a Entry>, id: &str) -> Option<&'a Entry> {
    let first = found.next()?;
    let meant = [first]
        .into_iter()
        .chain(found)
        .find(|entry| entry.meta.is(id));
    Some(meant.unwrap_or(first))
}

/// Where the client chose the name, there is one.
fn same(meta: &Arc<str>, local: &str) -> Arc<str> {
    match *local == **meta {
        true => meta.clone(),
        false => local.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(meta: &str, local: &str) -> Summary {
        let site = |text| SiteName::new(text).unwrap();
        Summary {
            service: "image".to_owned(),
            kind: "image".to_owned(),
            meta: meta.to_owned(),
            local: local.to_owned(),
            leader: site("site1"),
            sites: vec![site("site1"), site("site2")],
            parent: None,
            has_content: false,
            operations: Vec::new(),
        }
    }

    fn put(maps: &mut Maps, id: u128, summary: &Summary) {
        let known = maps.known_at_rest(ReplicantId(id), summary);
        maps.put(&known);
    }

    #[test]
    fn ten_thousand_are_found_by_either_name_and_gone_when_they_are_forgotten() {
        let mut maps = Maps::default();
        let names = |id: u128| (format!("{id:032x}"), format!("local-{id}"));
        for id in 0..10_000 {
            let (meta, local) = names(id);
            put(&mut maps, id, &summary(&meta, &local));
        }
        for id in (0..10_000).step_by(2) {
            maps.forget(ReplicantId(id));
        }
        assert_eq!(maps.len(), 5_000);
        for id in 0..10_000 {
            let (meta, local) = names(id);
            let there = (id % 2 == 1).then_some(ReplicantId(id));
            let found = |name: &str| maps.find("image", name).map(|known| known.id);
            assert_eq!((found(&meta), found(&local)), (there, there));
            assert!(maps.find("compute", &meta).is_none());
        }
        // Freed places are taken again.
        put(&mut maps, 2, &summary("x", "y"));
        assert_eq!(maps.find("image", "y").unwrap().id, ReplicantId(2));
        assert_eq!(maps.entries.len(), 10_000usize.div_ceil(CHUNK));
    }

    #[test]
    fn a_service_never_seems_to_have_none_while_its_only_one_changes() {
        let mut maps = Maps::default();
        put(&mut maps, 1, &summary("one", "7"));
        let population = maps.population("image").clone();
        let watcher = std::thread::spawn(move || {
            let mut looks = 0;
            while Arc::strong_count(&population.0) > 1 {
                assert!(!population.is_empty(), "after {looks} looks");
                looks += 1;
            }
        });
        for local in 0..20_000 {
            put(&mut maps, 1, &summary("one", &local.to_string()));
        }
        drop(maps);
        watcher.join().unwrap();
    }

    #[test]
    fn a_local_id_does_not_hide_a_meta_id_and_is_there_when_that_is_gone() {
        let mut maps = Maps::default();
        put(&mut maps, 1, &summary("one", "7"));
        put(&mut maps, 2, &summary("7", "two"));
        let found = |maps: &Maps| maps.find("image", "7").map(|known| known.id.0);
        assert_eq!(found(&maps), Some(2));
        maps.forget(ReplicantId(2));
        assert_eq!(found(&maps), Some(1));
        put(&mut maps, 1, &summary("one", "8"));
        assert_eq!(found(&maps), None);
    }
}
