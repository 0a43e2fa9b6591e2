//! Operations and what became of them: the words the protocol and its surroundings exchange.

use std::collections::BTreeMap;

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use crate::ids::{OperationId, Position, ReplicantId};

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
    /// Changes where it lives. Ordered like the others; no service is called for it.
    Rescope,
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
    /// What is left of its time. Once some site was called, only actions end by it.
    pub ttl_ms: Option<u64>,
    /// Runs only if the log ends there (412 else).
    pub expects: Option<Position>,
    /// Of a rescope: where it is to live.
    pub sites: Vec<SiteName>,
    /// Of a delete: the replicants below it that it means to take along. Others park it where it meets them.
    pub knows: Vec<ReplicantId>,
}

impl Operation {
    /// About how many bytes clients gave with it.
    pub(crate) fn weight(&self) -> usize {
        let fields = self.fields.iter();
        let written: usize = fields.map(|(field, value)| field.len() + value.len()).sum();
        self.rest.len() + written
    }

    /// One that writes nothing, may run once, has no end and no conditions.
    pub fn new(id: OperationId, replicant: ReplicantId, kind: Kind, origin: SiteName) -> Operation {
        Operation {
            id,
            replicant,
            kind,
            fields: Fields::new(),
            rest: Vec::new(),
            repeat: Repeat::Never,
            digest: 0,
            origin,
            ttl_ms: None,
            expects: None,
            sites: Vec::new(),
            knows: Vec::new(),
        }
    }
}

/// Who names a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Naming {
    /// Each site's service; clients see a meta-id of the same shape.
    Minted,
    /// The client: meta-id and every local id are the same. A service that has one by that name says
    /// [`Refusal::Taken`].
    Chosen(String),
    /// The service of the leading site has had it all along, under this id, and is not called for it.
    Adopted(String),
    /// The same where names are the client's: it is called so everywhere.
    Kept(String),
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
    /// Who names it, if this creates it.
    pub naming: Naming,
    /// What it lies below, if this creates it.
    pub parent: Option<ReplicantId>,
    /// What is shown of the resource (kind, scope, guarantee), if this creates it; not looked into.
    pub about: Vec<u8>,
    /// Drawn anew for every try of a client: a try that was answered 503 never runs, a later one may.
    pub attempt: u64,
    /// When to answer.
    pub mode: Mode,
}

impl Submission {
    /// A replica by hand-over by hand, doubt not settled, answered within `wait_ms`.
    pub fn new(op: Operation, sites: Vec<SiteName>, service: &str, wait_ms: u64) -> Submission {
        Submission {
            op,
            sites,
            service: service.to_string(),
            doubt: DoubtBy::Nothing,
            handover: Handover::ByHand,
            form: Form::Replica,
            naming: Naming::Minted,
            parent: None,
            about: Vec::new(),
            attempt: 0,
            mode: Mode::Wait(wait_ms),
        }
    }
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
    /// There is one by that name already; it is not overwritten.
    Taken,
    /// A delete met replicants below it that it did not know.
    Children,
}

/// Why a call was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// Its caller's credentials have lapsed, and nobody may renew them.
    Credentials,
    /// A replicant that it names has no local id here yet.
    Dependency,
    /// This site's operator lets no other site change anything here.
    Held,
    /// Its content is not on this site's disk yet.
    Blob,
}

impl Wait {
    /// As it stands in a stage and in a row, in place of what a service would have said.
    pub fn status(self) -> u16 {
        match self {
            Wait::Credentials => 401,
            Wait::Dependency => 424,
            Wait::Held => 423,
            // What no service says at the end.
            Wait::Blob => 102,
        }
    }
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
    /// Not sent at all, and not before something has changed. Tried again slowly, or when somebody says so.
    Waits(Wait),
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
    /// 409: the name that the client chose is taken.
    IdTaken,
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
