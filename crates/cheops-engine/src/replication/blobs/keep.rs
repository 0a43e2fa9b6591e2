//! What is needed here is here, and nothing else: marked from the operations on disk, swept, and
//! fetched again if it is gone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cheops_blob::Reference;
use cheops_core::{Operation, Site};
use cheops_model::SiteName;

use super::super::look_into;
use super::super::wire::{self, Asked, Content};
use super::Blobs;
use super::limits::{MARK_EVERY, MARK_SHARE};

/// What is needed, and who may have it.
type Needed = HashMap<Reference, BTreeSet<SiteName>>;

impl Blobs {
    /// Looks after the contents of this site for as long as the agent runs.
    pub(super) async fn keep(self) {
        let mut took = Duration::ZERO;
        loop {
            tokio::time::sleep(MARK_EVERY.max(took * MARK_SHARE)).await;
            if !self.0.used.load(Ordering::Relaxed) {
                self.0.nudge.notified().await;
            }
            self.mark_used();
            let started = Instant::now();
            self.keep_once().await;
            took = started.elapsed();
        }
    }

    async fn keep_once(&self) {
        let mark = self.0.store.mark();
        // Without the word of every shard nothing is known to be surplus.
        let Some(needed) = self.needed().await else {
            return;
        };
        if needed.is_empty() && self.0.store.bytes() == 0 {
            // Until somebody brings a content or asks for one, nobody need look again.
            self.0.used.store(false, Ordering::Relaxed);
            return;
        }
        let all: HashSet<Reference> = needed.keys().copied().collect();
        self.stop_fetching(|of| all.contains(of));
        let swept = tokio::task::spawn_blocking(move || mark.sweep(&all)).await;
        match swept {
            Ok(Ok(collected)) => self.0.counters.collected(collected.blobs),
            Ok(Err(fault)) => tracing::warn!(%fault, "contents could not be collected"),
            Err(_) => (),
        }
        let lost = needed.into_iter().filter(|(of, _)| !self.0.store.has(*of));
        let lost: Vec<_> = lost.collect();
        self.0.counters.set_missing(lost.len());
        for (of, sites) in lost {
            self.want(of, sites, None);
        }
    }

    async fn needed(&self) -> Option<Needed> {
        let mut all = Needed::new();
        for inbox in self.0.inboxes.get()?.iter() {
            for (of, sites) in look_into(inbox, needed_by).await? {
                all.entry(of).or_default().extend(sites);
            }
        }
        Some(all)
    }
}

/// What one shard needs: contents of operations that some site may still have to run, and those that
/// are the state of a resource, for a site that is settled or comes later.
fn needed_by(site: &Site) -> Needed {
    let mut needed = Needed::new();
    for glance in site.with_contents() {
        let open = glance.open_operations().filter_map(reference_of);
        let open: Vec<_> = open.collect();
        let written = match glance.is_deleted() {
            true => Default::default(),
            false => glance.desired_if(|value| value.starts_with("blake3:")),
        };
        let written = written.values().filter_map(|value| value.parse().ok());
        for of in open.into_iter().chain(written) {
            let sites = needed.entry(of).or_default();
            sites.extend(glance.rows().keys().cloned());
        }
    }
    for op in site.outbox() {
        if let Some(of) = reference_of(op) {
            needed.entry(of).or_default().insert(op.origin.clone());
        }
    }
    needed
}

fn reference_of(op: &Operation) -> Option<Reference> {
    if !wire::has_content(&op.rest) {
        return None;
    }
    match wire::decode::<Asked>(&op.rest)?.content? {
        Content::Blob(of) => Some(of),
        Content::Streaming(_) => None,
    }
}
