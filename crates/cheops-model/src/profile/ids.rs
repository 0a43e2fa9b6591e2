//! Where ids stand in requests and answers.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Where ids stand. What is left out is as in `rest`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdRules {
    /// Members that hold an object's own id; the first that is present counts.
    pub fields: Option<Vec<String>>,
    /// Members and query keys that hold the id of another resource, each with the kind of that resource.
    /// Names may have `*` at one end; a kind of `*` is what it stood for.
    pub refs: Option<BTreeMap<String, String>>,
    /// Members that hold a URL with ids in it, or objects and lists of such. Names, `*` at one end.
    pub links: Option<Vec<String>>,
    /// Headers that hold an id or a URL with ids in it.
    pub headers: Option<Vec<String>>,
    /// Query keys that hold an id of the collection that is asked.
    pub query: Option<Vec<String>>,
    /// How far ids are looked for beyond these places.
    #[serde(default)]
    pub reach: Reach,
}

/// How far ids are looked for beyond the places that are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Every whole text value that looks like a UUID, 32 hex digits, or a name that agents make.
    #[default]
    Unmistakable,
    /// Nowhere else.
    Named,
}
