//! A scope as it holds for the calls that are made inside of an operation which every site runs for itself.

use crate::ast::{Location, Scope, Span};
use crate::check::Checked;
use crate::error::ScopeError;
use crate::plan::Plan;
use crate::world::{SiteIndex, World};

impl Checked {
    /// The scope for what is called while this site runs an operation that others run too; the request entered at
    /// `entry`. What the scope replicates to this site is bound to this site alone: each site makes its own. `None` if
    /// that changes nothing.
    pub fn inside(&self, world: &World, entry: SiteIndex) -> Result<Option<Scope>, ScopeError> {
        let here = world.site_name(world.here());
        let resolved = self.resolve_from(world, entry)?;
        let mut scope = self.scope().clone();
        let mut changed = false;
        for (binding, (_, plan)) in scope.bindings.iter_mut().zip(&resolved.plans) {
            if is_made_at_each(plan) && plan.sites().contains(&here) {
                binding.location = Location::Site(here.clone(), Span::default());
                changed = true;
            }
        }
        Ok(changed.then_some(scope))
    }
}

/// True if something of the plan is made on more than one site.
fn is_made_at_each(plan: &Plan) -> bool {
    match plan {
        Plan::Replicate { .. } | Plan::Keep { .. } => true,
        Plan::FirstOf(of) | Plan::Span { of, .. } => of.iter().any(is_made_at_each),
        Plan::At(_) | Plan::Queue { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::{World, parse};

    fn inside(text: &str) -> Option<String> {
        let mut world = World::builder("site2".parse().unwrap());
        for site in ["site1", "DC 3"] {
            world.site(site.parse().unwrap());
        }
        for service in ["compute", "image", "network"] {
            world.service(service.parse().unwrap(), []);
        }
        let world = world.build();
        let entry = world.site("site1").unwrap();
        let scope = parse(text).unwrap().check().unwrap();
        scope
            .inside(&world, entry)
            .unwrap()
            .map(|scope| scope.to_string())
    }

    #[test]
    fn what_is_replicated_here_is_made_here_alone() {
        let cases = [
            (
                "compute: site1 & site2, image: site1",
                "compute: site2, image: site1",
            ),
            (
                "image: eventual(site1 & site2, ttl=1h), network: site1; here",
                "image: site2, network: site1; here",
            ),
            (
                "image: (site1 & site2); DC 3, compute: replicas(2, site1 & site2)",
                "image: site2, compute: site2",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(inside(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_stays_as_it_was_written() {
        for text in [
            "compute: site1",
            "image: site1 & DC 3",
            "image: site1; site2",
        ] {
            assert_eq!(inside(text), None, "{text}");
        }
    }
}
