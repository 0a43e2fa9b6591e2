//! What can be told of a replicant without copying anything that is in memory: for lists, sums and counters.

use std::collections::BTreeMap;

use cheops_model::SiteName;

use super::log::Body;
use super::message::Row;
use super::replicant::{Mend, Recovery};
use super::shelf::Held;
use super::site::Site;
use crate::ids::{Epoch, ReplicantId};
use crate::operation::{Fields, Form, Handover, Kind, Operation};

/// One replicant, at a glance.
pub struct Glance<'a> {
    me: &'a SiteName,
    replicant: Held<'a>,
}

impl Glance<'_> {
    /// Which.
    pub fn id(&self) -> ReplicantId {
        self.replicant.record.id
    }

    /// What for.
    pub fn form(&self) -> Form {
        self.replicant.record.form
    }

    /// Which API.
    pub fn service(&self) -> &str {
        &self.replicant.record.service
    }

    /// The id that clients see; none until the first service has made it.
    pub fn meta(&self) -> Option<&str> {
        self.replicant.record.meta.as_deref()
    }

    /// What it lies below.
    pub fn parent(&self) -> Option<ReplicantId> {
        self.replicant.record.parent
    }

    /// How it was made.
    pub fn create(&self) -> Option<&Operation> {
        self.replicant.record.create.as_ref()
    }

    /// Whom this site follows.
    pub fn epoch(&self) -> &Epoch {
        &self.replicant.record.epoch
    }

    /// Who takes over.
    pub fn handover(&self) -> Handover {
        self.replicant.record.handover
    }

    /// All replicas.
    pub fn rows(&self) -> &BTreeMap<SiteName, Row> {
        &self.replicant.record.rows
    }

    /// The newest position that this site knows of.
    pub fn last(&self) -> u64 {
        self.replicant.log.last()
    }

    /// True if this site orders it.
    pub fn leads(&self) -> bool {
        self.replicant.leads(self.me)
    }

    /// Requests that wait for this site's gate, the one that is asked about included.
    pub fn at_gate(&self) -> usize {
        self.replicant.pending.len() + usize::from(self.replicant.record.gate.is_some())
    }

    /// Entries that a follower is not known to have; none unless this site leads.
    pub fn unsent_to(&self, site: &SiteName) -> Option<u64> {
        let progress = self.replicant.progress.get(site);
        let have = progress.and_then(|known| known.have).unwrap_or(0);
        self.leads().then(|| self.last().saturating_sub(have))
    }

    /// Where the request entered that this site's service is being asked about, or is asked about next.
    pub fn origin(&self) -> Option<&SiteName> {
        let gate = self.replicant.record.gate.as_ref();
        let latest = || {
            let entries = self.replicant.log.iter();
            let origin = entries.filter_map(|kept| match &kept.entry.body {
                Body::Run(op) => Some(&op.origin),
                Body::Void(_) | Body::Park(_) => None,
            });
            origin.last()
        };
        gate.map(|gate| &gate.op.origin).or_else(latest)
    }

    /// True if clients have deleted it.
    pub fn is_deleted(&self) -> bool {
        let deletes = |body: &Body| matches!(body, Body::Run(op) if op.kind == Kind::Delete);
        let mut entries = self.replicant.log.iter();
        self.replicant.log.base.deleted || entries.any(|kept| deletes(&kept.entry.body))
    }

    /// True if somebody has to decide whether it still exists.
    pub fn is_stranded(&self) -> bool {
        self.replicant.record.recovery == Recovery::Stranded
    }

    /// True while this site's service is being called for it, or its gate is asked: nothing can be mended meanwhile.
    pub fn is_busy(&self) -> bool {
        self.replicant.call.is_some() || self.replicant.record.gate.is_some()
    }

    /// True if something was skipped on this site that nobody has settled since.
    pub fn is_patched(&self) -> bool {
        self.replicant.record.mend != Mend::Nothing
    }

    /// Where it is to live, if that was ever changed.
    pub fn members(&self) -> Option<std::collections::BTreeSet<SiteName>> {
        self.replicant.log.members().map(|(_, members)| members)
    }

    /// What clients have written.
    pub fn desired(&self) -> Fields {
        self.replicant.log.desired(self.last()).fields
    }

    /// Every operation that some site may still have to run, or that somebody has to decide about.
    pub fn open_operations(&self) -> impl Iterator<Item = &Operation> {
        let rows = self.replicant.record.rows.values();
        let everywhere = rows.map(|row| row.applied).min().unwrap_or(0);
        let open = self.replicant.log.iter().filter_map(move |kept| {
            let open = kept.entry.index > everywhere;
            match &kept.entry.body {
                Body::Run(op) => open.then_some(op),
                Body::Park(op) => Some(op),
                Body::Void(_) => None,
            }
        });
        let gate = self.replicant.record.gate.iter().map(|gate| &gate.op);
        let pending = self.replicant.pending.iter().map(|pending| &pending.op);
        let parked = &self.replicant.log.base.parked;
        open.chain(gate).chain(pending).chain(parked)
    }

    /// What clients have written, if any of it is as asked for.
    pub fn desired_if(&self, wanted: impl Fn(&str) -> bool) -> Fields {
        let log = &self.replicant.log;
        let mut logged = log.iter().filter_map(|kept| match &kept.entry.body {
            Body::Run(op) => Some(&op.fields),
            Body::Park(_) | Body::Void(_) => None,
        });
        let any = |fields: &Fields| fields.values().any(|value| wanted(value));
        match any(&log.base.fields) || logged.any(any) {
            true => log.desired(log.last()).fields,
            false => Fields::new(),
        }
    }

    /// Conflicts nobody has resolved.
    pub fn parked(&self) -> impl Iterator<Item = &Operation> {
        self.replicant.log.parked()
    }
}

impl Site {
    /// Every replicant of this site, at a glance. Those that rest are read from the disk one after the other, which takes
    /// its time; [`Site::awake`] and [`Site::resting`] tell without.
    pub fn glances(&self) -> impl Iterator<Item = Glance<'_>> {
        let me = &self.shared.me;
        let replicants = self.replicants.each();
        replicants.map(move |replicant| Glance { me, replicant })
    }

    /// Those that are in memory: everything that something is under way with, and some more.
    pub fn awake(&self) -> impl Iterator<Item = Glance<'_>> {
        let me = &self.shared.me;
        let awake = self.replicants.awake().map(Held::Awake);
        awake.map(move |replicant| Glance { me, replicant })
    }

    /// Those that may name a content that is kept elsewhere.
    pub fn with_contents(&self) -> impl Iterator<Item = Glance<'_>> {
        let resting = self.resting().filter(|(_, kin)| kin.has_content);
        self.awake()
            .chain(resting.filter_map(|(id, _)| self.glance(id)))
    }

    /// One replicant, at a glance.
    pub fn glance(&self, id: ReplicantId) -> Option<Glance<'_>> {
        let replicant = self.replicants.held(id)?;
        let me = &self.shared.me;
        Some(Glance { me, replicant })
    }

    /// This site's clock, as it stood when something last happened.
    pub fn now_ms(&self) -> u64 {
        self.shared.now_ms
    }
}
