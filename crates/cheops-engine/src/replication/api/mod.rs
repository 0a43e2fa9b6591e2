//! What is told of replicants and their operations, to operators (`/v1`) and to whoever made a
//! request (`/.cheops/v1`), and what operators may decide. The words are part of the contract.

mod adopt;
mod backlog;
mod diff;
mod metrics;
mod operations;
mod orders;
mod page;
mod resources;
mod why;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use cheops_core::operation::Kind;
use cheops_model::SiteName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use adopt::{Adoption, AdoptionPlan};
pub use diff::{AskSite, Diff, Difference, Question, Said, SiteAnswer};
pub(super) use metrics::Counters;
pub use operations::{NotRetried, OperationFilter};
pub use orders::{CURRENT, Move, NotDone};
pub use page::{List, Page};
pub use resources::{How, Lookup, NotMended, ResourceFilter};
pub use why::{Reason, Reasons};

use super::wire::{self, Asked};

/// One resource that lives on several sites. Unknown is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// What clients call it.
    pub id: String,
    /// Which API.
    pub service: String,
    /// What it is, in the words of the profile.
    pub kind: String,
    /// `replica`.
    pub form: String,
    /// As in the plan of a scope.
    pub guarantee: Value,
    /// Who orders its operations.
    pub leader: SiteName,
    /// How often that has changed, from 1.
    pub epoch: u64,
    /// The scope it was made with, or where it was told to live since.
    pub scope: Option<String>,
    /// When it was asked for.
    pub created: Option<String>,
    /// The newest position that is known here.
    pub position: u64,
    /// True if every site has applied everything, as far as is known here.
    pub converged: bool,
    /// True if clients have deleted it.
    pub deleted: bool,
    /// Conflicts nobody has resolved.
    pub conflicts: usize,
    /// By site.
    pub replicas: BTreeMap<SiteName, Replica>,
}

/// A resource on one site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// What the service there calls it.
    pub local_id: Option<String>,
    /// `pending`, `live`, `diverged`, `in-doubt`, `deleted`.
    pub state: String,
    /// Everything up to here is done there.
    pub position: u64,
    /// What holds it up.
    pub waiting: Option<String>,
}

/// One mutating request, and how far it is. Unknown is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationItem {
    /// 32 hex digits.
    pub id: String,
    /// What it is about, as clients call it.
    pub resource: Option<String>,
    /// Which API.
    pub service: Option<String>,
    /// `create`, `update`, `delete`, `action`, `rescope`.
    pub kind: Option<String>,
    /// As it was asked for.
    pub method: Option<String>,
    /// Path and query, in the ids that clients see.
    pub path: Option<String>,
    /// When it was asked for.
    pub created: Option<String>,
    /// When it is too late to run it.
    pub expires: Option<String>,
    /// Its place in the order.
    pub position: Option<u64>,
    /// The content that is its body, if that is too long for a log.
    pub content: Option<ContentItem>,
    /// By site.
    pub sites: BTreeMap<SiteName, SiteStep>,
}

/// A content, in an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentItem {
    /// Its hash, once it is whole.
    pub hash: Option<String>,
    /// Its length, once it is whole.
    pub bytes: Option<u64>,
}

/// How far an operation is on one site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteStep {
    /// `prepared`, `queued`, `sent`, `applied`, `covered`, `held`, `refused`, `waiting`, `in-doubt`,
    /// `expired`, `void`, `cancelled`.
    pub state: String,
    /// As the service there said.
    pub status: Option<u16>,
    /// Calls so far.
    pub attempts: Option<u32>,
    /// When it is tried again.
    pub next_try: Option<String>,
    /// Why it is not done.
    pub error: Option<String>,
    /// How much of its content is there, as far as this site knows.
    pub received: Option<u64>,
}

/// Something a deposed leader had accepted, and whose fields were changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Of its operation.
    pub id: String,
    /// What it is about.
    pub resource: Option<String>,
    /// Which API.
    pub service: String,
    /// `update`, …
    pub kind: String,
    /// As it was asked for.
    pub method: Option<String>,
    /// Path and query, in the ids that clients see.
    pub path: Option<String>,
    /// When it was asked for.
    pub created: Option<String>,
    /// Where it entered.
    pub origin: SiteName,
    /// The fields it would write.
    pub fields: Vec<String>,
    /// What may be taken.
    pub versions: Vec<ConflictVersion>,
}

/// One way to resolve a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictVersion {
    /// What to `take`: `current`, or the id of the operation.
    pub version: String,
    /// Who wrote it: the site where the operation entered, or the one that leads.
    pub site: SiteName,
    /// Of the fields in question; null where there is none.
    pub values: BTreeMap<String, Value>,
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Create => "create",
        Kind::Update => "update",
        Kind::Delete => "delete",
        Kind::Action => "action",
        Kind::Rescope => "rescope",
    }
}

fn asked(op: &cheops_core::Operation) -> Option<Asked> {
    wire::decode(&op.rest)
}

/// RFC 3339, of milliseconds since 1970.
fn rfc3339(unix_ms: u64) -> Option<String> {
    crate::api::rfc3339(SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms))?)
}
