//! A site's configuration: typed (`Raw…`) → checked ([`Config`]), every fault naming its key.

mod blobs;
mod calls;
mod environment;
mod listeners;
mod profile;
mod raw;
mod service;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use cheops_engine::replication::BlobSettings;
use cheops_model::{Labels, ServiceName, SiteName};
use cheops_proxy::{ClientLimits, ListenerConfig, Rule, RuleMatch};

use raw::{RawConfig, RawMatch, RawMesh, RawRule};
pub(crate) use service::{Backend, ServiceSettings};

/// What the agent relies on.
pub(crate) struct Config {
    pub(crate) site: SiteName,
    pub(crate) data: PathBuf,
    pub(crate) labels: Labels,
    pub(crate) parent: Option<SiteName>,
    pub(crate) threads: NonZeroUsize,
    pub(crate) admin: SocketAddr,
    pub(crate) mesh: MeshSettings,
    pub(crate) services: Vec<ServiceSettings>,
    pub(crate) listeners: Vec<ListenerConfig>,
    pub(crate) clients: ClientLimits,
    pub(crate) rules: Vec<Rule>,
    pub(crate) access_log: bool,
    pub(crate) blobs: BlobSettings,
}

/// How this agent meets others.
pub(crate) struct MeshSettings {
    pub(crate) listen: SocketAddr,
    pub(crate) advertise: String,
    pub(crate) identity: PathBuf,
    pub(crate) join: Vec<String>,
    pub(crate) routes: BTreeMap<SiteName, String>,
    pub(crate) links: Vec<SiteName>,
}

const DEFAULT_MESH: &str = "0.0.0.0:7700";

impl Config {
    /// Reads and checks a file, with the environment over it.
    pub(crate) fn load(file: &Path) -> anyhow::Result<Config> {
        let name = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        Config::read(&text, &environment::variables()).with_context(|| format!("{name}"))
    }

    fn read(text: &str, variables: &[(String, String)]) -> anyhow::Result<Config> {
        // Read as it stands first: its own faults come with a line and a column.
        let _: RawConfig =
            toml::from_str(text).or_else(|fault| match toml::from_str::<toml::Table>(text) {
                Ok(mut table) => {
                    environment::overlay(&mut table, variables);
                    table
                        .try_into::<RawConfig>()
                        .map_err(|_| anyhow!("{}", fault.to_string().trim()))
                }
                Err(fault) => Err(anyhow!("{}", fault.to_string().trim())),
            })?;
        let mut table: toml::Table = toml::from_str(text)?;
        environment::overlay(&mut table, variables);
        let raw: RawConfig = table.try_into().map_err(|fault| anyhow!("{fault}"))?;
        check(raw)
    }
}

fn check(raw: RawConfig) -> anyhow::Result<Config> {
    let Some(raw_mesh) = raw.mesh else {
        bail!("section `[mesh]` is missing: `identity` names the folder made by `cheops init`");
    };
    let services: Vec<ServiceSettings> = raw
        .service
        .into_iter()
        .map(|(name, service)| service::check(&name, service))
        .collect::<anyhow::Result<_>>()?;
    names_once(&services)?;
    let mesh = check_mesh(raw_mesh)?;
    let admin = raw
        .admin
        .listen
        .as_deref()
        .unwrap_or(cheops_control::client::DEFAULT_ADMIN);
    let admin = address(admin, "admin.listen")?;
    if !admin.ip().is_loopback() {
        bail!("key `admin.listen`: {admin} is not a loopback address, and nothing guards it there");
    }
    calls::reachable(&services, raw.shared.is_some(), raw.forward.is_some())?;
    let listeners = listeners::check(&services, raw.shared, raw.forward)?;
    listeners::once(&listeners, &mesh, admin)?;
    let rules = raw
        .rule
        .into_iter()
        .enumerate()
        .map(|(place, rule)| check_rule(place, rule));
    Ok(Config {
        site: site(&raw.site, "site")?,
        data: PathBuf::from(raw.data),
        labels: Labels(raw.labels),
        parent: raw
            .parent
            .map(|parent| site(&parent, "parent"))
            .transpose()?,
        threads: threads(raw.threads)?,
        admin,
        mesh,
        services,
        listeners,
        clients: listeners::clients(&raw.clients).context("key `clients`")?,
        rules: rules.collect::<anyhow::Result<_>>()?,
        access_log: raw.log.access,
        blobs: blobs::check(&raw.blobs)?,
    })
}

fn check_mesh(raw: RawMesh) -> anyhow::Result<MeshSettings> {
    let listen = address(raw.listen.as_deref().unwrap_or(DEFAULT_MESH), "mesh.listen")?;
    let mut routes = BTreeMap::new();
    for (name, address) in raw.routes {
        host_and_port(&address, &format!("mesh.routes.{name}"))?;
        routes.insert(site(&name, "mesh.routes")?, address);
    }
    let links = raw.links.iter().map(|name| site(name, "mesh.links"));
    let links = links.collect::<anyhow::Result<Vec<_>>>()?;
    for address in &raw.join {
        host_and_port(address, "mesh.join")?;
    }
    if let Some(address) = &raw.advertise {
        host_and_port(address, "mesh.advertise")?;
    }
    Ok(MeshSettings {
        listen,
        advertise: raw.advertise.unwrap_or_else(|| listen.to_string()),
        identity: PathBuf::from(raw.identity),
        join: raw.join,
        routes,
        links,
    })
}

fn threads(raw: Option<usize>) -> anyhow::Result<NonZeroUsize> {
    match raw {
        None => Ok(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
        Some(count @ 1..=256) => Ok(NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)),
        Some(count) => bail!("key `threads`: {count} is not between 1 and 256"),
    }
}

fn names_once(services: &[ServiceSettings]) -> anyhow::Result<()> {
    let mut seen: Vec<&ServiceName> = Vec::new();
    for service in services {
        for name in std::iter::once(&service.name).chain(&service.aliases) {
            if seen.contains(&name) {
                bail!(
                    "key `service.{}`: `{name}` is the name of two services",
                    service.name
                );
            }
            seen.push(name);
        }
    }
    Ok(())
}

fn check_rule(place: usize, raw: RawRule) -> anyhow::Result<Rule> {
    let key = format!("rule[{place}]");
    let scope = cheops_scope::parse(&raw.scope)
        .and_then(|scope| scope.check())
        .map_err(|error| anyhow!("key `{key}.scope`: {error}"))?;
    let matches = check_match(raw.matches).with_context(|| format!("key `{key}.match`"))?;
    Ok(Rule {
        matches,
        scope: scope.scope().to_string(),
    })
}

fn check_match(raw: RawMatch) -> anyhow::Result<RuleMatch> {
    Ok(RuleMatch {
        service: raw
            .service
            .map(|name| ServiceName::new(&name))
            .transpose()?,
        method: raw.method.map(|method| method.parse()).transpose()?,
        path_prefix: raw.path,
        header: raw
            .header
            .map(|h| anyhow::Ok((h.name.parse()?, h.value)))
            .transpose()?,
    })
}

fn site(name: &str, key: &str) -> anyhow::Result<SiteName> {
    SiteName::new(name).with_context(|| format!("key `{key}`: {name:?}"))
}

fn address(text: &str, key: &str) -> anyhow::Result<SocketAddr> {
    let wanted = "an address and a port, such as 127.0.0.1:9201";
    text.parse()
        .map_err(|_| anyhow!("key `{key}`: {text:?} is not {wanted}"))
}

/// A name will do for what is dialled.
fn host_and_port(text: &str, key: &str) -> anyhow::Result<()> {
    cheops_engine::mesh::check_address(text).with_context(|| format!("key `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        site = "DC 1"
        data = "data"
        labels = { region = "west" }
        [admin]
        listen = "127.0.0.1:8701"
        [mesh]
        listen = "127.0.0.1:7701"
        identity = "mesh/DC 1"
        join = ["127.0.0.1:7702"]
        [service.image]
        listen = "127.0.0.1:9201"
        backend = "http://127.0.0.1:9101"
        aliases = ["glance"]
        deadline = "5s"
        propagate = ["header", "correlate:X-Request-Id"]
        [service.compute]
        listen = "127.0.0.1:9202"
        backend = ["http://localhost:9102", "http://localhost:9103"]
        [[rule]]
        match = { service = "image", method = "GET", path = "/v2" }
        scope = "image: site1; site2"
    "#;

    fn fault(from: &str, to: &str) -> String {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "{from} is not in the example");
        match Config::read(&text, &[]) {
            Ok(_) => panic!("accepted: {to}"),
            Err(fault) => format!("{fault:#}"),
        }
    }

    #[test]
    fn a_whole_file_is_read() {
        let config = Config::read(GOOD, &[]).unwrap();
        assert_eq!(config.site.as_str(), "DC 1");
        assert_eq!(config.mesh.advertise, "127.0.0.1:7701");
        assert_eq!(config.services.len(), 2);
        assert_eq!(config.rules[0].scope, "image: site1; site2");
    }

    #[test]
    fn every_fault_names_its_key() {
        let cases = [
            ("data = ", "date = ", "date"),
            ("\"127.0.0.1:8701\"", "\"nonsense\"", "admin.listen"),
            ("\"127.0.0.1:8701\"", "\"0.0.0.0:8701\"", "admin.listen"),
            (
                "\"127.0.0.1:9202\"",
                "\"127.0.0.1:9201\"",
                "service.image.listen",
            ),
            ("[\"glance\"]", "[\"COMPUTE\"]", "two services"),
            ("\"5s\"", "\"soon\"", "service.image.deadline"),
            ("\"header\"", "\"pigeon\"", "service.image.propagate"),
            (
                "http://127.0.0.1:9101",
                "https://127.0.0.1:9101",
                "service.image.backend",
            ),
            (
                "http://127.0.0.1:9101",
                "http://127.0.0.1:9101/v2",
                "service.image.backend",
            ),
            ("\"DC 1\"\n        data", "\"DC/1\"\n        data", "site"),
            ("image: site1; site2", "image: site1 &", "rule[0].scope"),
            ("\"GET\"", "\"G E T\"", "rule[0].match"),
            ("[mesh]", "threads = 0\n        [mesh]", "threads"),
            ("aliases", "alias", "alias"),
            ("[mesh]", "[blobs]\nroom = \"5GB\"\n[mesh]", "blobs.room"),
            ("[mesh]", "[blobs]\nrate = \"0\"\n[mesh]", "blobs.rate"),
            (
                "deadline = \"5s\"",
                "home = { trust = [] }",
                "service.image.home",
            ),
        ];
        for (from, to, key) in cases {
            let fault = fault(from, to);
            assert!(fault.contains(key), "{to}: {fault}");
        }
    }
}
