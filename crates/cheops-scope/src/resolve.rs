//! Checked scope + world → one plan per service. Pure: same scope, same world, same plan.

use std::cell::Cell;

use cheops_model::ServiceName;

use crate::ast::{Binding, Call, Location, Span};
use crate::check::{Checked, duplicate_service};
use crate::error::{ErrorKind, ScopeError};
use crate::functions;
use crate::limits::{EXPECTED_MAX, GROUP_SITES_MAX, PLAN_SITES_MAX, too_many_sites};
use crate::plan::{Draft, Plan};
use crate::suggest::nearest;
use crate::world::{SiteIndex, World};

/// One plan for each service that the scope binds, by registered name, in the order written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Registered name and plan.
    pub plans: Vec<(ServiceName, Plan)>,
}

impl Resolved {
    /// The plan of a service, by its registered name.
    pub fn plan_of(&self, service: &ServiceName) -> Option<&Plan> {
        self.plans
            .iter()
            .find(|(name, _)| name == service)
            .map(|(_, plan)| plan)
    }
}

impl Checked {
    /// Resolves every binding for a request that enters where the world is seen from.
    pub fn resolve(&self, world: &World) -> Result<Resolved, ScopeError> {
        self.resolve_from(world, world.here())
    }

    /// Resolves every binding for a request that entered at `here`.
    pub fn resolve_from(&self, world: &World, here: SiteIndex) -> Result<Resolved, ScopeError> {
        let resolver = Resolver {
            world,
            here,
            named: Cell::new(0),
        };
        let mut plans: Vec<(ServiceName, Plan)> = Vec::with_capacity(self.scope().bindings.len());
        for binding in &self.scope().bindings {
            let (service, plan) = resolver.binding(binding)?;
            // Two aliases of one service are one service bound twice.
            if plans.iter().any(|(bound, _)| *bound == service) {
                return Err(duplicate_service(binding));
            }
            plans.push((service, plan));
        }
        Ok(Resolved { plans })
    }
}

/// What functions resolve with.
pub(crate) struct Resolver<'a> {
    pub(crate) world: &'a World,
    pub(crate) here: SiteIndex,
    /// Sites named so far: functions can name many more than anybody typed.
    named: Cell<usize>,
}

impl Resolver<'_> {
    fn binding(&self, binding: &Binding) -> Result<(ServiceName, Plan), ScopeError> {
        let world = self.world;
        let service = world
            .service(&binding.service)
            .ok_or_else(|| self.no_service(binding))?;
        let draft = self.location(&binding.location)?;
        let plan = draft.finish(world.default_guarantee(service));
        Ok((world.service_name(service).clone(), plan))
    }

    pub(crate) fn location(&self, location: &Location) -> Result<Draft, ScopeError> {
        match location {
            Location::Site(name, span) => Ok(self.at(self.site(name.as_str(), *span)?)),
            Location::Here(_) => Ok(self.at(self.here)),
            Location::First(of) => Ok(Draft::first_of(self.each(of)?)),
            Location::Span(of) => bounded(Draft::span(self.each(of)?), location.span()),
            Location::Replicate(of) => bounded(Draft::replicate(self.each(of)?), location.span()),
            Location::Call(call) => self.call(call),
        }
    }

    fn call(&self, call: &Call) -> Result<Draft, ScopeError> {
        let draft = functions::resolve(call, self)?;
        if self.named.get() > PLAN_SITES_MAX {
            return Err(too_many_sites(call.name_span));
        }
        bounded(draft, call.name_span)
    }

    /// The plan to run at a site.
    pub(crate) fn at(&self, site: SiteIndex) -> Draft {
        self.named.set(self.named.get() + 1);
        Plan::At(self.world.site_name(site).clone())
    }

    fn each(&self, of: &[Location]) -> Result<Vec<Draft>, ScopeError> {
        of.iter().map(|location| self.location(location)).collect()
    }

    fn site(&self, name: &str, span: Span) -> Result<SiteIndex, ScopeError> {
        self.world.site(name).ok_or_else(|| {
            let known = || {
                self.world
                    .sites()
                    .map(|site| self.world.site_name(site).as_str())
            };
            ScopeError::new(
                ErrorKind::UnknownSite,
                span,
                format!("unknown site `{name}`"),
            )
            .expecting(listed(known()))
            .suggesting(nearest(name, known()))
        })
    }

    fn no_service(&self, binding: &Binding) -> ScopeError {
        let world = self.world;
        let registered = world
            .services()
            .map(|service| world.service_name(service).as_str());
        let names = world.service_names();
        let title = format!("unknown service `{}`", binding.service);
        ScopeError::new(ErrorKind::UnknownService, binding.span, title)
            .expecting(listed(registered))
            .suggesting(nearest(
                binding.service.as_str(),
                names.iter().map(|name| name.as_str()),
            ))
    }
}

/// The first few names, and how many more there are.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names = names.map(str::to_owned);
    let mut shown: Vec<String> = names.by_ref().take(EXPECTED_MAX).collect();
    let more = names.count();
    shown.extend((more > 0).then(|| format!("… and {more} more")));
    shown
}

/// Functions can join more sites than anybody typed.
fn bounded(draft: Draft, span: Span) -> Result<Draft, ScopeError> {
    match &draft {
        Plan::Replicate { of, .. } | Plan::Span { of, .. } | Plan::Keep { of, .. }
            if of.len() > GROUP_SITES_MAX =>
        {
            Err(too_many_sites(span))
        }
        _ => Ok(draft),
    }
}
