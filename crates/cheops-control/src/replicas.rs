//! `/v1/resources`, `/v1/operations` and `/v1/conflicts`: what lives on several sites.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cheops_engine::replication::Known;
use cheops_engine::replication::api::{
    How, List, Lookup, NotMended, NotRetried, OperationFilter, OperationItem, Page, Question,
    Resource, ResourceFilter, SiteAnswer,
};
use cheops_model::SiteName;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::orders;
use crate::problem::Problem;
use crate::server::Sources;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    service: Option<String>,
    state: Option<String>,
    resource: Option<String>,
    converged: Option<bool>,
    limit: Option<usize>,
    cursor: Option<String>,
}

impl Wanted {
    fn page(&self) -> Result<Page, Problem> {
        let page = Page::new(self.limit, self.cursor.as_deref());
        page.ok_or_else(|| Problem::BadRequest("cursor: give one that a page gave".to_owned()))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    pub(crate) service: Option<String>,
}

pub(crate) async fn resources(
    State(sources): State<Sources>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<List<Resource>>, Problem> {
    let page = wanted.page()?;
    let filter = ResourceFilter {
        service: wanted.service,
        state: wanted.state,
        converged: wanted.converged,
    };
    Ok(Json(sources.replication.resources(filter, page).await))
}

pub(crate) async fn resource(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let known = find(&sources, &id, &which)?;
    let resource = sources.replication.resource(&known).await;
    Ok(single(&headers, &resource.ok_or_else(|| no_record(&id))?))
}

pub(crate) async fn diff(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
) -> Result<Response, Problem> {
    let known = find(&sources, &id, &which)?;
    let diff = sources.replication.diff(&known, &sources.ask).await;
    Ok(Json(diff.ok_or_else(|| no_record(&id))?).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mend {
    site: Option<SiteName>,
    how: String,
}

pub(crate) async fn repair(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
    body: Bytes,
) -> Result<Response, Problem> {
    let mend: Mend = read(&body)?;
    let how = How::of(&mend.how)
        .ok_or_else(|| Problem::BadRequest("how: one of retry, skip, settle".to_owned()))?;
    let known = find(&sources, &id, &which)?;
    let site = involved(&sources, &known, mend.site)?;
    if site == sources.here() {
        let mended = sources.replication.repair(&known, how).await;
        return done(&sources, &known, mended).await;
    }
    let decision = json!({ "how": mend.how });
    pass_on(&sources, &known, site, "repair", decision).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lead {
    site: Option<SiteName>,
}

pub(crate) async fn promote(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
    body: Bytes,
) -> Result<Response, Problem> {
    let lead: Lead = read(&body)?;
    let known = find(&sources, &id, &which)?;
    let site = involved(&sources, &known, lead.site)?;
    if site == sources.here() {
        let told = sources.replication.promote(&known);
        return done(&sources, &known, told).await;
    }
    pass_on(&sources, &known, site, "promote", json!({})).await
}

pub(crate) async fn operations(
    State(sources): State<Sources>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<List<OperationItem>>, Problem> {
    let page = wanted.page()?;
    let filter = OperationFilter {
        resource: wanted.resource,
        service: wanted.service,
        state: wanted.state,
    };
    Ok(Json(sources.replication.operations(filter, page).await))
}

pub(crate) async fn operation(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let item = sources.replication.operation(&id).await;
    Ok(single(&headers, &item.ok_or_else(|| no_operation(&id))?))
}

/// How an operation is tried again.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Again {
    /// Credentials of its caller, in place of those that it came with.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// Tried again on every site that will not, cannot now, or may have done it.
pub(crate) async fn retry(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    let Again { headers } = match body.is_empty() {
        true => Again::default(),
        false => read(&body)?,
    };
    let item = sources.replication.operation(&id).await;
    let item = item.ok_or_else(|| no_operation(&id))?;
    let stuck = |state: &str| matches!(state, "refused" | "waiting" | "in-doubt");
    let sites = item.sites.iter().filter(|(_, step)| stuck(&step.state));
    let sites: Vec<SiteName> = sites.map(|(site, _)| site.clone()).collect();
    if sites.is_empty() {
        let detail = "it is stuck nowhere: what is queued goes on by itself".to_owned();
        return Err(Problem::Conflict(detail));
    }
    let resource = item.resource.as_deref().ok_or_else(|| {
        Problem::Conflict("nobody has made its resource yet; cancel it, or wait".to_owned())
    })?;
    let known = sources.replication.find(resource, item.service.as_deref());
    let known = known.map_err(|_| no_record(resource))?;
    for site in sites {
        if site == sources.here() {
            if !headers.is_empty() {
                let renewed = sources
                    .replication
                    .renew(&id, orders::lower(headers.clone()));
                renewed.map_err(|_| no_operation(&id))?;
            }
            let mended = sources.replication.repair(&known, How::RETRY).await;
            done(&sources, &known, mended).await?;
        } else {
            let decision = json!({ "how": "retry", "operation": id, "headers": headers });
            let there = pass_on(&sources, &known, site, "repair", decision).await?;
            if !there.status().is_success() {
                return Ok(there);
            }
        }
    }
    let item = sources.replication.operation(&id).await;
    Ok(Json(item.ok_or_else(|| no_operation(&id))?).into_response())
}

pub(crate) async fn cancel(
    State(sources): State<Sources>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    match sources.replication.cancel_operation(&id).await {
        Ok(()) => {
            let item = sources.replication.operation(&id).await;
            Ok(Json(item.ok_or_else(|| no_operation(&id))?).into_response())
        }
        Err(NotRetried::Unknown) => Err(no_operation(&id)),
        Err(NotRetried::TooLate) => Err(Problem::Conflict(
            "some site may have been called for it; undo it by another request".to_owned(),
        )),
        Err(NotRetried::NotNow) => Err(Problem::NotNow("the agent has too much to do".to_owned())),
    }
}

pub(crate) async fn conflicts(
    State(sources): State<Sources>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Problem> {
    let page = wanted.page()?;
    Ok(Json(sources.replication.conflicts(page).await).into_response())
}

pub(crate) async fn conflict(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let conflict = sources.replication.conflict(&id).await;
    let missing = || Problem::NotFound(format!("no conflict {id} is known here"));
    Ok(single(&headers, &conflict.ok_or_else(missing)?))
}

pub(crate) fn find(sources: &Sources, id: &str, which: &Which) -> Result<Arc<Known>, Problem> {
    let found = sources.replication.find(id, which.service.as_deref());
    found.map_err(|fault| match fault {
        Lookup::Unknown => no_record(id),
        Lookup::Several(found) => Problem::Ambiguous {
            candidates: found
                .iter()
                .map(|known| (known.service.to_string(), known.meta.to_string()))
                .collect(),
        },
    })
}

pub(crate) fn no_record(id: &str) -> Problem {
    Problem::NotFound(format!(
        "this site has no record of a resource {id}; ask a site where it lives"
    ))
}

fn no_operation(id: &str) -> Problem {
    Problem::NotFound(format!(
        "this site knows of no operation {id}; ask the site where it entered, or where it runs"
    ))
}

fn involved(sources: &Sources, known: &Known, site: Option<SiteName>) -> Result<SiteName, Problem> {
    let site = site.unwrap_or_else(|| sources.here());
    if known.sites.contains(&site) {
        return Ok(site);
    }
    let names: Vec<&str> = known.sites.iter().map(SiteName::as_str).collect();
    Err(Problem::BadRequest(format!(
        "site: {site} has no replica of it; name one of {}",
        names.join(", ")
    )))
}

/// What an operator decides about another site's replica is done by that site's agent.
pub(crate) async fn pass_on(
    sources: &Sources,
    known: &Known,
    site: SiteName,
    verb: &str,
    decision: Value,
) -> Result<Response, Problem> {
    let question = Question {
        site: site.clone(),
        service: known.service.to_string(),
        method: "POST",
        path: format!("/.cheops/v1/resources/{}/{verb}", known.meta),
        headers: Vec::new(),
        body: decision.to_string().into_bytes(),
    };
    let unreachable = |why: String| Problem::Unreachable {
        site: site.to_string(),
        why,
    };
    let SiteAnswer { status, body, .. } = (sources.ask)(question).await.map_err(unreachable)?;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let media = match status.is_success() {
        true => "application/json",
        false => "application/problem+json",
    };
    Ok((status, [(header::CONTENT_TYPE, media)], body).into_response())
}

async fn done(
    sources: &Sources,
    known: &Known,
    mended: Result<(), NotMended>,
) -> Result<Response, Problem> {
    match mended {
        Ok(()) => {
            let resource = sources.replication.resource(known).await;
            Ok(Json(resource.ok_or_else(|| no_record(&known.meta))?).into_response())
        }
        Err(NotMended::Gone) => Err(no_record(&known.meta)),
        Err(NotMended::Busy) => Err(Problem::Conflict(
            "its service is being called for it; ask again".to_owned(),
        )),
        Err(NotMended::Stopped) => Err(Problem::NotNow("the agent stops".to_owned())),
    }
}

pub(crate) fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::BadRequest(error.to_string()))
}

/// One object, with a tag that changes when it does.
fn single<T: Serialize>(asked: &HeaderMap, object: &T) -> Response {
    let body = serde_json::to_vec(object).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let known = asked.get(header::IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    let media = "application/json".to_owned();
    ([(header::CONTENT_TYPE, media), (header::ETAG, tag)], body).into_response()
}
