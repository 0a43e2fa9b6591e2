//! `/.cheops/v1/…` on every service listener: read-only, for whoever made the request.
//!
//! The id is the key: whoever has it may ask, at any site. A site without a record asks the others,
//! who answer from their own records alone, so that no question goes in a circle. Between agents the
//! same paths also carry what an operator decides about another site's replica.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use cheops_engine::replication::api::{How, NotDone, NotMended};
use cheops_model::{Mark, ServiceName, SiteName};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::body::Body;
use crate::limits::{QUESTION_BYTES_MAX, QUESTION_SITES_AT_ONCE, QUESTION_TIME_MAX};
use crate::peer;
use crate::problem::Problem;
use crate::question::gather;
use crate::worker::Worker;

/// Where these pages are.
pub(crate) const ROOT: &str = "/.cheops/";

/// What is asked for.
enum Page<'a> {
    Sites,
    Operation(&'a str),
    Resource(&'a str),
}

impl Page<'_> {
    fn of(path: &str) -> Option<Page<'_>> {
        let path = path.strip_prefix("/.cheops/v1/")?;
        let id = |rest: &str| !rest.is_empty() && !rest.contains('/');
        match path.split_once('/') {
            None if path == "sites" => Some(Page::Sites),
            Some(("operations", rest)) if id(rest) => Some(Page::Operation(rest)),
            Some(("resources", rest)) if id(rest) => Some(Page::Resource(rest)),
            _ => None,
        }
    }
}

/// Answers a client.
pub(crate) async fn answer(
    worker: &Worker,
    service: &ServiceName,
    head: &Parts,
) -> Result<Response<Body>, Problem> {
    let page = page(head)?;
    // Looking through all records costs something, and asking other sites more.
    let _turn = worker
        .peers
        .take_turn()
        .ok_or_else(|| Problem::NotNow("too many ask at once".to_owned()))?;
    if let Some(known) = here(worker, service, &page).await {
        return Ok(known);
    }
    if let Some(known) = elsewhere(worker, service, head).await {
        return Ok(known);
    }
    Err(unknown(&page))
}

/// Answers an agent, from what this site knows.
pub(crate) async fn for_agent(
    worker: &Worker,
    service: &ServiceName,
    head: &Parts,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    if head.method == Method::POST {
        return decide(worker, service, head.uri.path(), body).await;
    }
    let page = page(head)?;
    let known = here(worker, service, &page).await;
    known.ok_or_else(|| unknown(&page))
}

fn page(head: &Parts) -> Result<Page<'_>, Problem> {
    let read = matches!(head.method, Method::GET | Method::HEAD);
    let page = Page::of(head.uri.path()).filter(|_| read);
    page.ok_or_else(|| {
        Problem::NotFound(
            "GET /.cheops/v1/sites, /.cheops/v1/operations/{id} or /.cheops/v1/resources/{id}"
                .to_owned(),
        )
    })
}

fn unknown(page: &Page<'_>) -> Problem {
    let what = match page {
        Page::Sites => "sites".to_owned(),
        Page::Operation(id) => format!("an operation {id}"),
        Page::Resource(id) => format!("a replicated resource {id}"),
    };
    Problem::NotFound(format!(
        "no site in reach has a record of {what}; ask again when every site is connected"
    ))
}

/// From the records of this site.
async fn here(worker: &Worker, service: &ServiceName, page: &Page<'_>) -> Option<Response<Body>> {
    let engine = &worker.replication;
    match page {
        Page::Sites => Some(json(&engine.sites(&worker.picture()).await)),
        Page::Operation(id) => engine.operation(id).await.map(|item| json(&item)),
        Page::Resource(id) => {
            let known = engine.find(id, Some(service.as_str())).ok()?;
            // A local id may be anybody's guess; the one that clients see is not.
            let resource = match *known.meta == **id {
                true => engine.resource(&known).await?,
                false => return None,
            };
            Some(json(&resource))
        }
    }
}

/// Asks the sites that are connected, a few at a time, until one knows.
async fn elsewhere(worker: &Worker, service: &ServiceName, head: &Parts) -> Option<Response<Body>> {
    let picture = worker.picture();
    let others = picture.view.sites.keys();
    let others = others.filter(|site| **site != picture.here);
    let connected: Vec<&SiteName> = others
        .filter(|site| picture.mark(site) == Mark::Connected)
        .collect();
    let path = head.uri.path();
    let asking = async {
        for some in connected.chunks(QUESTION_SITES_AT_ONCE) {
            let asked = some.iter().map(|site| ask(worker, service, site, path));
            if let Some(known) = first(asked.collect()).await {
                return Some(known);
            }
        }
        None
    };
    timeout(QUESTION_TIME_MAX, asking).await.ok().flatten()
}

/// What the agent of another site knows.
async fn ask(
    worker: &Worker,
    service: &ServiceName,
    site: &SiteName,
    path: &str,
) -> Option<Response<Body>> {
    let response = peer::question(worker, site, service, path).await?;
    if response.status() != StatusCode::OK {
        return None;
    }
    let body = gather(response.into_body(), QUESTION_BYTES_MAX).await?;
    Some(of_bytes(body))
}

/// The first of several futures that gives something.
async fn first<T>(asked: Vec<impl Future<Output = Option<T>>>) -> Option<T> {
    let mut left: Vec<Pin<Box<_>>> = asked.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        let mut at = 0;
        while at < left.len() {
            match left[at].as_mut().poll(context) {
                Poll::Ready(Some(found)) => return Poll::Ready(Some(found)),
                Poll::Ready(None) => drop(left.swap_remove(at)),
                Poll::Pending => at += 1,
            }
        }
        match left.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    })
    .await
}

#[derive(Deserialize)]
struct Mend {
    how: String,
    /// Which, if its caller has given credentials again.
    operation: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Resolve {
    conflict: String,
    take: String,
}

/// What an operator at another site has decided about this site's replica.
async fn decide(
    worker: &Worker,
    service: &ServiceName,
    path: &str,
    body: Incoming,
) -> Result<Response<Body>, Problem> {
    let parts = path
        .strip_prefix("/.cheops/v1/resources/")
        .and_then(|rest| rest.split_once('/'));
    let Some((id, verb)) = parts else {
        return Err(Problem::NotFound("nothing can be decided there".to_owned()));
    };
    let engine = &worker.replication;
    let known = engine.find(id, Some(service.as_str()));
    let known = known.map_err(|_| unknown(&Page::Resource(id)))?;
    let body = gather(body, QUESTION_BYTES_MAX).await.unwrap_or_default();
    let said = match verb {
        "promote" => engine.promote(&known).map_err(not_mended),
        "repair" => {
            let mend: Mend = read(&body)?;
            let words = || Problem::BadBody("how: one of retry, skip, settle".to_owned());
            let how = How::of(&mend.how).ok_or_else(words)?;
            if let Some(operation) = mend.operation.filter(|_| !mend.headers.is_empty()) {
                let pair = |(name, value): (String, String)| (name, value.into_bytes());
                let headers = mend.headers.into_iter().map(pair).collect();
                let renewed = engine.renew(&operation, headers);
                renewed.map_err(|_| unknown(&Page::Operation(&operation)))?;
            }
            engine.repair(&known, how).await.map_err(not_mended)
        }
        "resolve" => {
            let Resolve { conflict, take } = read(&body)?;
            let resolved = engine.resolve(&known, &conflict, &take).await;
            resolved.map(drop)
        }
        _ => return Err(Problem::NotFound(format!("nobody can {verb} a resource"))),
    };
    match said {
        Ok(()) => match engine.resource(&known).await {
            Some(resource) => Ok(json(&resource)),
            None => Err(unknown(&Page::Resource(id))),
        },
        Err(NotDone::Gone) => Err(unknown(&Page::Resource(id))),
        Err(NotDone::Refused(why)) => Err(Problem::Conflict(why)),
        Err(NotDone::NotNow(why)) => Err(Problem::NotNow(why)),
        Err(NotDone::Unknown(detail)) => Err(Problem::OutcomeUnknown {
            site: worker.here.clone(),
            detail,
        }),
    }
}

fn not_mended(why: NotMended) -> NotDone {
    match why {
        NotMended::Gone => NotDone::Gone,
        NotMended::Busy => {
            NotDone::Refused("its service is being called for it; ask again".to_owned())
        }
        NotMended::Stopped => NotDone::NotNow("its agent stops".to_owned()),
    }
}

fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::BadBody(error.to_string()))
}

fn json<T: Serialize>(value: &T) -> Response<Body> {
    of_bytes(Bytes::from(serde_json::to_vec(value).unwrap_or_default()))
}

fn of_bytes(text: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    let value = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
