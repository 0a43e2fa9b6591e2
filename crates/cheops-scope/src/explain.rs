//! What a scope would do, for a person and for a program.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use cheops_model::{Guarantee, ServiceName, SiteName};
use serde::Serialize;

use crate::check::Checked;
use crate::error::ScopeError;
use crate::plan::Plan;
use crate::world::{SiteIndex, World};

/// As JSON it is the object of the contract.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The canonical form.
    pub scope: String,
    /// Where the request enters.
    pub at: SiteName,
    /// Every service of the world, by registered name.
    pub services: BTreeMap<ServiceName, ServicePlan>,
    #[serde(skip)]
    bound: Vec<ServiceName>,
    #[serde(skip)]
    facts: BTreeMap<SiteName, Facts>,
}

/// The plan of one service.
#[derive(Clone, Debug, Serialize)]
pub struct ServicePlan {
    /// Where it runs.
    pub plan: Plan,
}

#[derive(Clone, Debug)]
struct Facts {
    round_trip: Option<Duration>,
    reachable: bool,
}

impl Explanation {
    /// Resolves a scope for every service of the world: what it does not bind runs here.
    pub fn of(scope: &Checked, world: &World) -> Result<Explanation, ScopeError> {
        Explanation::from(scope, world, world.here())
    }

    /// The same for a request that enters at `here`.
    pub fn from(
        scope: &Checked,
        world: &World,
        here_index: SiteIndex,
    ) -> Result<Explanation, ScopeError> {
        let resolved = scope.resolve_from(world, here_index)?;
        let here = world.site_name(here_index).clone();
        let mut services = BTreeMap::new();
        for service in world.services() {
            let plan = ServicePlan {
                plan: Plan::At(here.clone()),
            };
            services.insert(world.service_name(service).clone(), plan);
        }
        let bound = resolved
            .plans
            .iter()
            .map(|(service, _)| service.clone())
            .collect();
        let mut facts = BTreeMap::new();
        for (service, plan) in resolved.plans {
            plan.for_each_site(&mut |site| {
                if let Some(index) = world.site(site.as_str()) {
                    let round_trip = world.round_trip(here_index, index);
                    let reachable = world.reachable(index);
                    facts.insert(
                        site.clone(),
                        Facts {
                            round_trip,
                            reachable,
                        },
                    );
                }
            });
            services.insert(service, ServicePlan { plan });
        }
        Ok(Explanation {
            scope: scope.scope().to_string(),
            at: here,
            services,
            bound,
            facts,
        })
    }

    /// The plan as a tree, round trips, and what happens when a site of it is cut off.
    pub fn text(&self) -> String {
        let mut out = format!("scope  {}\nat     {}\n", self.scope, self.at);
        for service in &self.bound {
            let _ = write!(out, "\n{service}\n");
            self.tree(&mut out, &self.services[service].plan, "  ", "  ");
        }
        let unbound: Vec<_> = self
            .services
            .keys()
            .filter(|s| !self.bound.contains(s))
            .collect();
        if !unbound.is_empty() {
            let names: Vec<_> = unbound.iter().map(|service| service.as_str()).collect();
            let _ = write!(
                out,
                "\nnot bound, so here ({}): {}\n",
                self.at,
                names.join(", ")
            );
        }
        self.cuts(&mut out);
        out
    }

    fn tree(&self, out: &mut String, plan: &Plan, first: &str, rest: &str) {
        let (label, members): (String, &[Plan]) = match plan {
            Plan::At(site) => (self.step("at", site), &[]),
            Plan::Queue { at, guarantee } => {
                let label = self.step("queued for", at);
                (format!("{label}, {}", promise(guarantee)), &[])
            }
            Plan::FirstOf(of) => ("the first that can be used of".into(), of),
            Plan::Replicate { of, guarantee } => {
                (format!("the same on each of, {}", promise(guarantee)), of)
            }
            Plan::Span { of, guarantee } => {
                (format!("a part on each of, {}", promise(guarantee)), of)
            }
            Plan::Keep {
                count,
                of,
                guarantee,
            } => (
                format!("{count} live replicas among, {}", promise(guarantee)),
                of,
            ),
        };
        let _ = writeln!(out, "{first}{label}");
        for (index, member) in members.iter().enumerate() {
            let last = index + 1 == members.len();
            let (branch, below) = if last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            self.tree(
                out,
                member,
                &format!("{rest}{branch}"),
                &format!("{rest}{below}"),
            );
        }
    }

    fn step(&self, how: &str, site: &SiteName) -> String {
        let facts = self.facts.get(site);
        let round_trip = match facts.and_then(|facts| facts.round_trip) {
            _ if *site == self.at => "here".to_owned(),
            Some(value) => format!("{} ms", milliseconds(value)),
            None => "round trip unknown".to_owned(),
        };
        let cut = if facts.is_some_and(|facts| !facts.reachable) {
            ", cut off now"
        } else {
            ""
        };
        format!("{how} {site}  ({round_trip}{cut})")
    }

    fn cuts(&self, out: &mut String) {
        let others = self.facts.iter().filter(|(site, _)| **site != self.at);
        let mut lines = Vec::new();
        for (site, facts) in others {
            for service in &self.bound {
                if let Some(effect) = effect_of_cut(&self.services[service].plan, site) {
                    let now = if facts.reachable { "" } else { " (it is now)" };
                    lines.push(format!("  {site}{now}: {service} {effect}"));
                }
            }
        }
        if !lines.is_empty() {
            let _ = write!(
                out,
                "\nif this site is cut off from {}\n{}\n",
                self.at,
                lines.join("\n")
            );
        }
    }
}

/// What a cut of `site` does to a request with this plan; `None` if it is not concerned.
fn effect_of_cut(plan: &Plan, site: &SiteName) -> Option<String> {
    let concerned = plan.sites().contains(&site);
    let effect = match plan {
        _ if !concerned => return None,
        Plan::At(_) => "fails at once: 503 site-unreachable, nothing happened".to_owned(),
        Plan::Queue { .. } => "is taken, and run there when it is back".to_owned(),
        Plan::FirstOf(of) => first_of_cut(of, site),
        Plan::Replicate { guarantee, .. } | Plan::Keep { guarantee, .. } => {
            replicate_cut(guarantee.kind()).to_owned()
        }
        Plan::Span {
            guarantee: Guarantee::Transactional { .. },
            ..
        } => replicate_cut("transactional").to_owned(),
        Plan::Span { .. } => {
            "goes on with the other parts; its part is named as missing".to_owned()
        }
    };
    Some(effect)
}

/// Only the first member a request can use is touched, so it matters which one has the site.
fn first_of_cut(of: &[Plan], site: &SiteName) -> String {
    let is_site = |plan: &Plan| matches!(plan, Plan::At(at) if at == site);
    let Some(next) = of.iter().find(|plan| !is_site(plan)) else {
        return "fails at once: 503 no-usable-site, nothing happened".to_owned();
    };
    if of.first().is_some_and(is_site) {
        let names: Vec<_> = next.sites().iter().map(|site| site.to_string()).collect();
        return format!("goes to {}", names.join(", "));
    }
    effect_of_cut(next, site)
        .unwrap_or_else(|| "does not notice while an earlier site can be used".to_owned())
}

fn replicate_cut(guarantee: &str) -> &'static str {
    match guarantee {
        "none" => "is sent to the others; that site never gets it",
        "eventual" => "is done on the others; that site gets it when it is back",
        "causal" => "is done here and on the others; that site gets it when it is back",
        "transactional" => "waits or is undone everywhere: all sites or none",
        _ => "is done while a majority is left; that site gets it when it is back",
    }
}

fn promise(guarantee: &Guarantee) -> String {
    let json = options(guarantee);
    if json.is_empty() {
        guarantee.kind().to_owned()
    } else {
        format!("{} ({json})", guarantee.kind())
    }
}

/// The options that were given, as words.
fn options(guarantee: &Guarantee) -> String {
    let mut words = Vec::new();
    match guarantee {
        Guarantee::None => (),
        Guarantee::Eventual { ttl, failover } => {
            words.extend(ttl.map(|ttl| format!("forgotten after {}", span_of(ttl))));
            words.extend(failover.map(|failover| format!("failover {}", failover.word())));
        }
        Guarantee::Causal { on_conflict } => {
            words.extend(
                on_conflict
                    .as_ref()
                    .map(|c| format!("on conflict {}", c.word())),
            );
        }
        Guarantee::Transactional { wait } => {
            words.extend(wait.map(|wait| format!("waits {}", span_of(wait))));
        }
        Guarantee::Strong { read } => {
            words.extend(read.map(|read| format!("reads {}", read.word())))
        }
    }
    words.join(", ")
}

fn milliseconds(value: Duration) -> String {
    let ms = value.as_secs_f64() * 1e3;
    if ms.fract() == 0.0 {
        format!("{ms:.0}")
    } else {
        format!("{ms:.1}")
    }
}

fn span_of(value: Duration) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let whole = |(_, seconds): &&(&str, u64)| {
        value.subsec_nanos() == 0
            && value.as_secs() >= *seconds
            && value.as_secs().is_multiple_of(*seconds)
    };
    match units.iter().find(whole) {
        Some((unit, seconds)) => format!("{}{unit}", value.as_secs() / seconds),
        None => format!("{}ms", milliseconds(value)),
    }
}
