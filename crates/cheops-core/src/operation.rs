//! Operations and what became of them: the words the protocol and its surroundings exchange.

use std::collections::BTreeMap;

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use crate::ids::{OperationId, ReplicantId};

/// Fields that a client wrote, in meta-id form; values are opaque.
pub type Fields = BTreeMap<String, String>;

/// What an operation does to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Makes it.
    Create,
    /// Writes fields.
    Update,
    /// Removes it.
    Delete,
    /// Does something that is not state: reboot, snapshot.
    Action,
}

/// May a call be made again that may have been executed?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Repeat {
    /// Method or profile make it idempotent.
    Safe,
    /// It would be done twice.
    Never,
}

/// How doubt about a create is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DoubtBy {
    /// The service keeps our operation id in a tag or field.
    Mark,
    /// Exactly one item that is mapped to nothing and contains every member of the body.
    Match,
    /// It is not.
    Nothing,
}

/// Who takes over from a leader that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Handover {
    /// Whoever is told to.
    ByHand,
    /// A majority, by itself; the leader needs its lease.
    Auto,
}

/// What the log is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// One resource on each of its sites.
    Replica,
    /// Requests kept by their leader for one other site; each stands for itself.
    Queue,
}

/// One mutating request. Holds no local id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name everywhere.
    pub id: OperationId,
    /// What it is about.
    pub replicant: ReplicantId,
    /// What it does.
    pub kind: Kind,
    /// What it writes.
    pub fields: Fields,
    /// Method, path, headers and body as the engine wants them back; not looked into.
    pub rest: Vec<u8>,
    /// May it run twice.
    pub repeat: Repeat,
    /// Of the whole request, to tell a retry from another request with the same key.
    pub digest: u64,
    /// Where it entered.
    pub origin: SiteName,
    /// Actions are not run later than this.
    pub ttl_ms: Option<u64>,
    /// Runs only if the log ends at this index (412 else).
    pub expects: Option<u64>,
}

/// How soon the client wants to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// When it is applied, or when this many milliseconds have passed.
    Wait(u64),
    /// When it is safe on disk (202).
    Async,
}

/// A request with everything that has been decided about it before the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// What to do.
    pub op: Operation,
    /// The sites of the resource, from the scope (create, queue) or a hint (else), in order.
    pub sites: Vec<SiteName>,
    /// Which API.
    pub service: String,
    /// How doubt about a create is settled.
    pub doubt: DoubtBy,
    /// Who takes over.
    pub handover: Handover,
    /// Replicated, or queued.
    pub form: Form,
    /// Drawn anew for every try of a client: a try that was answered 503 never runs, a later one may.
    pub attempt: u64,
    /// When to answer.
    pub mode: Mode,
}

/// Why a service said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Bad request, forbidden.
    Verdict,
    /// Quota, 413, 429, 507.
    NoRoom,
    /// 408, 409, 423, 425.
    NotReady,
}

/// What came of one call to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done. DELETE answering 404 counts.
    Applied {
        /// As the service said.
        status: u16,
        /// Of a create.
        local: Option<String>,
        /// As the service said.
        body: Vec<u8>,
    },
    /// Not done.
    Refused {
        /// Why.
        class: Refusal,
        /// As the service said.
        status: u16,
        /// As the service said.
        body: Vec<u8>,
    },
    /// Provably not sent whole.
    NotSent,
    /// A time-out, a reset or a 5xx after sending.
    Unknown,
    /// Of a probe.
    Found(Found),
}

/// What a probe saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is there, under this id.
    Ours(String),
    /// Nothing like it.
    None,
    /// More than one.
    Several,
}

/// What a client hears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// What the first service said, in meta-ids.
    Service {
        /// As the service said.
        status: u16,
        /// With local ids; the engine rewrites them.
        body: Vec<u8>,
        /// The id to show.
        meta: Option<String>,
    },
    /// Safe on disk, will be run.
    Accepted,
    /// 503: nothing happened and nothing will.
    Unavailable(Problem),
    /// 504: may still happen; ask for the operation.
    OutcomeUnknown,
    /// 404: deleted, or never was.
    Gone,
    /// 404: a meta-id of this mesh that this site has no record of.
    UnknownReplicant,
    /// 409: what it touches was changed under another leader; parked.
    Conflict,
    /// 412: the log has moved on.
    PreconditionFailed,
    /// 422: another request with the same key.
    KeyReused,
    /// 410-like end of an operation that was given up before any site was called.
    Cancelled,
}

/// Why nothing happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Problem {
    /// This site may not order it, that one may.
    NotLeader(SiteName),
    /// No involved site can be reached.
    SiteUnreachable,
    /// A bound was met.
    Busy,
    /// The wait was over before it was its turn.
    TooLate,
    /// A majority is needed and is not heard.
    NoLease,
    /// This disk is being brought up to date.
    Recovering,
}
