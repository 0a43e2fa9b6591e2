//! What a request is: method × path → meaning. Nothing is allocated; every request comes by here.

use cheops_model::profile::{CallKind, CreateBy};

use crate::api::Api;
use crate::id::{Id, Place, looks_like_one};
use crate::pattern::{Fit, Segments};
use crate::rules::{Rule, Sub};
use crate::url::percent_decoded;

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
        let path = target.split('?').next().unwrap_or_default();
        let Some(segments) = Segments::of(path) else {
            return Meaning::Other;
        };
        match self.fitting(&segments) {
            Some((rule, fit)) => described(method, &segments, rule, fit),
            None if self.guess => self.guessed(method, &segments, known),
            None => Meaning::Other,
        }
    }

    /// The collection that takes up most of the path.
    pub(crate) fn fitting(&self, segments: &Segments<'_>) -> Option<(&Rule, Fit)> {
        let mut best: Option<(&Rule, Fit)> = None;
        for rule in &self.rules {
            let fit = rule
                .pattern
                .as_ref()
                .and_then(|pattern| pattern.begins(segments, 0));
            if let Some(fit) = fit
                && best.is_none_or(|(_, most)| most.taken < fit.taken)
            {
                best = Some((rule, fit));
            }
        }
        best
    }

    fn guessed<'a>(
        &'a self,
        method: &str,
        segments: &Segments<'a>,
        known: impl Fn(&Id<'_>) -> bool,
    ) -> Meaning<'a> {
        let is_id = |at: &usize| is_id(segments, *at, &known);
        let count = segments.len();
        let found = (1..count).rev().find(is_id);
        let spot = |id: usize| Spot {
            collection: segments.head(id),
            kind: segments.get(id - 1),
            parent: (1..id)
                .rev()
                .find(is_id)
                .map(|at| (segments.get(at - 1), segments.get(at))),
        };
        let item = |id: usize| {
            let sub = segments.tail(id + 1);
            on_item(
                method,
                spot(id),
                segments.get(id),
                sub,
                &self.unwritten,
                None,
            )
        };
        match (found, method) {
            (Some(id), _) => item(id),
            (None, _) if count == 0 => Meaning::Other,
            (None, "GET" | "HEAD") => Meaning::List(spot(count)),
            (None, "POST") => Meaning::Create {
                spot: spot(count),
                chosen: None,
            },
            (None, "PUT" | "PATCH" | "DELETE") if count > 1 => item(count - 1),
            (None, _) => Meaning::Other,
        }
    }
}

fn is_id(segments: &Segments<'_>, at: usize, known: impl Fn(&Id<'_>) -> bool) -> bool {
    let segment = segments.get(at);
    looks_like_one(segment)
        || known(&Id {
            text: percent_decoded(segment),
            kind: Some(segments.get(at - 1)),
            place: Place::Path,
        })
}

fn described<'a>(method: &str, segments: &Segments<'a>, rule: &'a Rule, fit: Fit) -> Meaning<'a> {
    let parent = rule
        .pattern
        .as_ref()
        .and_then(|pattern| pattern.parents(fit).next_back());
    let spot = Spot {
        collection: segments.head(fit.taken),
        kind: &rule.kind,
        parent: parent.map(|at| (segments.get(at.saturating_sub(1)), segments.get(at))),
    };
    if segments.len() > fit.taken {
        let below = fit.taken + 1;
        let sub = rule
            .subs
            .iter()
            .find(|sub| sub.means(method, segments, below));
        let (spot, id) = match rule.id_from {
            Some(from) => {
                let collection = segments.head(from);
                let id = segments.span(from, fit.taken);
                (Spot { collection, ..spot }, id)
            }
            None => (spot, segments.get(fit.taken)),
        };
        return on_item(method, spot, id, segments.tail(below), rule, sub);
    }
    match (method, rule.create) {
        ("GET" | "HEAD", _) => Meaning::List(spot),
        ("POST", CreateBy::Post | CreateBy::Either) => Meaning::Create { spot, chosen: None },
        _ => Meaning::Other,
    }
}

impl Sub {
    fn means(&self, method: &str, segments: &Segments<'_>, below: usize) -> bool {
        let changes = !matches!(method, "GET" | "HEAD" | "OPTIONS");
        let named = if self.methods.is_empty() {
            changes
        } else {
            self.methods.iter().any(|each| each == method)
        };
        named
            && segments.len() > below
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is(segments, below))
    }
}

fn on_item<'a>(
    method: &str,
    spot: Spot<'a>,
    id: &'a str,
    sub: &'a str,
    rule: &Rule,
    said: Option<&Sub>,
) -> Meaning<'a> {
    let repeatable = matches!(method, "GET" | "HEAD" | "PUT" | "DELETE")
        || (sub.is_empty() && rule.writes_plainly(method))
        || said.is_some_and(|said| said.idempotent);
    let item = Item {
        spot,
        id,
        sub,
        repeatable,
    };
    let absent = match rule.create {
        CreateBy::Put | CreateBy::Either if method == "PUT" && sub.is_empty() => Absent::Made,
        _ => Absent::Refused,
    };
    let posted = || rule.updates.iter().any(|way| way.method == "POST") && sub.is_empty();
    let call = match (said, method) {
        (Some(said), _) => said.is,
        (None, "GET" | "HEAD") => CallKind::Read,
        (None, "PUT" | "PATCH") => CallKind::Update,
        (None, "DELETE") if sub.is_empty() => CallKind::Delete,
        (None, "POST") if posted() => CallKind::Update,
        (None, "POST" | "DELETE") => CallKind::Action,
        (None, _) => CallKind::Other,
    };
    match call {
        CallKind::Read => Meaning::Read(item),
        CallKind::Update => Meaning::Update { item, absent },
        CallKind::Delete => Meaning::Delete(item),
        CallKind::Action => Meaning::Action(item),
        CallKind::Create | CallKind::Other => Meaning::Other,
    }
}
