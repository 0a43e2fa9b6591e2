//! The start: what is on disk becomes a site again; what cannot be read is named.

use std::collections::BTreeMap;

use cheops_model::SiteName;

use super::log::{Kept, Log};
use super::places::Places;
use super::planted::Bug;
use super::replicant::{Record, Replicant};
use super::shared::{AnswerRecord, OutboxRecord, Shared, SiteRecord, Timer, Tuning};
use super::site::{Found, Now, Quarantined, Site};
use crate::ids::{Boot, MeshKey, OperationId};
use crate::limits::ANSWERS_MS;
use crate::output::Output;
use crate::record::{Table, decode, encode};

/// What a site starts from.
pub struct Birth {
    /// Its name.
    pub me: SiteName,
    /// The secret of its mesh.
    pub key: MeshKey,
    /// What it may be told about its services.
    pub tuning: Tuning,
    /// Names the disk: 1 for the first of this site, greater than any before if it is new or was restored.
    pub incarnation: u64,
    /// Everybody it may share replicants with.
    pub peers: Vec<SiteName>,
    /// What is on the disk.
    pub found: Found,
    /// A known bug to start with; does nothing without the feature `planted`.
    #[doc(hidden)]
    pub bug: Option<Bug>,
}

impl Site {
    /// Starts from what is on disk.
    pub fn start(birth: Birth, now: Now, out: &mut Output) -> Site {
        let Birth {
            me,
            key,
            tuning,
            incarnation,
            peers,
            found,
            bug,
        } = birth;
        let now_ms = now.monotonic_ms;
        let boot = Boot {
            incarnation,
            start: 1,
        };
        let mut shared = Shared::new(me, key, tuning, boot, now_ms);
        shared.bug = bug;
        let (replicants, forwards) = (BTreeMap::new(), BTreeMap::new());
        let mut site = Site {
            replicants,
            places: Places::default(),
            forwards,
            shared,
            quarantined: Vec::new(),
            wake_ms: None,
        };
        let before = site.recover(found);
        let same_disk = before.is_some_and(|boot| boot.incarnation == incarnation);
        site.shared.boot.start = before.map_or(1, |boot| boot.start + 1);
        site.shared.record.boot = site.shared.boot;
        if !same_disk {
            let others = peers.into_iter().filter(|peer| *peer != site.shared.me);
            site.shared.record.unasked = others.collect();
            site.replicants
                .values_mut()
                .for_each(|replicant| replicant.distrust(&site.shared));
        }
        for (id, replicant) in &mut site.replicants {
            replicant.recover_calls(&site.shared);
            replicant.recover_gate(&mut site.shared, out);
            // It may have granted a lease just before it stopped.
            replicant.granted_until_ms = now_ms + crate::limits::LEASE_MS;
            site.shared.touched.insert(*id);
        }
        if !site.shared.outbox.is_empty() {
            site.shared.arm(Timer::Outbox, Some(now_ms));
        }
        site.save_site(out);
        site.ask_what_is_shared(out);
        site.finish(out);
        site
    }

    /// What could not be read at the start.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    pub(super) fn save_site(&mut self, out: &mut Output) {
        out.write(Table::Site, Vec::new(), Some(encode(&self.shared.record)));
    }

    /// Reads what can be read. Gives the run before, if there was one.
    pub(super) fn recover(&mut self, found: Found) -> Option<Boot> {
        let (mut before, mut records, mut logs) =
            (None, Vec::new(), BTreeMap::<u128, Vec<Kept>>::new());
        for (table, key, value) in found {
            let read = match table {
                Table::Site => decode::<SiteRecord>(&value).map(|record| {
                    before = Some(record.boot);
                    self.shared.record = record;
                }),
                Table::Replicants => {
                    decode::<Record>(&value).map(|record| records.push((record, value)))
                }
                Table::Log => decode::<Kept>(&value).map(|kept| {
                    let id = key.get(..16).map_or(0, |id| {
                        u128::from_be_bytes(id.try_into().expect("16 bytes"))
                    });
                    logs.entry(id).or_default().push(kept);
                }),
                Table::Answers => decode::<AnswerRecord>(&value).map(|record| {
                    self.shared.answers.insert(
                        OperationId(id_of(&key)),
                        (record, self.shared.now_ms + ANSWERS_MS),
                    );
                }),
                Table::Outbox => decode::<OutboxRecord>(&value).map(|record| {
                    if let Some(left) = record.submission.op.ttl_ms {
                        let until = self.shared.now_ms.saturating_add(left);
                        self.shared
                            .outbox_until
                            .insert(record.submission.op.id, until);
                    }
                    self.shared.outbox.insert(record.submission.op.id, record);
                }),
            };
            if let Err(error) = read {
                self.quarantined.push(Quarantined { table, key, error });
            }
        }
        for (mut record, bytes) in records {
            if !record.rows.contains_key(&self.shared.me) {
                continue;
            }
            let kept = logs.remove(&record.id.0).unwrap_or_default();
            let log = Log::recover(std::mem::take(&mut record.base), kept);
            let mut replicant = Replicant::found(record, log, &bytes);
            replicant.recover_deadlines(self.shared.now_ms);
            self.replicants.insert(replicant.record.id, replicant);
        }
        before
    }
}

fn id_of(key: &[u8]) -> u128 {
    key.get(..16).map_or(0, |id| {
        u128::from_be_bytes(id.try_into().expect("16 bytes"))
    })
}
