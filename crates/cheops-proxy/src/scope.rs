//! Header bytes → what to do with the request, remembered while the world stays as it is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cheops_engine::Picture;
use cheops_model::{Guarantee, ServiceName, SiteName};
use cheops_scope::{Memo, Plan, parse_bytes};
use http::HeaderValue;

use crate::limits;
use crate::problem::Problem;
use crate::replicate::{Queue, Spread};

/// What a scope means for one service.
pub(crate) struct Decision {
    /// Its text, as it travels on.
    pub(crate) scope: HeaderValue,
    pub(crate) route: Route,
    /// The scope says nothing of this service.
    pub(crate) unbound: bool,
}

/// Where the request goes.
pub(crate) enum Route {
    /// This site's own service.
    Here,
    /// Another site's.
    Site(SiteName),
    /// The first that can be used.
    FirstOf(Vec<SiteName>),
    /// The same on each of them.
    Replicate(Spread),
    /// One site, also while it is away.
    Queue(Queue),
    /// A plan that is not carried out yet.
    NotYet(String),
}

/// Reads scopes for one service on one thread.
pub(crate) struct Decider {
    service: ServiceName,
    memo: RefCell<Memo<Rc<Decision>>>,
    /// The picture that the memo was made with.
    version: Cell<u64>,
}

impl Decider {
    pub(crate) fn new(service: ServiceName) -> Decider {
        let memo = RefCell::new(Memo::new(limits::MEMO_SCOPES));
        Decider {
            service,
            memo,
            version: Cell::new(0),
        }
    }

    /// The meaning of `text` for a request that entered the mesh at `entry`.
    pub(crate) fn decide(
        &self,
        picture: &Picture,
        entry: &SiteName,
        text: &[u8],
    ) -> Result<Rc<Decision>, Problem> {
        let mut memo = self.memo.borrow_mut();
        if self.version.replace(picture.version) != picture.version {
            memo.clear();
        }
        // Nearly every scope is read where it entered; the others are told apart by the entry.
        let foreign;
        let key = if *entry == picture.here {
            text
        } else {
            foreign = [entry.as_str().as_bytes(), b"\0", text].concat();
            &foreign
        };
        if let Some(known) = memo.get(key) {
            return Ok(known);
        }
        let decision = Rc::new(self.read(picture, entry, text)?);
        memo.put(key, decision.clone());
        Ok(decision)
    }

    fn read(&self, picture: &Picture, entry: &SiteName, text: &[u8]) -> Result<Decision, Problem> {
        let checked = parse_bytes(text)?.check()?;
        let world = &picture.world;
        // An entry site that this agent has not heard of: `here` can only mean this site.
        let here = world.site(entry.as_str()).unwrap_or_else(|| world.here());
        let resolved = checked.resolve_from(world, here)?;
        let plan = resolved.plan_of(&self.service);
        Ok(Decision {
            // As received: the canonical form may be longer than a scope may be.
            scope: HeaderValue::from_bytes(text).map_err(|_| not_a_header())?,
            route: plan.map_or(Route::Here, |plan| Route::of(plan, &picture.here)),
            unbound: plan.is_none(),
        })
    }
}

impl Route {
    fn of(plan: &Plan, here: &SiteName) -> Route {
        match plan {
            Plan::At(site) if site == here => Route::Here,
            Plan::At(site) => Route::Site(site.clone()),
            Plan::FirstOf(of) => {
                let sites: Option<Vec<SiteName>> = of.iter().map(one_site).collect();
                sites.map_or_else(|| Route::NotYet(plan.to_string()), Route::FirstOf)
            }
            Plan::Replicate { of, guarantee } => {
                let sites: Option<Vec<SiteName>> = of.iter().map(one_site).collect();
                let spread = |sites| {
                    Route::Replicate(Spread {
                        sites,
                        guarantee: guarantee.clone(),
                        parent: None,
                    })
                };
                sites.map_or_else(|| Route::NotYet(plan.to_string()), spread)
            }
            Plan::Queue {
                at,
                guarantee: Guarantee::Eventual { .. },
            } if at == here => Route::Here,
            Plan::Queue {
                at,
                guarantee: Guarantee::Eventual { ttl, .. },
            } => Route::Queue(Queue {
                site: at.clone(),
                ttl: *ttl,
            }),
            Plan::Span { .. } | Plan::Queue { .. } | Plan::Keep { .. } => {
                Route::NotYet(plan.to_string())
            }
        }
    }
}

fn one_site(plan: &Plan) -> Option<SiteName> {
    match plan {
        Plan::At(site) => Some(site.clone()),
        _ => None,
    }
}

fn not_a_header() -> Problem {
    Problem::NotImplemented("this scope cannot travel in a header".to_owned())
}
