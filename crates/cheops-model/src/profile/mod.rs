//! What has to be known of one API; a page of TOML describes it.
//!
//! This is what was typed. `cheops-rest` checks it and makes it usable; a key that is left out has the
//! meaning that its documentation there gives, so that a name alone is a whole profile.

mod collection;
mod ids;

pub use collection::{
    CallKind, Chosen, Collection, CreateBy, Given, MarkRule, MatchRule, NeedsRule, ReadyRule,
    RefusalClass, RefusalRule, SubRule, UpdateForm, UpdateRule,
};
pub use ids::{IdRules, Reach};

use serde::Deserialize;

/// One API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is called in configurations.
    pub name: String,
    /// How a scope follows the workflow through the service.
    #[serde(default)]
    pub propagate: Vec<String>,
    /// Status codes that mean *no room now*.
    #[serde(default)]
    pub no_room: Vec<u16>,
    /// Status codes that mean *not ready, try again*, besides 408, 409, 423 and 425.
    #[serde(default)]
    pub not_ready: Vec<u16>,
    /// Refusals that status codes alone do not tell apart; the first that fits counts.
    #[serde(default, rename = "refusal")]
    pub refusals: Vec<RefusalRule>,
    /// Where ids stand.
    #[serde(default)]
    pub ids: IdRules,
    /// What the API manages. The first whose path fits counts.
    #[serde(default, rename = "collection")]
    pub collections: Vec<Collection>,
    /// Whether paths that fit no collection are guessed at; if not they are nobody's business. Guessed
    /// at by default where no collection is named.
    pub guess: Option<bool>,
    /// Members that are the site's own: never written, not compared. Names, `*` at either end.
    pub own: Option<Vec<String>>,
    /// Members and headers that hold a version of the resource, different on every site.
    pub versions: Option<Vec<String>>,
    /// Headers that show who asks: kept encrypted, never logged.
    pub credentials: Option<Vec<String>>,
    /// Where the service says which API it speaks: a path, and where in the answer.
    pub version: Option<VersionProbe>,
    /// A value of this API that is good at one site only.
    pub home: Option<Home>,
}

/// How to ask a service which version of its API it speaks. Sites that differ do not share resources.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionProbe {
    /// Asked by GET.
    pub path: String,
    /// A JSON pointer into the answer; or
    pub pointer: Option<String>,
    /// a header of it.
    pub header: Option<String>,
    /// Whether sites may differ all the same.
    #[serde(default)]
    pub may_differ: bool,
}

/// A value, such as a token, that is good at the site that minted it: its *home*.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Home {
    /// The requests that mint one, and the header of the answer that names it.
    pub minted: Naming,
    /// The headers that show one to any service.
    pub shown: Vec<String>,
    /// The requests about one that its home has to answer, and their header that names it.
    pub asked: Naming,
    /// The header that is replaced by the value itself in what is asked at its home.
    pub replace: String,
    /// What whoever asks is told in place of a 401 of the home. That one speaks of the value; here it
    /// would speak of the asker's own credentials, which were not sent.
    pub refused: u16,
}

/// Some requests, and a header that names a value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Naming {
    /// Their methods.
    pub methods: Vec<String>,
    /// What their path ends with.
    pub path: String,
    /// The header.
    pub header: String,
}
