//! What a request is: method × path → meaning. Nothing is allocated; every request comes by here.

use cheops_model::profile::CallKind;

use crate::api::Api;
use crate::id::Id;

/// What a request means to the resources of its API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning<'a> {
    /// Nothing we know of: pass it on.
    Other,
    /// Lists a collection.
    List(Spot<'a>),
    /// Reads a resource, or something below it.
    Read(Item<'a>),
    /// Makes a resource.
    Create {
        /// Where.
        spot: Spot<'a>,
        /// The id the client chose, if it is in the path; as it stands there.
        chosen: Option<&'a str>,
    },
    /// Writes a resource or something below it.
    Update {
        /// Which.
        item: Item<'a>,
        /// What the service does if there is none.
        absent: Absent,
    },
    /// Removes it, or something below it.
    Delete(Item<'a>),
    /// Anything else done to it.
    Action(Item<'a>),
}

/// What an update does to a resource that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The service refuses.
    Refused,
    /// The service may make it, with this id (PUT of an item).
    Made,
}

/// A collection, as a path names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot<'a> {
    /// The path up to and without the id: `/v2/images`.
    pub collection: &'a str,
    /// Of the profile, or the last segment of the collection.
    pub kind: &'a str,
    /// The nearest resource above: its kind, and its id as it stands in the path.
    pub parent: Option<(&'a str, &'a str)>,
}

/// A resource, as a path names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Where it is.
    pub spot: Spot<'a>,
    /// Its id as it stands in the path, percent signs and all.
    pub id: &'a str,
    /// What stands below it: `file`, or nothing.
    pub sub: &'a str,
    /// True if method or profile allow it to be done twice.
    pub repeatable: bool,
}

impl<'a> Meaning<'a> {
    /// The resource, if it names one.
    pub fn item(&self) -> Option<&Item<'a>> {
        match self {
            Meaning::Read(item)
            | Meaning::Update { item, .. }
            | Meaning::Delete(item)
            | Meaning::Action(item) => Some(item),
            Meaning::Other | Meaning::List(_) | Meaning::Create { .. } => None,
        }
    }

    /// The collection, unless it is `Other`.
    pub fn spot(&self) -> Option<&Spot<'a>> {
        match self {
            Meaning::Other => None,
            Meaning::List(spot) | Meaning::Create { spot, .. } => Some(spot),
            Meaning::Read(item)
            | Meaning::Update { item, .. }
            | Meaning::Delete(item)
            | Meaning::Action(item) => Some(&item.spot),
        }
    }

    /// In one word.
    pub fn call(&self) -> CallKind {
        match self {
            Meaning::Other => CallKind::Other,
            Meaning::List(_) | Meaning::Read(_) => CallKind::Read,
            Meaning::Create { .. } => CallKind::Create,
            Meaning::Update { .. } => CallKind::Update,
            Meaning::Delete(_) => CallKind::Delete,
            Meaning::Action(_) => CallKind::Action,
        }
    }
}

impl Api {
    /// What a request means. `target` is its path, with or without a query.
    pub fn classify<'a>(&'a self, method: &str, target: &'a str) -> Meaning<'a> {
        self.classify_knowing(method, target, |_| false)
    }

    /// The same, where a segment that looks like no id is one if `known` says so. It is asked only of
    /// paths that no collection of the profile fits.
    pub fn classify_knowing<'a>(
        &'a self,
        method: &str,
        target: &'a str,
        known: impl Fn(&Id<'_>) -> bool,
    ) -> Meaning<'a> {
        let _ = (method, target, known);
        Meaning::Other
    }
}
