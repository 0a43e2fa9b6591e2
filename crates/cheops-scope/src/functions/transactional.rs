//! `transactional(location[, wait=…])`: all sites or none in the end.

use cheops_model::Guarantee;

use super::{Function, Keys, Parameter, ParameterKind, Value};

pub(super) static FUNCTION: Function = Function {
    names: &["transactional"],
    usage: "transactional(location[, wait=…])",
    summary: "all sites or none in the end",
    parameters: &[Parameter { name: "location", kind: ParameterKind::Location }],
    keys: Keys::Options(&[("wait", Value::Duration)]),
    resolve: |arguments, resolver| {
        let wait = arguments.option_duration("wait");
        let guarantee = Guarantee::Transactional { wait };
        Ok(resolver.location(arguments.location(0))?.promise(&guarantee))
    },
};
