//! `eventual(location[, ttl=…][, failover=auto])`: every site applies it in the end, in the leader's order.

use cheops_model::{Failover, Guarantee};

use super::{Function, Keys, Parameter, ParameterKind, Value};

pub(super) static FUNCTION: Function = Function {
    names: &["eventual"],
    usage: "eventual(location[, ttl=…][, failover=auto])",
    summary: "every site applies it in the end, in the leader's order",
    parameters: &[Parameter { name: "location", kind: ParameterKind::Location }],
    keys: Keys::Options(&[("ttl", Value::Duration), ("failover", Value::Word(&["auto"]))]),
    resolve: |arguments, resolver| {
        let ttl = arguments.option_duration("ttl");
        let failover = arguments.option("failover").map(|_| Failover::Auto);
        let guarantee = Guarantee::Eventual { ttl, failover };
        Ok(resolver.location(arguments.location(0))?.promise(&guarantee))
    },
};
