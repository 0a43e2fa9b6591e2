//! The other end of a forwarded request: an agent of this mesh asks for a service of this site.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Instant;

use cheops_model::SiteName;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;

use crate::body::Body;
use crate::correlation::Trail;
use crate::envelope::Envelope;
use crate::guard::Asker;
use crate::headers;
use crate::here::{self, Call};
use crate::limits;
use crate::onward;
use crate::own;
use crate::problem::Problem;
use crate::pulse::{Patience, Pulse};
use crate::replicate;
use crate::route::Journey;
use crate::service::Service;
use crate::upgrade;
use crate::worker::Worker;

/// Answers one request that `peer`, known by its certificate, forwards.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    peer: SiteName,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let started = Instant::now();
    let mut response = answer(&worker, &peer, request, started)
        .await
        .unwrap_or_else(|problem| {
            tracing::debug!(code = problem.code(), %peer, "refused");
            problem.into_response()
        });
    let took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let out = response.headers_mut();
    out.append(header::VIA, worker.stamps.via.clone());
    worker.stamps.timing(out, took_us);
    Ok(response)
}

async fn answer(
    worker: &Rc<Worker>,
    peer: &SiteName,
    request: Request<Incoming>,
    started: Instant,
) -> Result<Response<Body>, Problem> {
    let (mut head, body) = request.into_parts();
    let envelope = head.headers.get(headers::ENVELOPE).and_then(Envelope::read);
    let Some(envelope) = envelope else {
        let detail = format!("{peer} sent a request without a valid envelope");
        return Err(Problem::ForbiddenByPolicy(detail));
    };
    check_way(worker, &envelope)?;
    let picture = worker.picture();
    onward::check(&picture, peer, &envelope)?;
    if envelope.target != worker.here {
        return onward::carry(worker, envelope, head, body, started).await;
    }
    onward::check_hold(&picture, &head)?;
    if head.uri.path().starts_with(own::ROOT) {
        return own::for_agent(worker, &envelope.service, &head, body).await;
    }
    let service = service_of(worker, &envelope)?;
    let upgrade = head.headers.remove(headers::UPGRADE_ASKED);
    let scope = head.headers.remove(headers::SCOPE);
    let host = head.headers.remove(headers::HOST);
    let told = head.headers.remove(headers::HOMES);
    for homes in worker.homes().iter() {
        homes.learn(peer, told.as_ref(), &head.headers, Instant::now());
    }
    let has_baggage = head.headers.contains_key(headers::BAGGAGE);
    headers::clean(&mut head.headers);
    head.headers.remove(header::HOST);
    strip_authority(&mut head, host);
    let trail = scope.map(|scope| Trail {
        scope,
        entry: envelope.entry.clone(),
        hops: envelope.hops,
    });
    let pulse = Pulse::new(started);
    let limit = service.config.deadline.min(envelope.deadline);
    let patience = Patience {
        pulse: pulse.clone(),
        limit,
    };
    if upgrade.is_some() {
        // Its body is no body: it carries what the client says once it has left HTTP.
        let call = Call {
            head,
            body: Body::empty(),
            upgrade,
            asker: Asker::Peer,
            has_baggage,
        };
        let response = here::run(worker, &service, call, trail.as_ref(), &patience).await?;
        return Ok(upgrade::answer_agent(worker, response, body));
    }
    let call = Call {
        head,
        body: Body::Request(body, pulse),
        upgrade,
        asker: Asker::Peer,
        has_baggage,
    };
    let journey = Journey {
        worker,
        service: &service,
        trail: trail.as_ref(),
        patience,
    };
    replicate::here(&journey, call).await
}

/// That the request does not go round in circles.
fn check_way(worker: &Worker, envelope: &Envelope) -> Result<(), Problem> {
    if envelope.visited.contains(&worker.here) {
        return Err(Problem::Loop(format!("{} was visited before", worker.here)));
    }
    if envelope.hops > limits::HOPS_MAX {
        let detail = format!(
            "the workflow made more than {} calls in a row",
            limits::HOPS_MAX
        );
        return Err(Problem::Loop(detail));
    }
    Ok(())
}

/// The service of this site that the envelope names: nothing else can be reached this way.
fn service_of(worker: &Worker, envelope: &Envelope) -> Result<Rc<Service>, Problem> {
    worker
        .service(&envelope.service)
        .ok_or_else(|| Problem::ServiceNotAtSite {
            service: envelope.service.as_str().to_owned(),
            site: worker.here.clone(),
        })
}

/// Puts back the host that the client asked for.
fn strip_authority(head: &mut http::request::Parts, host: Option<HeaderValue>) {
    if let Some(host) = host {
        head.headers.insert(header::HOST, host);
    }
    let path = head.uri.path_and_query().cloned();
    let mut parts = http::uri::Parts::default();
    parts.path_and_query = path;
    head.uri = http::Uri::from_parts(parts).unwrap_or_default();
}
