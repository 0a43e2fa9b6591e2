//! `eventual(site)`: a request for one site that may be away. In reach, it goes there as ever; else it is
//! kept on this site's disk and brought there, in order, when the site is back.

use std::time::Duration;

use cheops_engine::replication::BODY_BYTES_MAX;
use cheops_model::{Mark, SiteName};
use http::{HeaderMap, Response};

use super::body::of_request;
use super::write::{self, HandedIn};
use super::{Concern, answer, here, target};
use crate::body::{Body, Kept};
use crate::here::Call;
use crate::problem::Problem;
use crate::route::Journey;

/// Where a request is to go, and how long it may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) site: SiteName,
    /// As the scope says.
    pub(crate) ttl: Option<Duration>,
}

/// A request whose scope says `eventual(site)`.
pub(crate) async fn carry(
    journey: &Journey<'_>,
    queue: &Queue,
    call: Call,
) -> Result<Response<Body>, Problem> {
    if call.head.method.is_safe() || call.upgrade.is_some() {
        return journey.to(&queue.site, call).await;
    }
    // A replicant has its own order, whatever the scope says.
    match journey
        .service
        .replicas
        .concern(&call.head.method, target(&call))
    {
        Concern::Write(..) | Concern::Below(_) => return here(journey, call).await,
        Concern::None | Concern::Mention(_) | Concern::Read(_) | Concern::Unknown(_) => (),
    }
    let picture = journey.worker.picture();
    let connected = picture.mark(&queue.site) == Mark::Connected;
    if !connected || responds_async(&call.head.headers) || has_backlog(journey, &queue.site).await {
        return keep(journey, queue, call).await;
    }
    let mut kept = match call.body {
        Body::Request(incoming, pulse) => Kept::new(incoming, pulse),
        body => return journey.to(&queue.site, Call { body, ..call }).await,
    };
    let Call {
        head,
        asker,
        has_baggage,
        ..
    } = call;
    let with = |kept: &Kept| Call {
        head: head.clone(),
        body: Body::Kept(kept.clone()),
        upgrade: None,
        asker,
        has_baggage,
    };
    match journey.to(&queue.site, with(&kept)).await {
        // The cut was not known yet. Nothing was done there.
        Err(Problem::SiteUnreachable(site)) => match kept.again() {
            Some(again) => {
                kept = again;
                keep(journey, queue, with(&kept)).await
            }
            None => Err(Problem::SiteUnreachable(site)),
        },
        answered => answered,
    }
}

fn responds_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").iter();
    let mut words = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    words.any(|word| word.trim().eq_ignore_ascii_case("respond-async"))
}

/// What was asked for earlier comes first.
async fn has_backlog(journey: &Journey<'_>, site: &SiteName) -> bool {
    let replicas = &journey.service.replicas;
    let waiting = replicas.engine.queued_for(replicas.service.as_str(), site);
    waiting.await > 0
}

async fn keep(
    journey: &Journey<'_>,
    queue: &Queue,
    mut call: Call,
) -> Result<Response<Body>, Problem> {
    let (picture, name) = (journey.worker.picture(), &journey.service.config.name);
    if !picture.may_run(&queue.site, name) {
        return Err(Problem::ServiceNotAtSite {
            service: name.to_string(),
            site: queue.site.clone(),
        });
    }
    if let Err(against) = picture.allows(&picture.here, &queue.site) {
        return Err(Problem::ForbiddenByTopology(against.to_string()));
    }
    let ttl = queue.ttl.unwrap_or(journey.service.config.queue_ttl);
    let body = std::mem::replace(&mut call.body, Body::empty());
    let body = of_request(journey.worker, &journey.patience, body, BODY_BYTES_MAX).await?;
    let draft = write::draft(journey, &call, body, None);
    let submission = draft.queued(&queue.site, ttl)?;
    let handed_in = HandedIn::of(&submission);
    let engine = &journey.service.replicas.engine;
    let answer = engine.submit(submission).await;
    answer::respond(journey, &handed_in, answer).await
}
