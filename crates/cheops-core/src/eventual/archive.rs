//! What lies on disk and not in memory: read when it is asked for. Who brings it is not the protocol's business.

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use crate::ids::{OperationId, ReplicantId};
use crate::operation::Operation;
use crate::record::Table;

/// Reads back what a site has written.
pub trait Archive: Send + Sync {
    /// The records of `table` whose keys begin with `prefix`, in key order, as the last commit left them. `None` if they
    /// cannot be read now: whoever owns the site drops it then, and starts again from the records.
    fn read(&self, table: Table, prefix: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>>;
}

/// What only the surroundings can tell of an operation or of a value.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// What a create makes, in the words of the API.
    pub kind: fn(&Operation) -> String,
    /// True if a value stands for a content that is kept elsewhere.
    pub is_content: fn(&str) -> bool,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            kind: |_| String::new(),
            is_content: |_| false,
        }
    }
}

/// Stands on disk beside every replicant: whether a start has to look at its record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// Something may be under way.
    Awake,
    /// Nothing is, and this is what has to be known of it until something is.
    Resting(Summary),
}

/// A replicant that is the same everywhere, in short. Every replica of it is there, and has applied everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Which API.
    pub service: String,
    /// What it is, in the words of that API.
    pub kind: String,
    /// The id that clients see.
    pub meta: String,
    /// What this site's service calls it.
    pub local: String,
    /// Who leads.
    pub leader: SiteName,
    /// Where it lives.
    pub sites: Vec<SiteName>,
    /// What it lies below.
    pub parent: Option<ReplicantId>,
    /// True if clients wrote a content that is kept elsewhere.
    pub has_content: bool,
    /// What its log still holds, besides the operation that made it.
    pub operations: Vec<OperationId>,
}

/// What resting replicants have in common with many others: kept once.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kin {
    /// Which API.
    pub service: String,
    /// Where they live.
    pub sites: Vec<SiteName>,
    /// Who leads.
    pub leader: SiteName,
    /// True if clients wrote a content that is kept elsewhere.
    pub has_content: bool,
}

impl Summary {
    pub(crate) fn kin(&self) -> Kin {
        Kin {
            service: self.service.clone(),
            sites: self.sites.clone(),
            leader: self.leader.clone(),
            has_content: self.has_content,
        }
    }
}
