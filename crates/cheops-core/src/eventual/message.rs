//! What agents say to each other about replicants. Sent in an [`Envelope`](crate::Envelope).

use std::collections::BTreeMap;

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use super::log::{Base, Entry, Runs, Stage};
use crate::ids::{Boot, Epoch, OperationId, ReplicantId};
use crate::operation::{Answer, DoubtBy, Form, Handover, Operation, Submission};

/// The state of one replica, as its own site tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicaState {
    /// Not made yet.
    Pending,
    /// As far as `applied` says.
    Live,
    /// Refused something, or skipped it; later operations are held.
    Diverged,
    /// Something may have been done.
    InDoubt,
    /// Removed.
    Deleted,
    /// Keeps the queue of another site; runs nothing.
    Carrier,
}

/// What one site says of its replica. Only that site makes new versions of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Grows with every change.
    pub version: u64,
    /// Of its disk; 0 if never heard.
    pub incarnation: u64,
    /// Everything up to here is done.
    pub applied: u64,
    /// How it is.
    pub state: ReplicaState,
    /// What its service calls it.
    pub local: Option<String>,
    /// What holds it up: index and status.
    pub note: Option<(u64, u16)>,
    /// What stands up to here was before its time: state comes by settle, actions are not run.
    pub since: u64,
}

impl Row {
    pub(crate) fn pending(incarnation: u64) -> Row {
        Row {
            version: 0,
            incarnation,
            applied: 0,
            state: ReplicaState::Pending,
            local: None,
            note: None,
            since: 0,
        }
    }

    /// True if it tells more than `other`.
    pub(crate) fn is_newer_than(&self, other: &Row) -> bool {
        (self.incarnation, self.version) > (other.incarnation, other.version)
    }
}

/// What does not depend on a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Whose.
    pub id: ReplicantId,
    /// What for.
    pub form: Form,
    /// Which API.
    pub service: String,
    /// How doubt is settled.
    pub doubt: DoubtBy,
    /// Who takes over.
    pub handover: Handover,
    /// The id that clients see.
    pub meta: Option<String>,
    /// What it lies below.
    pub parent: Option<ReplicantId>,
    /// What is shown of it.
    pub about: Vec<u8>,
    /// How it was made.
    pub create: Option<Operation>,
    /// Who says so.
    pub epoch: Epoch,
    /// The whole log in short.
    pub runs: Runs,
    /// All replicas.
    pub rows: BTreeMap<SiteName, Row>,
    /// Counts changes of meta-id and rows within the epoch.
    pub rows_version: u64,
    /// When, on the leader's clock in that run.
    pub sent: (Boot, u64),
}

impl Header {
    /// About how many bytes it is.
    pub(crate) fn weight(&self) -> usize {
        let row = size_of::<Row>() * self.rows.len();
        let made = self.create.as_ref().map_or(0, Operation::weight);
        size_of::<Header>() + row + self.about.len() + made
    }
}

/// What came of an entry at a follower.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Result {
    /// Which.
    pub index: u64,
    /// How far.
    pub stage: Stage,
}

/// Between two agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Please order this.
    Submit {
        /// What.
        submission: Submission,
        /// Under this reign only.
        epoch: Option<Epoch>,
    },
    /// A deposed leader had accepted this; it is in no log now.
    Resubmit {
        /// What.
        op: Operation,
        /// Where the logs parted.
        fork: u64,
        /// Under this reign only.
        epoch: Epoch,
    },
    /// To a `Submit`.
    Answered {
        /// Which.
        op: OperationId,
        /// Which try.
        attempt: u64,
        /// What.
        answer: Answer,
    },
    /// To a `Submit`: not done, and under that reign never will be.
    NotLeader {
        /// Which.
        op: OperationId,
        /// Which try.
        attempt: u64,
        /// Which reign was meant.
        epoch: Option<Epoch>,
        /// Which reign there is.
        now: Option<Epoch>,
    },
    /// From the leader: the log goes on.
    Append {
        /// About which.
        header: Header,
        /// Consecutive.
        entries: Vec<Entry>,
        /// For somebody who lacks what was folded.
        base: Option<Base>,
    },
    /// To an `Append`, and unasked when something has changed.
    Report {
        /// About which.
        replicant: ReplicantId,
        /// The reign this site follows.
        epoch: Epoch,
        /// The reign it has promised to follow.
        promised: Epoch,
        /// Its log.
        runs: Runs,
        /// Which rows it has on disk.
        rows_version: u64,
        /// Its own.
        row: Row,
        /// What the leader may not know yet.
        results: Vec<Result>,
        /// True while its disk is being brought up to date.
        recovering: bool,
        /// When the leader sent what this answers, on the leader's clock.
        heard: (Boot, u64),
    },
    /// From somebody who wants to lead.
    Prepare {
        /// What.
        replicant: ReplicantId,
        /// As whom.
        epoch: Epoch,
        /// Its log.
        runs: Runs,
    },
    /// To a `Prepare`: no lower reign will be followed.
    Promise {
        /// To whom.
        epoch: Epoch,
        /// Its header.
        header: Header,
        /// From where the logs part.
        entries: Vec<Entry>,
        /// For somebody who lacks what was folded.
        base: Option<Base>,
    },
    /// To a `Prepare`: another reign holds, or its lease does.
    Decline {
        /// What.
        replicant: ReplicantId,
        /// To whom.
        epoch: Epoch,
        /// The reign that holds.
        promised: Epoch,
    },
    /// To a `Prepare`, `Report` or `Left` about something this site has no record of.
    Unknown {
        /// What.
        replicant: ReplicantId,
    },
    /// This site has left: remove the record.
    Left {
        /// Which.
        replicant: ReplicantId,
        /// Under whom.
        epoch: Epoch,
    },
    /// Every site has deleted it: remove the tombstone.
    Forget {
        /// Which.
        replicant: ReplicantId,
        /// Under whom.
        epoch: Epoch,
    },
    /// To a `Forget`: there is none.
    Forgotten {
        /// Which.
        replicant: ReplicantId,
    },
    /// This disk is new or older than it was: what do we share?
    Restored {
        /// Of the disk.
        incarnation: u64,
        /// Up to this one it was told.
        after: Option<ReplicantId>,
    },
    /// To a `Restored`: what comes next, in order of ids.
    Shared {
        /// Of the disk.
        incarnation: u64,
        /// As asked.
        after: Option<ReplicantId>,
        /// What both are involved in.
        headers: Vec<Header>,
        /// Up to this one, and there is more. None: this was the last.
        next: Option<ReplicantId>,
    },
}

impl Message {
    /// Which replicant it names.
    pub(crate) fn about(&self) -> Option<ReplicantId> {
        match self {
            Message::Submit { submission, .. } => Some(submission.op.replicant),
            Message::Resubmit { op, .. } => Some(op.replicant),
            Message::Append { header, .. } | Message::Promise { header, .. } => Some(header.id),
            Message::Report { replicant, .. }
            | Message::Prepare { replicant, .. }
            | Message::Decline { replicant, .. }
            | Message::Unknown { replicant }
            | Message::Left { replicant, .. }
            | Message::Forget { replicant, .. }
            | Message::Forgotten { replicant } => Some(*replicant),
            Message::Answered { .. }
            | Message::NotLeader { .. }
            | Message::Restored { .. }
            | Message::Shared { .. } => None,
        }
    }
}
