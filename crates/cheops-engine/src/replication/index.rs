//! Which ids are replicants: asked by every request, so an ordinary id costs a few loads and no lock.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use cheops_core::eventual::{Glance, ReplicaState, Row};
use cheops_core::{MeshKey, ReplicantId};
use cheops_model::SiteName;
use cheops_rest::{Api, Body, Id, Side};
use foldhash::fast::FixedState;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::wire::{Asked, decode};

/// 2^22 bits, half a megabyte: one in a hundred ordinary ids takes the slow way at 200,000 replicants.
const FILTER_WORDS: usize = 1 << 16;

/// What requests need to know of one replicant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Which.
    pub id: ReplicantId,
    /// Which API.
    pub service: Arc<str>,
    /// What it is, in the words of the profile.
    pub kind: Arc<str>,
    /// What clients call it.
    pub meta: Arc<str>,
    /// What the service of this site calls it, while it is there.
    pub local: Option<Arc<str>>,
    /// How the replica of this site is.
    pub state: ReplicaState,
    /// Who orders its operations.
    pub leader: SiteName,
    /// Where it lives.
    pub sites: Arc<[SiteName]>,
    /// Where it is there to be read.
    pub live: Arc<[SiteName]>,
    /// What it lies below.
    pub parent: Option<ReplicantId>,
    /// True if clients have deleted it.
    pub deleted: bool,
    /// True if operations are known that this site has not applied.
    pub stale: bool,
}

/// How many replicants one service has here. Cheap to ask; any thread may.
#[derive(Clone, Debug, Default)]
pub struct Population(Arc<AtomicUsize>);

impl Population {
    /// True if it has none: its requests need not look further.
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

/// All replicants of this site, by the ids that name them.
pub struct Index {
    key: MeshKey,
    filter: Box<[AtomicU64]>,
    hasher: FixedState,
    count: AtomicUsize,
    maps: RwLock<Maps>,
    changed: Notify,
}

#[derive(Default)]
struct Maps {
    by_id: HashMap<Arc<str>, HashMap<Arc<str>, ReplicantId>>,
    known: HashMap<ReplicantId, Arc<Known>>,
    below: HashMap<ReplicantId, BTreeSet<ReplicantId>>,
    populations: HashMap<Arc<str>, Population>,
    /// Services and kinds, each once: there are few, and replicants are many.
    words: HashSet<Arc<str>>,
    /// Sets of sites, likewise.
    places: HashSet<Arc<[SiteName]>>,
}

/// So many sets of sites are kept once; beyond, every replicant has its own.
const PLACES_MAX: usize = 4_096;

impl Index {
    /// Empty.
    pub(super) fn new(key: MeshKey) -> Index {
        Index {
            key,
            filter: (0..FILTER_WORDS).map(|_| AtomicU64::new(0)).collect(),
            hasher: FixedState::default(),
            count: AtomicUsize::new(0),
            maps: RwLock::default(),
            changed: Notify::new(),
        }
    }

    /// Ends when anything has changed.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// True if this site has no replicant at all: most requests need not look further.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// How many of them a service has, now and from now on.
    pub fn population(&self, service: &str) -> Population {
        let mut maps = self.maps.write().unwrap_or_else(|e| e.into_inner());
        maps.population(service).clone()
    }

    /// True if some agent of this mesh made this id for a replicant.
    pub fn recognises(&self, id: &str) -> bool {
        self.key.recognises(id)
    }

    /// The replicant that `service` of this site knows by that id, its own or the one clients see.
    pub fn find(&self, service: &str, id: &str) -> Option<Arc<Known>> {
        if self.is_empty() || !self.may_hold(id) {
            return None;
        }
        let maps = self.maps.read().unwrap_or_else(|e| e.into_inner());
        let replicant = maps.by_id.get(service)?.get(id)?;
        maps.known.get(replicant).cloned()
    }

    /// The replicant that any service of this site knows by that id.
    pub fn find_anywhere(&self, id: &str) -> Vec<Arc<Known>> {
        let maps = self.maps.read().unwrap_or_else(|e| e.into_inner());
        let found = maps.by_id.values().filter_map(|ids| ids.get(id));
        let mut found: Vec<_> = found.filter_map(|id| maps.known.get(id).cloned()).collect();
        found.sort_by_key(|known| known.service.clone());
        found
    }

    /// A replicant of the same service that a request names and that one of these sites does not have.
    pub fn lacking(
        &self,
        service: &str,
        api: &Api,
        asked: &Asked,
        sites: &[SiteName],
    ) -> Option<(Arc<Known>, SiteName)> {
        let mut found = None;
        let mut look = |id: Id<'_>| {
            let known = self.find(service, &id.text);
            let known = known.filter(|known| *known.meta == *id.text && id.fits(&known.kind));
            let lacks = |known: Arc<Known>| {
                let site = sites.iter().find(|site| !known.sites.contains(site))?;
                Some((known, site.clone()))
            };
            if found.is_none() {
                found = known.and_then(lacks);
            }
        };
        api.target_ids(&asked.path, |id, _| look(id));
        let text = |name| std::str::from_utf8(asked.header(name)?).ok();
        let body = Body {
            side: Side::Request,
            kind: Some(&asked.kind),
            media: text("content-type"),
            encoding: text("content-encoding"),
            bytes: &asked.body,
        };
        // A body that cannot be read names nothing that is known.
        let _ = api.body_ids(&body, |id, _| look(id));
        found
    }

    /// One replicant.
    pub fn get(&self, id: ReplicantId) -> Option<Arc<Known>> {
        let maps = self.maps.read().unwrap_or_else(|e| e.into_inner());
        maps.known.get(&id).cloned()
    }

    /// The live replicants that lie below one.
    pub fn below(&self, id: ReplicantId) -> Vec<ReplicantId> {
        let maps = self.maps.read().unwrap_or_else(|e| e.into_inner());
        let below = maps.below.get(&id).into_iter().flatten();
        let live = |id: &&ReplicantId| maps.known.get(id).is_some_and(|known| !known.deleted);
        below.filter(live).copied().collect()
    }

    /// Takes what a shard knows of a replicant now, or that it knows nothing any more.
    pub(super) fn put(&self, id: ReplicantId, glance: Option<Glance<'_>>, here: &SiteName) {
        let mut maps = self.maps.write().unwrap_or_else(|e| e.into_inner());
        let known = glance.and_then(|glance| maps.known(glance, here));
        match known {
            Some(known) => {
                for name in known.names() {
                    self.mark(name);
                }
                maps.put(Arc::new(known));
            }
            None => maps.forget(id),
        }
        self.count.store(maps.known.len(), Ordering::Release);
        drop(maps);
        self.changed.notify_waiters();
    }

    fn bits(&self, id: &str) -> [(usize, u64); 2] {
        let hash = self.hasher.hash_one(id);
        let bit = |hash: u64| {
            let word = (hash >> 6) as usize % FILTER_WORDS;
            (word, 1 << (hash & 63))
        };
        [bit(hash), bit(hash >> 32)]
    }

    fn may_hold(&self, id: &str) -> bool {
        let set = |(word, bit): (usize, u64)| self.filter[word].load(Ordering::Acquire) & bit != 0;
        self.bits(id).into_iter().all(set)
    }

    fn mark(&self, id: &str) {
        for (word, bit) in self.bits(id) {
            self.filter[word].fetch_or(bit, Ordering::Release);
        }
    }
}

impl Maps {
    /// None while it has no name.
    fn known(&mut self, glance: Glance<'_>, here: &SiteName) -> Option<Known> {
        let meta = glance.meta()?;
        let row = glance.rows().get(here)?;
        let deleted = glance.is_deleted();
        let gone = deleted || row.state == ReplicaState::Deleted;
        let there = |row: &Row| row.local.is_some() && row.state != ReplicaState::Deleted;
        let live = glance.rows().iter().filter(|(_, row)| there(row));
        let (sites, live) = (
            glance.rows().keys().cloned(),
            live.map(|pair| pair.0.clone()),
        );
        let (sites, live) = (self.place(sites.collect()), self.place(live.collect()));
        let meta: Arc<str> = meta.into();
        let local = row.local.as_deref().filter(|_| !gone);
        let local = local.map(|local| match *local == *meta {
            true => meta.clone(),
            false => Arc::from(local),
        });
        Some(Known {
            id: glance.id(),
            service: self.word(glance.service()),
            kind: self.kind(glance),
            meta,
            local,
            state: row.state,
            leader: glance.epoch().site.clone(),
            sites,
            live,
            parent: glance.parent(),
            deleted,
            stale: row.applied < glance.last() || row.state == ReplicaState::Diverged,
        })
    }

    /// Of its create, which never changes: the request is read once.
    fn kind(&mut self, glance: Glance<'_>) -> Arc<str> {
        if let Some(known) = self
            .known
            .get(&glance.id())
            .filter(|it| !it.kind.is_empty())
        {
            return known.kind.clone();
        }
        let asked = glance.create().and_then(|op| decode::<Asked>(&op.rest));
        self.word(asked.as_ref().map_or("", |asked| &asked.kind))
    }

    fn population(&mut self, service: &str) -> &Population {
        let service = self.word(service);
        self.populations.entry(service).or_default()
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
        let place: Arc<[SiteName]> = sites.into();
        if self.places.len() < PLACES_MAX {
            self.places.insert(place.clone());
        }
        place
    }

    fn put(&mut self, known: Arc<Known>) {
        self.forget(known.id);
        let ids = self.by_id.entry(known.service.clone()).or_default();
        ids.insert(known.meta.clone(), known.id);
        if let Some(local) = &known.local {
            // A meta-id is recognised by everybody: a local id that equals one does not hide it.
            ids.entry(local.clone()).or_insert(known.id);
        }
        if let Some(parent) = known.parent {
            self.below.entry(parent).or_default().insert(known.id);
        }
        let population = &self.population(&known.service).0;
        population.fetch_add(1, Ordering::Release);
        self.known.insert(known.id, known);
    }

    fn forget(&mut self, id: ReplicantId) {
        let Some(known) = self.known.remove(&id) else {
            return;
        };
        let population = &self.population(&known.service).0;
        population.fetch_sub(1, Ordering::Release);
        if let Some(parent) = known.parent
            && let Some(siblings) = self.below.get_mut(&parent)
        {
            siblings.remove(&id);
            if siblings.is_empty() {
                self.below.remove(&parent);
            }
        }
        if let Some(ids) = self.by_id.get_mut(&known.service) {
            for name in known.names() {
                if ids.get(name) == Some(&id) {
                    ids.remove(name);
                }
            }
        }
    }
}

impl Known {
    fn names(&self) -> impl Iterator<Item = &str> {
        [Some(&*self.meta), self.local.as_deref()]
            .into_iter()
            .flatten()
    }
}
