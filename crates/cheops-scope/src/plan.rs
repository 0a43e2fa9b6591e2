//! The plan: a small tree, and nothing else decides what happens.

use std::collections::HashSet;
use std::fmt;

use cheops_model::{Guarantee, SiteName};
use foldhash::quality::RandomState;
use serde::Serialize;

/// What a binding resolves to. `G` is what a group is promised; while resolving it may still be
/// open (see `Draft`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan<G = Guarantee> {
    /// Run at that site.
    At(SiteName),
    /// The same on each.
    Replicate {
        /// Where.
        of: Vec<Plan<G>>,
        /// With what promise.
        guarantee: G,
    },
    /// A part on each.
    Span {
        /// Where.
        of: Vec<Plan<G>>,
        /// With what promise.
        guarantee: G,
    },
    /// The first that can be used.
    FirstOf(Vec<Plan<G>>),
    /// Taken now, run at that site when it can be reached.
    Queue {
        /// Where.
        at: SiteName,
        /// With what promise.
        guarantee: Guarantee,
    },
    /// That many live replicas among these sites.
    Keep {
        /// How many.
        count: u32,
        /// Among which; flat.
        of: Vec<Plan<G>>,
        /// With what promise.
        guarantee: G,
    },
}

/// A plan whose groups may still get their guarantee from a function around them. In it, `Queue`
/// is a site with any promise, so that an outer one cannot replace it: `eventual(strong(a))`.
pub(crate) type Draft = Plan<Option<Guarantee>>;

impl<G> Plan<G> {
    /// Calls `each` with every site of the plan, in order, repeated ones included.
    pub fn for_each_site<'a>(&'a self, each: &mut impl FnMut(&'a SiteName)) {
        match self {
            Plan::At(site) | Plan::Queue { at: site, .. } => each(site),
            Plan::FirstOf(of)
            | Plan::Replicate { of, .. }
            | Plan::Span { of, .. }
            | Plan::Keep { of, .. } => of.iter().for_each(|plan| plan.for_each_site(each)),
        }
    }

    /// Every site of the plan, once, in order.
    pub fn sites(&self) -> Vec<&SiteName> {
        let mut seen = HashSet::with_hasher(RandomState::default());
        let mut sites = Vec::new();
        self.for_each_site(&mut |site| {
            if seen.insert(site) {
                sites.push(site);
            }
        });
        sites
    }
}

impl Draft {
    /// `a; b`: lists in lists made one.
    pub(crate) fn first_of(of: Vec<Draft>) -> Draft {
        one_or(
            flat(of, |inner| matches!(inner, Plan::FirstOf(_))),
            Plan::FirstOf,
        )
    }

    /// `a & b`: lists in lists made one unless a guarantee stands between, duplicates dropped.
    pub(crate) fn replicate(of: Vec<Draft>) -> Draft {
        let same = |inner: &Draft| {
            matches!(
                inner,
                Plan::Replicate {
                    guarantee: None,
                    ..
                }
            )
        };
        one_or(members(flat(of, same)), |of| Plan::Replicate {
            of,
            guarantee: None,
        })
    }

    /// `a + b`: as `&`.
    pub(crate) fn span(of: Vec<Draft>) -> Draft {
        let same = |inner: &Draft| {
            matches!(
                inner,
                Plan::Span {
                    guarantee: None,
                    ..
                }
            )
        };
        one_or(members(flat(of, same)), |of| Plan::Span {
            of,
            guarantee: None,
        })
    }

    /// Promises `guarantee` to whatever has no promise of its own yet: the innermost holds.
    pub(crate) fn promise(self, guarantee: &Guarantee) -> Draft {
        match self {
            Plan::At(at) => Plan::Queue {
                at,
                guarantee: guarantee.clone(),
            },
            Plan::FirstOf(of) => {
                Plan::FirstOf(of.into_iter().map(|plan| plan.promise(guarantee)).collect())
            }
            other => other.promise_groups(guarantee),
        }
    }

    /// As [`promise`](Draft::promise) inside a group, where a site stays a site.
    fn promise_groups(self, guarantee: &Guarantee) -> Draft {
        let inner = |of: Vec<Draft>| {
            of.into_iter()
                .map(|p| p.promise_groups(guarantee))
                .collect()
        };
        let or = |own: Option<Guarantee>| Some(own.unwrap_or_else(|| guarantee.clone()));
        match self {
            Plan::At(_) | Plan::Queue { .. } => self,
            Plan::FirstOf(of) => Plan::FirstOf(inner(of)),
            Plan::Replicate {
                of,
                guarantee: None,
            } => Plan::Replicate {
                of: inner(of),
                guarantee: or(None),
            },
            Plan::Span {
                of,
                guarantee: None,
            } => Plan::Span {
                of: inner(of),
                guarantee: or(None),
            },
            Plan::Keep {
                count,
                of,
                guarantee: own,
            } => Plan::Keep {
                count,
                of,
                guarantee: or(own),
            },
            promised @ (Plan::Replicate { .. } | Plan::Span { .. }) => promised,
        }
    }

    /// Fills what nobody promised with the service's default.
    pub(crate) fn finish(self, default: &Guarantee) -> Plan {
        let inner = |of: Vec<Draft>| of.into_iter().map(|plan| plan.finish(default)).collect();
        let or = |own: Option<Guarantee>| own.unwrap_or_else(|| default.clone());
        match self {
            Plan::At(site) => Plan::At(site),
            Plan::Queue { at, guarantee } if guarantee.queues_on_one_site() => {
                Plan::Queue { at, guarantee }
            }
            Plan::Queue { at, .. } => Plan::At(at),
            Plan::FirstOf(of) => Plan::FirstOf(inner(of)),
            Plan::Replicate { of, guarantee } => Plan::Replicate {
                of: inner(of),
                guarantee: or(guarantee),
            },
            Plan::Span { of, guarantee } => Plan::Span {
                of: inner(of),
                guarantee: or(guarantee),
            },
            Plan::Keep {
                count,
                of,
                guarantee,
            } => Plan::Keep {
                count,
                of: inner(of),
                guarantee: or(guarantee),
            },
        }
    }
}

/// Opens the members that are lists of the same kind.
fn flat(of: Vec<Draft>, same: impl Fn(&Draft) -> bool) -> Vec<Draft> {
    if !of.iter().any(&same) {
        return of;
    }
    let mut members = Vec::with_capacity(of.len());
    for plan in of {
        if same(&plan) {
            members.extend(members_of(plan))
        } else {
            members.push(plan)
        }
    }
    members
}

fn members_of(plan: Draft) -> Vec<Draft> {
    match plan {
        Plan::FirstOf(of)
        | Plan::Replicate { of, .. }
        | Plan::Span { of, .. }
        | Plan::Keep { of, .. } => of,
        Plan::At(_) | Plan::Queue { .. } => vec![plan],
    }
}

/// The members of a group, each once. Beside others a site that is not queued is just a site.
fn members(of: Vec<Draft>) -> Vec<Draft> {
    let of = once(of);
    let plain = |plan: &Draft| !matches!(plan, Plan::Queue { .. } | Plan::FirstOf(_));
    if of.len() == 1 || of.iter().all(plain) {
        return of;
    }
    once(of.into_iter().map(settle).collect())
}

fn settle(plan: Draft) -> Draft {
    match plan {
        Plan::Queue { at, guarantee } if !guarantee.queues_on_one_site() => Plan::At(at),
        Plan::FirstOf(of) => Plan::FirstOf(of.into_iter().map(settle).collect()),
        other => other,
    }
}

/// Drops repeated members, keeping the first of each.
fn once(mut of: Vec<Draft>) -> Vec<Draft> {
    // Two members need no set: the common `a & b`.
    if let [a, b] = of.as_slice() {
        if a == b {
            of.pop();
        }
        return of;
    }
    let mut seen = HashSet::with_capacity_and_hasher(of.len(), RandomState::default());
    let repeated: Vec<bool> = of.iter().map(|plan| !seen.insert(plan)).collect();
    let mut repeated = repeated.into_iter();
    of.retain(|_| !repeated.next().unwrap_or_default());
    of
}

/// A list of one plan is that plan.
fn one_or(mut of: Vec<Draft>, make: impl FnOnce(Vec<Draft>) -> Draft) -> Draft {
    if of.len() == 1 {
        of.remove(0)
    } else {
        make(of)
    }
}

/// One line, for logs and tests: `replicate(site1, site2; eventual)`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::At(site) => write!(f, "{site}"),
            Plan::Queue { at, guarantee } => write!(f, "queue({at}; {})", guarantee.kind()),
            Plan::FirstOf(of) => write!(f, "first({})", Members(of)),
            Plan::Replicate { of, guarantee } => {
                write!(f, "replicate({}; {})", Members(of), guarantee.kind())
            }
            Plan::Span { of, guarantee } => {
                write!(f, "span({}; {})", Members(of), guarantee.kind())
            }
            Plan::Keep {
                count,
                of,
                guarantee,
            } => {
                write!(f, "keep {count} of({}; {})", Members(of), guarantee.kind())
            }
        }
    }
}

struct Members<'a>(&'a [Plan]);

impl fmt::Display for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, plan) in self.0.iter().enumerate() {
            write!(f, "{}{plan}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
