//! What the tests share: profiles by name, and a small world of ids.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use cheops_model::profile::Profile;
use cheops_rest::{Api, Id};

/// A shipped profile.
pub(crate) fn api(name: &str) -> Api {
    static READ: Mutex<BTreeMap<String, Api>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let api = read.entry(name.to_owned()).or_insert_with(|| shipped(name));
    api.clone()
}

fn shipped(name: &str) -> Api {
    Api::compile(&profile(name)).unwrap()
}

pub(crate) fn profile(name: &str) -> Profile {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../profiles/{name}.toml"));
    toml::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

pub(crate) fn compile(text: &str) -> Api {
    Api::compile(&toml::from_str(text).unwrap()).unwrap()
}

/// Replicants: kind, local id, meta-id.
#[derive(Clone, Debug, Default)]
pub(crate) struct World(pub(crate) Vec<(String, String, String)>);

impl World {
    pub(crate) fn to_local(&self, id: &Id<'_>) -> Option<Cow<'_, str>> {
        let named = |meta: &str, local: &str| *id.text == *meta || *id.text == *local;
        let found = self
            .0
            .iter()
            .find(|(kind, local, meta)| named(meta, local) && id.fits(kind));
        found.map(|(_, local, _)| Cow::Borrowed(local.as_str()))
    }

    pub(crate) fn to_meta(&self, id: &Id<'_>) -> Option<Cow<'_, str>> {
        let found = self
            .0
            .iter()
            .find(|(kind, local, _)| *id.text == **local && id.fits(kind));
        found.map(|(_, _, meta)| Cow::Borrowed(meta.as_str()))
    }
}
