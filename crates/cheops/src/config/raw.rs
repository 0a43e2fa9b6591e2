//! What is typed in a site's file. Nothing here is relied upon; see [`super::Config`].

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    pub(super) site: String,
    pub(super) data: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) parent: Option<String>,
    pub(super) threads: Option<usize>,
    #[serde(default)]
    pub(super) admin: RawAdmin,
    pub(super) mesh: Option<RawMesh>,
    #[serde(default)]
    pub(super) service: BTreeMap<String, RawService>,
    pub(super) shared: Option<RawListener>,
    pub(super) forward: Option<RawListener>,
    #[serde(default)]
    pub(super) clients: RawClients,
    #[serde(default)]
    pub(super) rule: Vec<RawRule>,
    #[serde(default)]
    pub(super) log: RawLog,
    #[serde(default)]
    pub(super) blobs: RawBlobs,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBlobs {
    pub(super) room: Option<String>,
    pub(super) rate: Option<String>,
    #[serde(default)]
    pub(super) compress: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAdmin {
    pub(super) listen: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMesh {
    pub(super) listen: Option<String>,
    pub(super) advertise: Option<String>,
    pub(super) identity: String,
    #[serde(default)]
    pub(super) join: Vec<String>,
    #[serde(default)]
    pub(super) routes: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) links: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawListener {
    pub(super) listen: String,
    pub(super) tls: Option<RawTls>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClients {
    pub(super) idle: Option<String>,
    pub(super) connections: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCalls {
    pub(super) concurrency: Option<u32>,
    pub(super) failures: Option<u32>,
    pub(super) pause: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawService {
    pub(super) listen: Option<String>,
    #[serde(default)]
    pub(super) hosts: Vec<String>,
    #[serde(default)]
    pub(super) paths: Vec<String>,
    pub(super) backend: OneOrMore,
    #[serde(default = "rest")]
    pub(super) profile: String,
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    #[serde(default = "yes")]
    pub(super) accept_scope: bool,
    pub(super) propagate: Option<Vec<String>>,
    pub(super) deadline: Option<String>,
    pub(super) connect: Option<String>,
    #[serde(default)]
    pub(super) local: RawCalls,
    #[serde(default)]
    pub(super) remote: RawCalls,
    pub(super) health: Option<String>,
    pub(super) tls: Option<RawTls>,
    pub(super) version: Option<String>,
    #[serde(default)]
    pub(super) default: RawDefault,
    pub(super) home: Option<RawHome>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHome {
    pub(super) trust: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTls {
    pub(super) cert: String,
    pub(super) key: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDefault {
    pub(super) guarantee: Option<String>,
    pub(super) queue_ttl: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    #[serde(default, rename = "match")]
    pub(super) matches: RawMatch,
    pub(super) scope: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMatch {
    pub(super) service: Option<String>,
    pub(super) method: Option<String>,
    pub(super) path: Option<String>,
    pub(super) header: Option<RawHeader>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHeader {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLog {
    #[serde(default)]
    pub(super) access: bool,
}

fn rest() -> String {
    "rest".to_owned()
}

fn yes() -> bool {
    true
}
