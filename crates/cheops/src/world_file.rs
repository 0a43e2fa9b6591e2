//! A world file stands in for a running mesh: what is typed (`Raw…`), and the [`World`] made of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cheops_model::{Labels, ServiceName, SiteName};
use cheops_scope::{World, WorldBuilder};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorld {
    here: Option<String>,
    #[serde(default)]
    service: BTreeMap<String, RawService>,
    #[serde(default)]
    site: BTreeMap<String, RawSite>,
    #[serde(default)]
    rtt: Vec<RawRtt>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawService {
    #[serde(default)]
    aliases: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSite {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default = "yes")]
    reachable: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRtt {
    between: [String; 2],
    ms: f64,
}

fn yes() -> bool {
    true
}

/// Reads a world file. `at` stands in for its `here`.
pub(crate) fn load(file: &Path, at: Option<&str>) -> anyhow::Result<World> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let raw: RawWorld =
        toml::from_str(&text).map_err(|error| anyhow!("{name}: {}", error.to_string().trim()))?;
    build(raw, at).with_context(|| format!("{name}"))
}

fn build(raw: RawWorld, at: Option<&str>) -> anyhow::Result<World> {
    let (key, here) = match (at, &raw.here) {
        (Some(at), _) => ("--at", at),
        (None, Some(here)) => ("here", here.as_str()),
        (None, None) => bail!("key `here` is missing: name the site where requests enter"),
    };
    if !raw.site.contains_key(here) {
        let known: Vec<_> = raw.site.keys().map(String::as_str).collect();
        bail!(
            "{key}: unknown site `{here}`; known sites: {}",
            known.join(", ")
        );
    }
    let mut world = World::builder(site(here, key)?);
    for (name, raw) in &raw.site {
        let labels = Labels(raw.labels.clone());
        world.site_with(site(name, "site")?, labels, raw.reachable);
    }
    services(&raw.service, &mut world)?;
    round_trips(&raw, &mut world)?;
    Ok(world.build())
}

fn services(raw: &BTreeMap<String, RawService>, world: &mut WorldBuilder) -> anyhow::Result<()> {
    let mut seen: Vec<ServiceName> = Vec::new();
    for (name, raw) in raw {
        let names = std::iter::once((name, "service".to_owned())).chain(
            raw.aliases
                .iter()
                .map(|alias| (alias, format!("service.{name}.aliases"))),
        );
        for (name, key) in names {
            let name = ServiceName::new(name).with_context(|| format!("key `{key}`: {name:?}"))?;
            if seen.contains(&name) {
                bail!("key `{key}`: `{name}` is the name of two services");
            }
            seen.push(name);
        }
        let aliases: Result<Vec<_>, _> = raw.aliases.iter().map(|a| ServiceName::new(a)).collect();
        world.service(ServiceName::new(name)?, aliases?);
    }
    Ok(())
}

fn round_trips(raw: &RawWorld, world: &mut WorldBuilder) -> anyhow::Result<()> {
    let mut seen = std::collections::HashSet::new();
    for (place, rtt) in raw.rtt.iter().enumerate() {
        let [a, b] = &rtt.between;
        if let Some(unknown) = rtt
            .between
            .iter()
            .find(|name| !raw.site.contains_key(*name))
        {
            bail!("key `rtt[{place}].between`: unknown site `{unknown}`");
        }
        if a == b {
            bail!("key `rtt[{place}].between`: names `{a}` twice");
        }
        if !seen.insert((a.min(b), a.max(b))) {
            bail!("key `rtt[{place}].between`: `{a}` and `{b}` are listed twice");
        }
        let value = Some(rtt.ms).filter(|ms| ms.is_finite() && *ms >= 0.0 && *ms < 1e9);
        let Some(ms) = value else {
            bail!(
                "key `rtt[{place}].ms`: {} is not a round trip in milliseconds",
                rtt.ms
            );
        };
        let value = Duration::from_nanos((ms * 1e6).round() as u64);
        world.round_trip(site(a, "site")?, site(b, "site")?, value);
    }
    Ok(())
}

fn site(name: &str, key: &str) -> anyhow::Result<SiteName> {
    SiteName::new(name).with_context(|| format!("key `{key}`: {name:?}"))
}
