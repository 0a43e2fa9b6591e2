//! `around(site, radius)`: the near sites, nearest first, as alternatives.

use super::{Function, Keys, Parameter, ParameterKind};
use crate::limits::CHOICES_MAX;
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
        let within = |site: &_| world.round_trip(centre, *site).is_some_and(|far| far <= radius);
        let others = world.sites().filter(|site| *site != centre && within(site)).collect();
        // Others may be 0 away too: the centre still comes first.
        let mut near = resolver.nearest_first(centre, others, CHOICES_MAX - 1);
        near.insert(0, centre);
        Ok(Draft::first_of(near.into_iter().map(|site| resolver.at(site)).collect()))
    },
};
