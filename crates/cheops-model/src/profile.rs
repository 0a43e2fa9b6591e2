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
}
