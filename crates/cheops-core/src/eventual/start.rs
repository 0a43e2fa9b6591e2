//! The start: what is on disk becomes a site again; what cannot be read is named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cheops_model::SiteName;

use super::answers::AnswerRecord;
use super::archive::{Archive, Mark, Reader, Summary};
use super::log::{Kept, Log};
use super::places::Places;
use super::planted::Bug;
use super::replicant::{Marked, Record, Replicant};
use super::shared::{OutboxRecord, Shared, SiteRecord, Timer, Tuning};
use super::shelf::Shelf;
use super::site::{Found, Now, Quarantined, Site};
use crate::ids::{Boot, MeshKey, OperationId, ReplicantId};
use crate::output::Output;
use crate::record::{Table, decode, encode};

/// What a site starts from.
pub struct Birth<'a> {
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
    /// What is on the disk. Replicants may be left out that have a mark, if there is an archive.
    pub found: Found<'a>,
    /// Reads back what is not kept in memory. Without one, everything is kept.
    pub archive: Option<Arc<dyn Archive>>,
    /// Tells what only the surroundings know.
    pub reader: Reader,
    /// A known bug to start with; does nothing without the feature `planted`.
    #[doc(hidden)]
    pub bug: Option<Bug>,
}

impl Site {
    /// Starts from what is on disk.
    pub fn start(birth: Birth<'_>, now: Now, out: &mut Output) -> Site {
        let Birth {
            me,
            key,
            tuning,
            incarnation,
            peers,
            found,
            archive,
            reader,
            bug,
        } = birth;
        let now_ms = now.monotonic_ms;
        let boot = Boot {
            incarnation,
            start: 1,
        };
        let replicants = Shelf::new(me.clone(), archive.clone());
        let mut shared = Shared::new(me, key, tuning, boot, now_ms, (archive, reader));
        shared.bug = bug;
        let forwards = BTreeMap::new();
        let mut site = Site {
            heard: BTreeSet::new(),
            replicants,
            places: Places::default(),
            forwards,
            shared,
            told: BTreeMap::new(),
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
            site.replicants.wake_all();
            for (_, replicant) in site.replicants.awake_mut() {
                replicant.distrust(&mut site.shared, out);
            }
        }
        for (id, replicant) in site.replicants.awake_mut() {
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
    pub(super) fn recover(&mut self, found: Found<'_>) -> Option<Boot> {
        let (mut before, mut records, mut awake) = (None, Vec::new(), Vec::new());
        let mut logs = BTreeMap::<u128, Vec<Kept>>::new();
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
                    let op = OperationId(id_of(&key));
                    let until_ms = self.shared.forgotten_at(op);
                    self.shared.answers.found(op, record, until_ms);
                }),
                Table::Marks => {
                    let id = ReplicantId(id_of(&key));
                    let mark = decode::<Mark>(&value);
                    match &mark {
                        Ok(Mark::Resting(summary)) => self.lay(id, summary),
                        // Its record tells the same, only not so fast.
                        Ok(Mark::Awake) | Err(_) => awake.push(id),
                    }
                    mark.map(|_| ())
                }
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
            let rests = self.replicants.is_resting(&record.id);
            if rests || !record.rows.contains_key(&self.shared.me) {
                continue;
            }
            let kept = logs.remove(&record.id.0).unwrap_or_default();
            let log = Log::recover(std::mem::take(&mut record.base), kept);
            let mut replicant = Replicant::found(record, log, &bytes);
            replicant.recover_deadlines(self.shared.now_ms);
            self.replicants.insert(replicant.record.id, replicant);
        }
        for id in awake {
            self.take_up(id);
        }
        before
    }

    /// One that rests, and where its operations are found.
    fn lay(&mut self, id: ReplicantId, summary: &Summary) {
        self.replicants.lay(id, summary);
        let operations = summary.operations.iter();
        self.places.extend(operations.map(|op| (*op, id)));
    }

    /// One that something may be under way with.
    fn take_up(&mut self, id: ReplicantId) {
        if !self.replicants.contains_key(&id) {
            match self.replicants.load(id) {
                Some(Ok(replicant)) if replicant.record.rows.contains_key(&self.shared.me) => {
                    self.replicants.insert(id, replicant);
                }
                Some(Err(fault)) => return self.quarantined.push(fault),
                Some(Ok(_)) | None => return,
            }
        }
        if let Some(replicant) = self.replicants.get_mut(&id) {
            replicant.marked = Marked::Awake;
            replicant.recover_deadlines(self.shared.now_ms);
        }
    }
}

fn id_of(key: &[u8]) -> u128 {
    key.get(..16).map_or(0, |id| {
        u128::from_be_bytes(id.try_into().expect("16 bytes"))
    })
}
