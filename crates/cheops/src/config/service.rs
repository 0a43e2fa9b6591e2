//! One service of a site.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cheops_model::duration::parse_duration;
use cheops_model::{Guarantee, Home, ServiceName};
use cheops_proxy::{CallLimits, Carrier, Claim, HomeRules, Naming, limits};
use cheops_rest::Api;
use http::{HeaderName, Method, StatusCode, Uri};

use super::raw::{OneOrMore, RawDefault, RawHome, RawService};
use super::{address, calls, listeners, profile, site};

/// What the agent relies on of one service.
pub(crate) struct ServiceSettings {
    pub(crate) name: ServiceName,
    pub(crate) aliases: Vec<ServiceName>,
    /// Its own listener, if it has one.
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) claim: Claim,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) backend: Backend,
    pub(crate) accept_scope: bool,
    pub(crate) carriers: Vec<Carrier>,
    pub(crate) deadline: Duration,
    pub(crate) queue_ttl: Duration,
    pub(crate) connect: Duration,
    pub(crate) local: CallLimits,
    pub(crate) remote: CallLimits,
    pub(crate) default: Guarantee,
    pub(crate) no_room: Vec<StatusCode>,
    pub(crate) health: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) home: Option<HomeRules>,
    pub(crate) api: Arc<Api>,
}

/// Where the service itself is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// Addresses as written.
    Addresses(Vec<SocketAddr>),
    /// `host:port` names to look up.
    Names(Vec<String>),
}

const DEADLINE: Duration = Duration::from_secs(60);

/// What waits for one site is wanted today, not next week.
const QUEUE_TTL: Duration = Duration::from_secs(24 * 3_600);

pub(super) fn check(name: &str, raw: RawService) -> anyhow::Result<ServiceSettings> {
    let key = |part: &str| format!("key `service.{name}.{part}`");
    let service = |name: &str| ServiceName::new(name).with_context(|| format!("{name:?}"));
    let profile = profile::load(&raw.profile).with_context(|| key("profile"))?;
    let api = Api::compile(&profile).with_context(|| key("profile"))?;
    let propagate = raw.propagate.unwrap_or(profile.propagate);
    let carriers: Result<Vec<Carrier>, _> = propagate.iter().map(|text| text.parse()).collect();
    let no_room: Result<Vec<_>, _> = profile
        .no_room
        .iter()
        .map(|c| StatusCode::from_u16(*c))
        .collect();
    let aliases: anyhow::Result<Vec<_>> = raw.aliases.iter().map(|alias| service(alias)).collect();
    let deadline = time(raw.deadline.as_deref(), DEADLINE).with_context(|| key("deadline"))?;
    let connect = time(raw.connect.as_deref(), limits::CONNECT_TIME);
    if raw
        .health
        .as_ref()
        .is_some_and(|path| !path.starts_with('/'))
    {
        bail!("{}: a path begins with `/`", key("health"));
    }
    let tls = listeners::tls(raw.tls);
    let said = profile.home.map(|said| home_rules(&said)).transpose();
    let said = said.with_context(|| key("profile"))?;
    let home = raw.home.map(|raw| home(raw, said)).transpose();
    let listen = raw.listen.as_deref();
    let listen = listen.map(|text| address(text, &format!("service.{name}.listen")));
    let (name, aliases) = (
        service(name).context("key `service`")?,
        aliases.with_context(|| key("aliases"))?,
    );
    let backend = backend(raw.backend).with_context(|| key("backend"))?;
    let claim = calls::claim(&name, &aliases, &raw.hosts, &raw.paths, &backend);
    let (local, remote) = (calls::local(&raw.local), calls::remote(&raw.remote));
    Ok(ServiceSettings {
        listen: listen.transpose()?,
        claim: claim.with_context(|| key("hosts` or `paths"))?,
        tls: tls.with_context(|| key("tls"))?,
        backend,
        accept_scope: raw.accept_scope,
        carriers: carriers.with_context(|| key("propagate"))?,
        deadline,
        queue_ttl: time(raw.default.queue_ttl.as_deref(), QUEUE_TTL)
            .with_context(|| key("default.queue_ttl"))?,
        connect: connect.with_context(|| key("connect"))?,
        local: local.with_context(|| key("local"))?,
        remote: remote.with_context(|| key("remote"))?,
        default: guarantee(&raw.default).with_context(|| key("default"))?,
        no_room: no_room.with_context(|| key("profile"))?,
        health: raw.health,
        version: raw.version,
        home: home.with_context(|| key("home"))?,
        api: Arc::new(api),
        name,
        aliases,
    })
}

fn home(raw: RawHome, said: Option<HomeRules>) -> anyhow::Result<HomeRules> {
    let Some(rules) = said else {
        bail!("its profile names no value that has a home");
    };
    let trust = raw.trust.iter().map(|name| site(name, "trust"));
    Ok(HomeRules {
        trust: trust.collect::<anyhow::Result<_>>()?,
        ..rules
    })
}

fn home_rules(said: &Home) -> anyhow::Result<HomeRules> {
    let header = |name: &String| -> anyhow::Result<HeaderName> {
        name.parse().with_context(|| format!("`home`: {name:?}"))
    };
    let naming = |said: &cheops_model::Naming| -> anyhow::Result<Naming> {
        let methods = said.methods.iter().map(|name| name.parse::<Method>());
        Ok(Naming {
            methods: methods.collect::<Result<_, _>>().context("`home`")?,
            path: said.path.clone(),
            header: header(&said.header)?,
        })
    };
    Ok(HomeRules {
        minted: naming(&said.minted)?,
        shown: said
            .shown
            .iter()
            .map(header)
            .collect::<anyhow::Result<_>>()?,
        asked: naming(&said.asked)?,
        replace: header(&said.replace)?,
        refused: StatusCode::from_u16(said.refused).context("`home.refused`")?,
        trust: Vec::new(),
    })
}

/// A time that may be left out.
pub(super) fn time(text: Option<&str>, otherwise: Duration) -> anyhow::Result<Duration> {
    text.map_or(Ok(otherwise), duration)
}

fn duration(text: &str) -> anyhow::Result<Duration> {
    let read = parse_duration(text).filter(|value| !value.is_zero());
    read.ok_or_else(|| anyhow!("{text:?} is not a duration such as 60s"))
}

fn guarantee(raw: &RawDefault) -> anyhow::Result<Guarantee> {
    match raw.guarantee.as_deref() {
        None | Some("eventual") => Ok(Guarantee::EVENTUAL),
        Some("none") => Ok(Guarantee::None),
        Some("causal") => Ok(Guarantee::Causal { on_conflict: None }),
        Some("transactional") => Ok(Guarantee::Transactional { wait: None }),
        Some("strong") => Ok(Guarantee::Strong { read: None }),
        Some(other) => {
            bail!("`guarantee`: {other:?} is none of eventual, none, causal, transactional, strong")
        }
    }
}

fn backend(raw: OneOrMore) -> anyhow::Result<Backend> {
    let urls = match raw {
        OneOrMore::One(url) => vec![url],
        OneOrMore::More(urls) => urls,
    };
    if urls.is_empty() {
        bail!("names no backend");
    }
    let hosts: Vec<String> = urls
        .iter()
        .map(|url| host_and_port(url))
        .collect::<anyhow::Result<_>>()?;
    let addresses: Result<Vec<SocketAddr>, _> = hosts.iter().map(|host| host.parse()).collect();
    Ok(addresses.map_or(Backend::Names(hosts), Backend::Addresses))
}

fn host_and_port(url: &str) -> anyhow::Result<String> {
    let uri: Uri = url.parse().with_context(|| format!("{url:?}"))?;
    let Some(authority) = uri.authority() else {
        bail!("{url:?} is not a URL such as http://127.0.0.1:9101");
    };
    if uri.scheme_str() != Some("http") {
        bail!("{url:?}: services are called over http, on this machine or next to it");
    }
    if uri.path() != "/" || uri.query().is_some() || authority.as_str().contains('@') {
        bail!("{url:?}: a backend is a host and a port alone");
    }
    Ok(format!(
        "{}:{}",
        authority.host(),
        authority.port_u16().unwrap_or(80)
    ))
}
