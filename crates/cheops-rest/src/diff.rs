//! Where the answers of several sites differ in what clients wrote.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Api;
use crate::fields::Fields;
use crate::json::{Node, quoted};
use crate::rules::Rule;
use crate::tree::{ancestors, first_below, is_sub, members, take_apart};

/// One field that is not the same everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its name, as in [`Fields`], below the wrapping member.
    pub field: String,
    /// What each answer has, in their order: JSON, or nothing.
    pub values: Vec<Option<String>>,
}

impl Api {
    /// Compares answers to GET of one resource, each in meta-id form. The site's own fields are left out; with
    /// `written`, so is everything that no client wrote.
    pub fn diff(&self, kind: &str, answers: &[&[u8]], written: Option<&Fields>) -> Vec<Difference> {
        let rule = self.rule(kind);
        let shown: Vec<Fields> = answers.iter().map(|body| shown(rule, body)).collect();
        let written = written.map(|fields| written_names(rule, kind, fields));
        let names: BTreeSet<&String> = shown.iter().flat_map(BTreeMap::keys).collect();
        let mut differences = Vec::new();
        for name in names {
            let values: Vec<Option<&String>> =
                shown.iter().map(|fields| fields.get(name)).collect();
            let wrote = written.as_ref().is_none_or(|names| wrote(names, name));
            if wrote && !self.is_own(rule, name) && !all_same(&values) {
                let values = values.into_iter().map(|value| value.cloned()).collect();
                differences.push(Difference {
                    field: name.clone(),
                    values,
                });
            }
        }
        differences
    }

    pub(crate) fn is_own(&self, rule: &Rule, name: &str) -> bool {
        members(name).any(|member| {
            self.own.has(&member) || rule.own.has(&member) || self.is_version(&member)
        })
    }
}

/// The fields of the resource; a body that is not JSON is one text.
fn shown(rule: &Rule, body: &[u8]) -> Fields {
    let mut fields = Fields::new();
    match Node::read(body) {
        Ok(root) => take_apart(rule.unwrapped(&root), "", &mut fields),
        Err(_) => drop(fields.insert(String::new(), quoted(&String::from_utf8_lossy(body)))),
    }
    fields
}

fn written_names(rule: &Rule, kind: &str, fields: &Fields) -> Fields {
    let prefix = rule.prefix_of(fields, kind);
    let there = fields.iter().filter(|(name, _)| !is_sub(name));
    there
        .map(|(name, _)| {
            (
                name.strip_prefix(&prefix).unwrap_or(name).to_owned(),
                String::new(),
            )
        })
        .collect()
}

/// A client wrote the field, all of what it is in, or something in it.
fn wrote(names: &Fields, name: &str) -> bool {
    names.contains_key(name)
        || names.contains_key("")
        || ancestors(name).any(|above| names.contains_key(above))
        || first_below(names, name).is_some()
}

fn all_same(values: &[Option<&String>]) -> bool {
    let nodes: Vec<Option<Node<'_>>> = values
        .iter()
        .map(|value| value.and_then(|raw| Node::read(raw.as_bytes()).ok()))
        .collect();
    nodes.windows(2).all(|pair| match (&pair[0], &pair[1]) {
        (Some(a), Some(b)) => a.same(b),
        // A member that is null and one that is not there say the same.
        (Some(only), None) | (None, Some(only)) => only.is_null(),
        (None, None) => true,
    })
}
