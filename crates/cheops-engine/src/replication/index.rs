//! Which ids are replicants: asked by every request, so an ordinary id costs a few loads and no lock.

mod locals;
mod maps;
mod name;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use cheops_core::eventual::{Glance, ReplicaState, Summary};
use cheops_core::{MeshKey, ReplicantId};
use cheops_model::SiteName;
use cheops_rest::{Api, Body, Id, Side};
use foldhash::fast::FixedState;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::wire::Asked;
use locals::Locals;
use maps::Maps;

/// 2^23 bits, a megabyte: one in two hundred ordinary ids takes the slow way at 200,000 replicants, one in six at a million.
const FILTER_WORDS: usize = 1 << 17;

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

/// The replicants that one service has here. Cheap to ask; any thread may.
#[derive(Clone, Debug, Default)]
pub struct Population(Arc<Census>);

#[derive(Debug, Default)]
struct Census {
    count: AtomicUsize,
    locals: Locals,
}

impl Population {
    /// True if it has none: its requests need not look further.
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    /// False if the service never called one by another id than clients do: its answers need not be looked through.
    pub fn has_local_ids(&self) -> bool {
        self.0.locals.are_any()
    }

    /// False only if no id in the body of an answer is a local one that clients know by another. No lock, and most bytes
    /// are skipped.
    pub fn may_be_named_in(&self, body: &[u8]) -> bool {
        self.0.locals.may_be_named_in(body)
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
        maps.find(service, id).map(Arc::new)
    }

    /// The replicant that any service of this site knows by that id.
    pub fn find_anywhere(&self, id: &str) -> Vec<Arc<Known>> {
        let maps = self.maps.read().unwrap_or_else(|e| e.into_inner());
        let mut found: Vec<_> = maps.find_anywhere(id).map(Arc::new).collect();
        found.sort_by_key(|known| known.service.clone());
        found.dedup_by_key(|known| known.service.clone());
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
        maps.get(id).map(Arc::new)
    }

    /// What clients call it.
    pub fn meta_of(&self, id: ReplicantId) -> Option<String> {
        let maps = self.maps.read().unwrap_or_else(|e| e.into_inner());
        maps.meta_of(id)
    }

    /// The live replicants that lie below one.
    pub fn below(&self, id: ReplicantId) -> Vec<ReplicantId> {
        let maps = self.maps.read().unwrap_or_else(|e| e.into_inner());
        maps.below(id)
    }

    /// Takes what a shard knows of a replicant now, or that it knows nothing any more.
    pub(super) fn put(&self, id: ReplicantId, glance: Option<Glance<'_>>, here: &SiteName) {
        let mut maps = self.maps.write().unwrap_or_else(|e| e.into_inner());
        let known = glance.and_then(|glance| maps.known_of(&glance, here));
        self.replace(&mut maps, id, known);
        drop(maps);
        self.changed.notify_waiters();
    }

    /// Takes what the mark of one that rests says.
    pub(super) fn put_resting(&self, id: ReplicantId, summary: &Summary) {
        let mut maps = self.maps.write().unwrap_or_else(|e| e.into_inner());
        let known = maps.known_at_rest(id, summary);
        self.replace(&mut maps, id, Some(known));
        drop(maps);
        self.changed.notify_waiters();
    }

    fn replace(&self, maps: &mut Maps, id: ReplicantId, known: Option<Known>) {
        match known {
            Some(known) => {
                self.mark(&known.meta);
                if let Some(local) = &known.local {
                    self.mark(local);
                }
                maps.put(&known);
            }
            None => maps.forget(id),
        }
        self.count.store(maps.len(), Ordering::Release);
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
