//! `/v1` on the admin listener.

use std::future::Future;
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, middleware};
use cheops_engine::events::Bus;
use cheops_engine::mesh::Council;
use cheops_engine::replication::Replication;
use cheops_engine::replication::api::AskSite;
use cheops_engine::{Picture, api};
use cheops_scope::{Explanation, ScopeError, parse};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::guard;
use crate::problem::Problem;
use crate::routes;

/// What the server tells of.
#[derive(Clone)]
pub struct Sources {
    /// The world as it is.
    pub picture: watch::Receiver<Arc<Picture>>,
    /// What this site has of other sites' resources.
    pub replication: Replication,
    /// Asks other sites.
    pub ask: AskSite,
    /// What happens.
    pub events: Bus,
    /// Who takes what operators decide.
    pub council: Council,
    /// The counters of the data plane, as Prometheus text.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// The program's version.
    pub version: &'static str,
}

impl Sources {
    pub(crate) fn picture(&self) -> Arc<Picture> {
        self.picture.borrow().clone()
    }

    pub(crate) fn here(&self) -> cheops_model::SiteName {
        self.picture.borrow().here.clone()
    }
}

/// Serves until `stop` is done.
pub async fn serve(
    listener: TcpListener,
    sources: Sources,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let events = sources.events.clone();
    // A stream of events has no end of its own, and whoever stops waits for open answers.
    let stop = async move {
        stop.await;
        events.close();
    };
    axum::serve(listener, router(sources))
        .with_graceful_shutdown(stop)
        .await
}

fn router(sources: Sources) -> Router {
    routes::router()
        .fallback(missing)
        .layer(middleware::from_fn(guard::local_only))
        .with_state(sources)
}

#[derive(Serialize)]
pub(crate) struct Health {
    site: cheops_model::SiteName,
    ready: bool,
    version: &'static str,
}

pub(crate) async fn health(State(sources): State<Sources>) -> Json<Health> {
    let site = sources.picture().here.clone();
    Json(Health {
        site,
        ready: true,
        version: sources.version,
    })
}

pub(crate) async fn sites(State(sources): State<Sources>) -> Json<api::Sites> {
    Json(sources.replication.sites(&sources.picture()).await)
}

pub(crate) async fn metrics(State(sources): State<Sources>) -> Response {
    let sites = api::metrics(&sources.picture());
    let text = (sources.metrics)() + &sites + &sources.replication.metrics().await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn missing(request: Request) -> Problem {
    Problem::NotFound(format!(
        "no page {}; see /v1/openapi.json",
        request.uri().path()
    ))
}

#[derive(Deserialize)]
pub(crate) struct Pair {
    from: String,
    to: String,
}

/// Measured where there is a measurement from here, else estimated, for any two sites.
pub(crate) async fn rtt(
    State(sources): State<Sources>,
    Query(pair): Query<Pair>,
) -> Result<Json<api::RoundTrip>, Problem> {
    let picture = sources.picture();
    let site = |name: &str| {
        let known = picture.view.sites.keys().find(|site| site.as_str() == name);
        known.ok_or_else(|| Problem::NotFound(format!("no site `{name}` is known")))
    };
    let (from, to) = (site(&pair.from)?, site(&pair.to)?);
    Ok(Json(api::round_trip(&picture, from, to)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    scope: String,
    at: Option<String>,
}

#[derive(Serialize)]
struct Refused {
    error: ScopeError,
}

pub(crate) async fn explain(State(sources): State<Sources>, body: bytes::Bytes) -> Response {
    let question: Question = match serde_json::from_slice(&body) {
        Ok(question) => question,
        Err(error) => return Problem::BadRequest(error.to_string()).into_response(),
    };
    let picture = sources.picture();
    let world = &picture.world;
    let here = match question.at.as_deref() {
        None => world.here(),
        Some(at) => match world.site(at) {
            Some(site) => site,
            None => return Problem::NotFound(format!("no site `{at}` is known")).into_response(),
        },
    };
    let explained = parse(&question.scope)
        .and_then(|scope| scope.check())
        .and_then(|scope| Explanation::from(&scope, world, here));
    match explained {
        Ok(explanation) => {
            let text = explanation.text();
            Json(Explained { explanation, text }).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, Json(Refused { error })).into_response(),
    }
}

/// The contract's object, and the same for a person.
#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    explanation: Explanation,
    text: String,
}
