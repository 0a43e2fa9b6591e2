//! `strong(location[, read=linear|local])`: one order for all, agreed by a majority before the answer.

use cheops_model::{Guarantee, StrongRead};

use super::{Function, Keys, Parameter, ParameterKind, Value};

pub(super) static FUNCTION: Function = Function {
    names: &["strong"],
    usage: "strong(location[, read=linear|local])",
    summary: "one order for all, agreed by a majority before the answer",
    parameters: &[Parameter { name: "location", kind: ParameterKind::Location }],
    keys: Keys::Options(&[("read", Value::Word(&["linear", "local"]))]),
    resolve: |arguments, resolver| {
        let read = arguments.option("read").map(|word| match word {
            "local" => StrongRead::Local,
            _ => StrongRead::Linear,
        });
        let guarantee = Guarantee::Strong { read };
        Ok(resolver.location(arguments.location(0))?.promise(&guarantee))
    },
};
