//! `causal(location[, on-conflict=…])`: every site may write at any time; order follows cause and effect.

use cheops_model::{Guarantee, OnConflict};

use super::{Function, Keys, Parameter, ParameterKind, Value};

pub(super) static FUNCTION: Function = Function {
    names: &["causal"],
    usage: "causal(location[, on-conflict=…])",
    summary: "every site may write at any time; order follows cause and effect",
    parameters: &[Parameter { name: "location", kind: ParameterKind::Location }],
    keys: Keys::Options(&[("on-conflict", Value::Word(HANDLERS))]),
    resolve: |arguments, resolver| {
        let on_conflict = arguments.option("on-conflict").map(handler);
        let guarantee = Guarantee::Causal { on_conflict };
        Ok(resolver.location(arguments.location(0))?.promise(&guarantee))
    },
};

const HANDLERS: &[&str] = &["lww", "merge", "keep", "manual", "custom."];

fn handler(word: &str) -> OnConflict {
    match word {
        "lww" => OnConflict::Lww,
        "merge" => OnConflict::Merge,
        "keep" => OnConflict::Keep,
        "manual" => OnConflict::Manual,
        custom => OnConflict::Custom(custom.strip_prefix("custom.").unwrap_or(custom).to_owned()),
    }
}
