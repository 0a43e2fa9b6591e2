//! Was a create done? The question to ask the service, and how its answers are read.

use crate::api::Api;
use crate::fields::Fields;

/// How doubt about a create is settled. As in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtBy {
    /// By our operation id in the resource.
    Mark,
    /// By what it has.
    Match,
    /// Not at all.
    Nothing,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is there, under this local id.
    Ours(String),
    /// It is not.
    None,
    /// More than one may be it, or there are more than can be looked at.
    Several,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// GET this, and hand its answer in.
    Ask(String),
    /// That is all.
    Done(Found),
}

/// A search under way. Answers are handed in one by one, in the same form as the fields.
#[derive(Clone, Debug)]
pub struct Search {
    ask: String,
}

impl Api {
    /// How doubt about a create of that kind is settled.
    pub fn doubt_by(&self, kind: &str) -> DoubtBy {
        let _ = kind;
        DoubtBy::Match
    }

    /// Begins to look for a create with these fields, made by this operation.
    pub fn search(
        &self,
        how: DoubtBy,
        kind: &str,
        collection: &str,
        fields: &Fields,
        operation: &str,
    ) -> Search {
        let _ = (how, kind, fields, operation);
        Search {
            ask: collection.to_owned(),
        }
    }

    /// True if a resource, as GET of it answers, still has all of these fields.
    pub fn still_has(&self, kind: &str, body: &[u8], fields: &Fields) -> bool {
        let _ = (kind, body, fields);
        false
    }
}

impl Search {
    /// What to GET first.
    pub fn ask(&self) -> &str {
        &self.ask
    }

    /// Reads an answer of status 200. `mapped`: is this id one of a replicant already?
    pub fn read(&mut self, api: &Api, body: &[u8], mapped: impl Fn(&str) -> bool) -> Step {
        let _ = (api, body, mapped);
        Step::Done(Found::Several)
    }
}
