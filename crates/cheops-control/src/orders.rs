//! What is decided about where resources live, and about conflicts: `/v1/resources/adopt`,
//! `/v1/resources/{id}/rescope`, `/v1/conflicts/{id}/resolve`. `"plan": true` shows what would be done.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cheops_engine::Picture;
use cheops_engine::replication::api::{Adoption, NotDone};
use cheops_model::{Failover, Guarantee, ServiceName, SiteName};
use cheops_scope::{Plan, parse};
use serde::Deserialize;
use serde_json::json;

use crate::problem::Problem;
use crate::replicas::{Which, find, no_record, pass_on, read};
use crate::server::Sources;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Adopt {
    service: String,
    local_id: String,
    scope: String,
    path: Option<String>,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    plan: bool,
}

pub(crate) async fn adopt(
    State(sources): State<Sources>,
    body: Bytes,
) -> Result<Response, Problem> {
    let adopt: Adopt = read(&body)?;
    let picture = sources.picture();
    let service = service(&picture, &adopt.service)?;
    let placed = Placed::of(&picture, &service, &adopt.scope)?;
    if let Some(why) = placed.lacking(&picture, &service) {
        return Err(Problem::Conflict(why));
    }
    let wanted = Adoption {
        aliases: aliases(&picture, &service),
        service: service.to_string(),
        local_id: adopt.local_id,
        path: adopt.path,
        without: adopt.without,
        headers: lower(adopt.headers),
        sites: placed.sites,
        scope: adopt.scope,
        failover: placed.failover,
    };
    if adopt.plan {
        let plan = sources.replication.plan_adoption(&wanted).await;
        return Ok(Json(plan.map_err(|why| not_done(&wanted.local_id, why))?).into_response());
    }
    let adopted = sources.replication.adopt(&wanted).await;
    Ok(Json(adopted.map_err(|why| not_done(&wanted.local_id, why))?).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rescope {
    scope: String,
    #[serde(default)]
    plan: bool,
}

pub(crate) async fn rescope(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
    body: Bytes,
) -> Result<Response, Problem> {
    let rescope: Rescope = read(&body)?;
    let known = find(&sources, &id, &which)?;
    let picture = sources.picture();
    let service = service(&picture, &known.service)?;
    let placed = Placed::of(&picture, &service, &rescope.scope)?;
    let lacking = match placed.lacking(&picture, &service) {
        Some(why) => Some(why),
        None => sources.replication.lacking(&known, &placed.sites).await,
    };
    let plan = sources
        .replication
        .plan_move(&known, &placed.sites, lacking);
    if rescope.plan {
        return Ok(Json(plan).into_response());
    }
    if let Some(why) = plan.blocked {
        return Err(Problem::Conflict(why));
    }
    let moved = match plan.joining.is_empty() && plan.leaving.is_empty() {
        true => sources
            .replication
            .resource(&known)
            .await
            .ok_or(NotDone::Gone),
        false => {
            let scope = &rescope.scope;
            sources
                .replication
                .rescope(&known, placed.sites, scope)
                .await
        }
    };
    Ok(Json(moved.map_err(|why| not_done(&id, why))?).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolve {
    take: String,
}

pub(crate) async fn resolve(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    let Resolve { take } = read(&body)?;
    let missing = || Problem::NotFound(format!("no conflict {id} is known here"));
    let conflict = sources.replication.conflict(&id).await;
    let conflict = conflict.ok_or_else(missing)?;
    let resource = conflict.resource.ok_or_else(missing)?;
    let which = Which {
        service: Some(conflict.service),
    };
    let known = find(&sources, &resource, &which)?;
    if known.leader != sources.here() {
        let decision = json!({ "conflict": id, "take": take });
        return pass_on(&sources, &known, known.leader.clone(), "resolve", decision).await;
    }
    let resolved = sources.replication.resolve(&known, &id, &take).await;
    Ok(Json(resolved.map_err(|why| not_done(&resource, why))?).into_response())
}

/// Where a scope places the resources of one service.
struct Placed {
    sites: Vec<SiteName>,
    failover: Option<Failover>,
}

impl Placed {
    fn of(picture: &Picture, service: &ServiceName, scope: &str) -> Result<Placed, Problem> {
        let bad = |why: String| Problem::BadRequest(format!("scope: {why}"));
        let resolved = parse(scope)
            .and_then(|scope| scope.check())
            .and_then(|scope| scope.resolve(&picture.world))
            .map_err(|error| bad(error.title))?;
        let plan = resolved.plan_of(service);
        let plan = plan.ok_or_else(|| bad(format!("it says nothing of {service}")))?;
        let (of, failover) = match plan {
            Plan::At(site) => return Ok(Placed::alone(site)),
            Plan::Replicate {
                of,
                guarantee: Guarantee::Eventual { failover, .. },
            } => (of, *failover),
            plan => return Err(bad(format!("no agent places resources by {plan} yet"))),
        };
        let site = |plan: &Plan| match plan {
            Plan::At(site) => Some(site.clone()),
            _ => None,
        };
        let sites: Option<Vec<SiteName>> = of.iter().map(site).collect();
        let sites = sites.ok_or_else(|| bad("name each site, joined by `&`".to_owned()))?;
        Ok(Placed { sites, failover })
    }

    fn alone(site: &SiteName) -> Placed {
        Placed {
            sites: vec![site.clone()],
            failover: None,
        }
    }

    /// Why some of these sites cannot have resources of that service.
    fn lacking(&self, picture: &Picture, service: &ServiceName) -> Option<String> {
        let here = &picture.here;
        let lacks = |site: &&SiteName| *site != here && !picture.may_run(site, service);
        if let Some(site) = self.sites.iter().find(lacks) {
            return Some(format!("{site} announces no service `{service}`"));
        }
        let mut others = self.sites.iter().filter(|site| *site != here);
        if let Some(against) = others.find_map(|site| picture.allows(here, site).err()) {
            return Some(against.to_string());
        }
        picture.same_version(&self.sites, service).err()
    }
}

/// The registered name of a service, which may be asked for by another.
fn service(picture: &Picture, name: &str) -> Result<ServiceName, Problem> {
    let found = ServiceName::new(name).ok();
    let found = found.and_then(|name| picture.world.service(&name));
    let missing = || Problem::BadRequest(format!("service: this site knows no service `{name}`"));
    let found = found.ok_or_else(missing)?;
    Ok(picture.world.service_name(found).clone())
}

fn aliases(picture: &Picture, service: &ServiceName) -> Vec<String> {
    let own = picture.view.sites.get(&picture.here);
    let said = own.and_then(|own| own.announcement.as_deref());
    let services = said.into_iter().flat_map(|said| &said.services);
    let found = services.filter(|found| found.name == *service);
    let names = found.flat_map(|found| &found.aliases);
    names.map(ServiceName::to_string).collect()
}

/// Headers as they stand in a log.
pub(crate) fn lower(headers: BTreeMap<String, String>) -> Vec<(String, Vec<u8>)> {
    let pair = |(name, value): (String, String)| (name.to_ascii_lowercase(), value.into_bytes());
    headers.into_iter().map(pair).collect()
}

fn not_done(id: &str, why: NotDone) -> Problem {
    match why {
        NotDone::Gone => no_record(id),
        NotDone::Refused(why) => Problem::Conflict(why),
        NotDone::NotNow(why) => Problem::NotNow(why),
        NotDone::Unknown(why) => Problem::OutcomeUnknown(why),
    }
}
