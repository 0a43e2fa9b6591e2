//! `around(site, radius)`: the near sites, nearest first, as alternatives.

use super::{Function, Keys, Parameter, ParameterKind};
use crate::plan::Draft;

pub(super) static FUNCTION: Function = Function {
    names: &["around"],
    usage: "around(site, radius)",
    summary: "every site within the round trip of radius from site, nearest first, joined with `;`",
    parameters: &[
        Parameter { name: "site", kind: ParameterKind::Location },
        Parameter { name: "radius", kind: ParameterKind::Duration },
    ],
    keys: Keys::Options(&[]),
    resolve: |arguments, resolver| {
        let centre = resolver.one_site(arguments.location(0))?;
        let radius = arguments.duration(1);
        let world = resolver.world;
        // The centre itself is 0 away, so it is always there, and first.
        let within = |site: &_| world.round_trip(centre, *site).is_some_and(|far| far <= radius);
        let near = world.sites().filter(within).collect();
        let near = resolver.nearest_first(centre, near);
        Ok(Draft::first_of(near.into_iter().map(|site| resolver.at(site)).collect()))
    },
};
