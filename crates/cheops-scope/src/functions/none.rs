//! `none(location)`: sent to each site once, result not followed.

use cheops_model::Guarantee;

use super::{Function, Keys, Parameter, ParameterKind};

pub(super) static FUNCTION: Function = Function {
    names: &["none", "weak"],
    usage: "none(location)",
    summary: "sent to each site once, result not followed",
    parameters: &[Parameter { name: "location", kind: ParameterKind::Location }],
    keys: Keys::Options(&[]),
    resolve: |arguments, resolver| {
        let guarantee = Guarantee::None;
        Ok(resolver.location(arguments.location(0))?.promise(&guarantee))
    },
};
