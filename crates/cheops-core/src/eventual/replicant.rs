//! One replicant on one site: what is on disk, and what is only known while the agent runs.

use std::collections::{BTreeMap, VecDeque};

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use super::log::{Base, Body, Log, Stage};
use super::message::{Header, ReplicaState, Row};
use super::promote::Candidacy;
use super::rest::Wrote;
use super::shared::Shared;
use crate::ids::{Boot, Epoch, OperationId, ReplicantId};
use crate::operation::{DoubtBy, Fields, Form, Handover, Kind, Naming, Operation, Submission};
use crate::output::{CallId, Output};
use crate::record::{Table, encode, key_of, log_key};

/// The record of a replicant, without its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: ReplicantId,
    pub(crate) form: Form,
    pub(crate) service: String,
    pub(crate) doubt: DoubtBy,
    pub(crate) handover: Handover,
    pub(crate) meta: Option<String>,
    pub(crate) parent: Option<ReplicantId>,
    pub(crate) about: Vec<u8>,
    pub(crate) create: Option<Operation>,
    /// The reign whose log this is.
    pub(crate) epoch: Epoch,
    /// No lower reign is followed any more.
    pub(crate) promised: Epoch,
    pub(crate) rows: BTreeMap<SiteName, Row>,
    pub(crate) rows_version: u64,
    pub(crate) base: Base,
    /// At the gate: the service is being asked, nothing has a position yet.
    pub(crate) gate: Option<Gate>,
    /// The create on this site, while it is not certain.
    pub(crate) making: Option<Making>,
    /// What this agent last wrote here.
    pub(crate) written: Fields,
    /// The local resource was found by its looks.
    pub(crate) matched: bool,
    /// What was done here and is in no log at present.
    pub(crate) ran: BTreeMap<OperationId, Stage>,
    pub(crate) mend: Mend,
    /// Up to here, this disk may have forgotten what its service did.
    pub(crate) doubt_until: u64,
    pub(crate) recovery: Recovery,
    /// The tombstone may go: every site has confirmed it.
    pub(crate) forgetting: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gate {
    pub(crate) op: Operation,
    pub(crate) stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Making {
    pub(crate) fields: Fields,
    /// Everything up to here is in those fields.
    pub(crate) upto: u64,
    pub(crate) stage: Stage,
}

/// Does this replica have to be brought to the desired representation?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mend {
    Nothing,
    /// Something was skipped: shown as diverged until somebody asks for a settle.
    Skipped,
    Settle,
}

/// Is the log to be trusted?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Recovery {
    Done,
    /// The disk is another one: nothing is done before the others have told what there is.
    Asking,
    /// What this site lacks was folded by the leader: nothing is done before its base is here.
    Rebasing,
    /// Another member has no record: deleted or never heard of, nobody can tell. A person decides.
    Stranded,
}

/// What the call in flight is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Gate,
    GateProbe,
    Make,
    MakeProbe,
    Entry(u64),
    Bury(u64),
    Settle {
        upto: u64,
        fields: Fields,
        unset: Vec<String>,
    },
    Leave,
}

/// How far a follower is, as the leader knows it in its own reign.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) have: Option<u64>,
    /// The last entry that was sent and may still arrive.
    pub(crate) sent: Option<u64>,
    /// When anything was last sent.
    pub(crate) sent_ms: u64,
    pub(crate) rows_version: u64,
    pub(crate) applied: u64,
    /// When it last reported, or was first sent to.
    pub(crate) heard_ms: u64,
    pub(crate) next_ms: u64,
    pub(crate) pause_ms: u64,
    pub(crate) forgotten: bool,
    /// The send time of the newest message it has answered.
    pub(crate) leased_ms: Option<u64>,
}

pub(crate) struct Replicant {
    pub(crate) record: Record,
    pub(crate) log: Log,
    pub(crate) call: Option<(CallId, Doing)>,
    pub(crate) retry_ms: u64,
    /// Calls since the last one that was answered well.
    pub(crate) attempts: u32,
    pub(crate) pause_ms: u64,
    pub(crate) refused_since_ms: Option<u64>,
    pub(crate) none_seen_ms: Option<u64>,
    pub(crate) pending: VecDeque<Submission>,
    pub(crate) pending_until: BTreeMap<OperationId, u64>,
    pub(crate) progress: BTreeMap<SiteName, Progress>,
    pub(crate) candidacy: Option<Candidacy>,
    /// Since when nobody leads, as far as this site knows.
    pub(crate) vacant_since_ms: Option<u64>,
    /// What the leader's last message said of this site.
    pub(crate) confirmed: (u64, u64),
    pub(crate) confirmed_applied: u64,
    pub(crate) leader_last: u64,
    /// The row as it was last given a version.
    pub(crate) shown: Option<Row>,
    pub(crate) report_ms: u64,
    pub(crate) report_pause_ms: u64,
    pub(crate) heard: Option<(Boot, u64)>,
    pub(crate) granted_until_ms: u64,
    pub(crate) deadlines: BTreeMap<u64, u64>,
    pub(crate) woken: bool,
    pub(crate) placed: super::places::Placed,
    pub(crate) marked: Marked,
    /// Its place among those that nothing is under way with.
    pub(crate) idle_since: Option<u64>,
    /// Of the record as it is on disk: a copy would double what a replicant weighs in memory.
    saved: Option<Digest>,
}

/// What its mark on disk says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    Not,
    Awake,
    Resting,
}

/// Enough of a hash that two records of one replicant never share it.
type Digest = [u8; 16];

fn digest(bytes: &[u8]) -> Digest {
    let hash = blake3::hash(bytes);
    hash.as_bytes()[..16].try_into().expect("32 bytes hold 16")
}

impl Replicant {
    pub(crate) fn new(record: Record, log: Log) -> Replicant {
        Replicant {
            record,
            log,
            call: None,
            retry_ms: 0,
            attempts: 0,
            pause_ms: 0,
            refused_since_ms: None,
            none_seen_ms: None,
            pending: VecDeque::new(),
            pending_until: BTreeMap::new(),
            progress: BTreeMap::new(),
            candidacy: None,
            vacant_since_ms: None,
            confirmed: (0, 0),
            confirmed_applied: 0,
            leader_last: 0,
            shown: None,
            report_ms: 0,
            report_pause_ms: 0,
            heard: None,
            granted_until_ms: 0,
            deadlines: BTreeMap::new(),
            woken: true,
            placed: super::places::Placed::default(),
            marked: Marked::Not,
            idle_since: None,
            saved: None,
        }
    }

    /// As it was found on disk: it is written again only when it differs from that.
    pub(crate) fn found(record: Record, log: Log, bytes: &[u8]) -> Replicant {
        Replicant {
            saved: Some(digest(bytes)),
            ..Replicant::new(record, log)
        }
    }

    /// The record of a replicant that is being made here.
    pub(crate) fn conceive(submission: &Submission, id: ReplicantId, shared: &Shared) -> Replicant {
        let row = |site: &SiteName| (site.clone(), Row::pending(shared.incarnation_of(site)));
        let mut rows: BTreeMap<SiteName, Row> = submission.sites.iter().map(row).collect();
        let mine = rows
            .entry(shared.me.clone())
            .or_insert_with(|| Row::pending(0));
        mine.incarnation = shared.boot.incarnation;
        if submission.form == Form::Queue {
            mine.state = ReplicaState::Carrier;
        }
        let epoch = Epoch {
            counter: 1,
            site: shared.me.clone(),
        };
        let create = (submission.op.kind == Kind::Create && submission.form == Form::Replica)
            .then(|| submission.op.clone());
        let record = Record {
            id,
            form: submission.form,
            service: submission.service.clone(),
            doubt: submission.doubt,
            handover: submission.handover,
            meta: match &submission.naming {
                Naming::Chosen(name) | Naming::Kept(name) => Some(name.clone()),
                Naming::Minted | Naming::Adopted(_) => None,
            },
            parent: submission.parent,
            about: submission.about.clone(),
            create,
            epoch: epoch.clone(),
            promised: epoch,
            rows,
            rows_version: 1,
            base: Base::default(),
            gate: None,
            making: None,
            written: Fields::new(),
            matched: false,
            ran: BTreeMap::new(),
            mend: Mend::Nothing,
            doubt_until: 0,
            recovery: Recovery::Done,
            forgetting: false,
        };
        Replicant::new(record, Log::default())
    }

    /// The record of a replicant that others told of.
    pub(crate) fn from_header(header: &Header, recovery: Recovery) -> Replicant {
        let record = Record {
            id: header.id,
            form: header.form,
            service: header.service.clone(),
            doubt: header.doubt,
            handover: header.handover,
            meta: header.meta.clone(),
            parent: header.parent,
            about: header.about.clone(),
            create: header.create.clone(),
            epoch: Epoch {
                counter: 0,
                site: header.epoch.site.clone(),
            },
            promised: header.epoch.clone(),
            rows: header.rows.clone(),
            rows_version: 0,
            base: Base::default(),
            gate: None,
            making: None,
            written: Fields::new(),
            matched: false,
            ran: BTreeMap::new(),
            mend: Mend::Nothing,
            doubt_until: 0,
            recovery,
            forgetting: false,
        };
        Replicant::new(record, Log::default())
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            id: self.record.id,
            form: self.record.form,
            service: self.record.service.clone(),
            doubt: self.record.doubt,
            handover: self.record.handover,
            meta: self.record.meta.clone(),
            parent: self.record.parent,
            about: self.record.about.clone(),
            create: self.record.create.clone(),
            epoch: self.record.epoch.clone(),
            runs: self.log.runs(),
            rows: self.record.rows.clone(),
            rows_version: self.record.rows_version,
            sent: (Boot::default(), 0),
        }
    }

    pub(crate) fn is_involved(&self, site: &SiteName) -> bool {
        self.record.rows.contains_key(site)
    }

    /// True if this site gives positions.
    pub(crate) fn leads(&self, me: &SiteName) -> bool {
        self.record.epoch.site == *me
            && self.record.promised == self.record.epoch
            && self.record.recovery == Recovery::Done
            && self.candidacy.is_none()
    }

    pub(crate) fn row<'a>(&'a self, me: &SiteName) -> &'a Row {
        self.record
            .rows
            .get(me)
            .expect("records live on involved sites alone")
    }

    pub(crate) fn row_mut<'a>(&'a mut self, me: &SiteName) -> &'a mut Row {
        self.record
            .rows
            .get_mut(me)
            .expect("records live on involved sites alone")
    }

    pub(crate) fn others(&self, me: &SiteName) -> Vec<SiteName> {
        self.record
            .rows
            .keys()
            .filter(|site| *site != me)
            .cloned()
            .collect()
    }

    /// Every operation this site knows and that is not folded.
    pub(crate) fn operations(&self) -> Vec<OperationId> {
        let gate = self.record.gate.iter().map(|gate| gate.op.id);
        self.log.operations().chain(gate).collect()
    }

    /// Of the request that an operation stands for, while it waits, is asked about, or is in the log.
    pub(crate) fn digest_of(&self, id: OperationId) -> Option<u64> {
        let gate = self.record.gate.iter().map(|gate| &gate.op);
        let pending = self.pending.iter().map(|pending| &pending.op);
        let logged = self.log.find(id).and_then(|kept| match &kept.entry.body {
            Body::Run(op) | Body::Park(op) => Some(op),
            Body::Void(_) => None,
        });
        gate.chain(pending)
            .chain(logged)
            .chain(&self.log.base.parked)
            .find(|op| op.id == id)
            .map(|op| op.digest)
    }

    /// True if it is a conflict that nobody has resolved.
    pub(crate) fn has_parked(&self, id: OperationId) -> bool {
        let logged = self.log.find(id);
        logged.is_some_and(|kept| matches!(kept.entry.body, Body::Park(_)))
            || self.log.base.parked.iter().any(|parked| parked.id == id)
    }

    /// Writes what differs from what is on disk.
    pub(crate) fn save(&mut self, shared: &Shared, out: &mut Output) -> Wrote {
        let id = self.record.id.0;
        let before = out.records();
        for kept in self.log.take_dirty() {
            if !shared.planted(super::planted::Bug::SkipLogWrite) {
                out.write(
                    Table::Log,
                    log_key(id, kept.entry.index),
                    Some(encode(kept)),
                );
            }
        }
        // The base belongs to the log; it stands in the record while that is written, and only then.
        std::mem::swap(&mut self.record.base, &mut self.log.base);
        let bytes = if shared.planted(super::planted::Bug::SkipPrepare) {
            encode(&Record {
                gate: None,
                making: None,
                ..self.record.clone()
            })
        } else {
            encode(&self.record)
        };
        std::mem::swap(&mut self.record.base, &mut self.log.base);
        let now = Some(digest(&bytes));
        if now != self.saved {
            out.write(Table::Replicants, key_of(id), Some(bytes));
            self.saved = now;
        }
        match out.records() > before {
            true => Wrote::Something,
            false => Wrote::Nothing,
        }
    }

    /// Removes every trace from disk.
    pub(crate) fn erase(&mut self, out: &mut Output) {
        let id = self.record.id.0;
        for kept in self.log.iter() {
            out.write(Table::Log, log_key(id, kept.entry.index), None);
        }
        out.write(Table::Replicants, key_of(id), None);
        if self.marked != Marked::Not {
            out.write(Table::Marks, key_of(id), None);
        }
    }

    pub(crate) fn back_off(&mut self, now_ms: u64, (first, most): (u64, u64)) {
        self.pause_ms = (self.pause_ms * 2).clamp(first, most);
        self.retry_ms = now_ms + self.pause_ms;
    }

    pub(crate) fn calm(&mut self) {
        self.pause_ms = 0;
        self.retry_ms = 0;
        self.attempts = 0;
        self.refused_since_ms = None;
        self.none_seen_ms = None;
    }
}
