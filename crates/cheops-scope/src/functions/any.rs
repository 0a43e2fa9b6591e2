//! `any(key=value, …)`: the nearest usable site with these labels.

use super::{Function, Keys};
use crate::limits::CHOICES_MAX;
use crate::plan::Draft;

pub(super) static FUNCTION: Function = Function {
    names: &["any"],
    usage: "any(key=value, …)",
    summary: "every site whose labels all match, nearest to here first, joined with `;`",
    parameters: &[],
    keys: Keys::Labels,
    resolve: |arguments, resolver| {
        let found = resolver.labelled(arguments)?;
        let near = resolver.nearest_first(resolver.here, found, CHOICES_MAX);
        Ok(Draft::first_of(near.into_iter().map(|site| resolver.at(site)).collect()))
    },
};
