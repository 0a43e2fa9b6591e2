//! Profiles: shipped ones by name, others by path.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use cheops_model::Profile;
use cheops_rest::Api;

macro_rules! shipped {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../../../profiles/", $name, ".toml")))),*]
    };
}

const SHIPPED: &[(&str, &str)] = shipped![
    "rest",
    "openstack-identity",
    "openstack-image",
    "openstack-compute",
    "openstack-network",
    "openstack-placement",
    "docker-registry",
    "pocketbase"
];

/// The profile of that name, or in that file.
pub(super) fn load(name: &str) -> anyhow::Result<Profile> {
    if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return read(text);
    }
    if !name.contains('/') && !name.ends_with(".toml") {
        let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
        bail!(
            "no profile is called {name:?}; shipped: {}; or give a path",
            names.join(", ")
        );
    }
    let text =
        std::fs::read_to_string(Path::new(name)).with_context(|| format!("cannot read {name}"))?;
    read(&text).with_context(|| name.to_owned())
}

fn read(text: &str) -> anyhow::Result<Profile> {
    let profile: Profile =
        toml::from_str(text).map_err(|fault| anyhow!("{}", fault.to_string().trim()))?;
    Api::compile(&profile)?;
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_is_read_and_has_its_name() {
        for (name, _) in SHIPPED {
            assert_eq!(load(name).unwrap().name, *name);
        }
        assert!(load("pigeon").unwrap_err().to_string().contains("rest"));
    }
}
