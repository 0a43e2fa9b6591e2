//! How far contents are, for people: in operations, as events and as counters.

use std::fmt::Write;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use cheops_blob::Reference;
use cheops_blob::limits::CHUNK_BYTES;
use cheops_model::SiteName;
use serde_json::json;

use super::super::wire::Content;
use super::Blobs;
use super::frames::Reply;
use super::limits::SENT_KEPT_MAX;

/// Counted since the agent started.
#[derive(Default)]
pub(in super::super) struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    wrong: AtomicU64,
    collected: AtomicU64,
    /// Needed here and not here, when it was last looked.
    missing: AtomicU64,
}

impl Counters {
    pub(super) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn received(&self, reply: &Reply) {
        let (Reply::Bytes(bytes) | Reply::Packed(bytes)) = reply else {
            return;
        };
        self.received
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn wrong(&self) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn collected(&self, blobs: u64) {
        self.collected.fetch_add(blobs, Ordering::Relaxed);
    }

    pub(super) fn set_missing(&self, count: usize) {
        self.missing.store(count as u64, Ordering::Relaxed);
    }
}

/// How far a content is on one site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Arrived {
    /// How much of it is there.
    pub(in super::super) bytes: Option<u64>,
    /// Why it does not move.
    pub(in super::super) trouble: Option<&'static str>,
}

impl Blobs {
    /// How far a content is on a site, as far as this one knows.
    pub(in super::super) fn arrived(&self, content: &Content, at: &SiteName) -> Arrived {
        let only = |bytes| Arrived {
            bytes,
            trouble: None,
        };
        match content {
            Content::Streaming(id) if *at == self.0.here => {
                let uploads = self.uploads();
                only(uploads.get(id).map(|coming| coming.bytes()))
            }
            Content::Streaming(_) => Arrived::default(),
            Content::Blob(of) if *at == self.0.here => {
                if self.0.store.has(*of) {
                    return only(Some(of.bytes));
                }
                let fetches = self.fetches();
                fetches.get(of).map_or(Arrived::default(), |fetch| Arrived {
                    bytes: Some(fetch.bytes.load(Ordering::Relaxed)),
                    trouble: fetch.trouble,
                })
            }
            Content::Blob(of) => {
                let sent = self.0.sent.lock().unwrap_or_else(PoisonError::into_inner);
                let known = sent.iter().find(|(what, to, _)| what == of && to == at);
                only(known.map(|(_, _, bytes)| *bytes))
            }
        }
    }

    /// A chunk went there, and so everything before it.
    pub(super) fn note_sent(&self, of: Reference, to: &SiteName, index: u64) {
        let bytes = ((index + 1) * CHUNK_BYTES as u64).min(of.bytes);
        let mut sent = self.0.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sent
            .iter_mut()
            .find(|(what, site, _)| *what == of && site == to);
        if let Some((_, _, known)) = known {
            *known = bytes;
            return;
        }
        if sent.len() == SENT_KEPT_MAX {
            sent.pop_front();
        }
        sent.push_back((of, to.clone(), bytes));
    }

    /// Says it to whoever listens to events.
    pub(super) fn tell(&self, of: Reference, site: &SiteName, bytes: u64, state: &str) {
        let told = json!({
            "content": of.to_string(),
            "site": site,
            "bytes": bytes,
            "of": of.bytes,
            "state": state,
        });
        self.0.events.publish("content", &told);
    }

    /// As Prometheus text.
    pub(in super::super) fn metrics(&self, text: &mut String) {
        let counters = &self.0.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let rows = [
            (
                "blob_bytes",
                "gauge",
                "What contents take on this disk.",
                self.0.store.bytes(),
            ),
            (
                "blobs_missing",
                "gauge",
                "Contents that are needed here and are not here.",
                load(&counters.missing),
            ),
            (
                "blob_sent_bytes_total",
                "counter",
                "Of contents, to other sites.",
                load(&counters.sent),
            ),
            (
                "blob_received_bytes_total",
                "counter",
                "Of contents, from other sites.",
                load(&counters.received),
            ),
            (
                "blob_wrong_chunks_total",
                "counter",
                "Answers of other sites that were not that content.",
                load(&counters.wrong),
            ),
            (
                "blobs_collected_total",
                "counter",
                "Contents removed because nobody needs them.",
                load(&counters.collected),
            ),
        ];
        for (name, kind, help, value) in rows {
            let _ = writeln!(
                text,
                "# HELP cheops_{name} {help}\n# TYPE cheops_{name} {kind}\ncheops_{name} {value}"
            );
        }
    }
}
