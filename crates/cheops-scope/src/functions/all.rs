//! `all(key=value, …)`: every site with these labels, replicated over.

use super::{Function, Keys};
use crate::plan::Draft;

pub(super) static FUNCTION: Function = Function {
    names: &["all"],
    usage: "all(key=value, …)",
    summary: "every site whose labels all match, in name order, joined with `&`",
    parameters: &[],
    keys: Keys::Labels,
    resolve: |arguments, resolver| {
        let found = resolver.labelled(arguments)?;
        Ok(Draft::replicate(found.into_iter().map(|site| resolver.at(site)).collect()))
    },
};
