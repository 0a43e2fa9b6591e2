//! What has to be known of one API; a page of TOML describes it.

use serde::Deserialize;

/// One API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
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
    /// A value of this API that is good at one site only.
    pub home: Option<Home>,
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
