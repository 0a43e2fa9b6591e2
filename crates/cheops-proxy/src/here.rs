//! The end of the way: calling this site's own service.

use std::pin::pin;
use std::time::{Duration, Instant};

use cheops_engine::replication::Replaced;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;

use crate::backend::Fault;
use crate::body::Body;
use crate::carrier::{self, Carrier};
use crate::correlation::Trail;
use crate::guard::{Asker, Pass};
use crate::headers;
use crate::problem::Problem;
use crate::pulse::Patience;
use crate::service::Service;
use crate::upgrade;
use crate::worker::Worker;

/// A request for a service of this site, cleaned of what belongs to the last hop.
pub(crate) struct Call {
    pub(crate) head: Parts,
    pub(crate) body: Body,
    /// What the client wants to leave HTTP for.
    pub(crate) upgrade: Option<HeaderValue>,
    pub(crate) asker: Asker,
    /// Whether it has baggage, which may hold a scope.
    pub(crate) has_baggage: bool,
}

/// A call that was made, and what its answer is read by.
pub(crate) struct Called {
    /// The request changes nothing.
    pub(crate) is_safe: bool,
    /// It asked to leave HTTP.
    pub(crate) may_leave: bool,
    /// How long the service may take.
    pub(crate) limit: Duration,
    pub(crate) pass: Option<Pass>,
    pub(crate) replaced: Vec<Replaced>,
}

/// Calls the service and says who answered.
pub(crate) async fn run(
    worker: &Worker,
    service: &Service,
    mut call: Call,
    trail: Option<&Trail>,
    patience: &Patience,
) -> Result<Response<Body>, Problem> {
    let replaced = carry(worker, service, &mut call, trail)?;
    prepare(&mut call.head, worker);
    let may_leave = call.upgrade.is_some();
    if let Some(protocol) = call.upgrade {
        upgrade::ask(&mut call.head.headers, protocol);
    }
    let pass = enter(worker, service, call.asker)?;
    let called = Called {
        is_safe: call.head.method.is_safe(),
        may_leave,
        limit: patience.limit,
        pass,
        replaced,
    };
    let mints = service.homes.as_ref().filter(|h| h.mints(&call.head));
    let request = Request::from_parts(call.head, call.body);
    let sending = pin!(service.backend.send(request));
    let sent = worker.sweep.within(patience, sending).await;
    let mut response = called.settle(worker, service, sent)?;
    if let Some(homes) = mints {
        homes.minted(&worker.here, response.headers_mut(), Instant::now());
    }
    Ok(response)
}

impl Called {
    /// The answer as it goes on, or why there is none; `None` is one that was waited for too long.
    pub(crate) fn settle(
        self,
        worker: &Worker,
        service: &Service,
        sent: Option<Result<Response<Incoming>, Fault>>,
    ) -> Result<Response<Body>, Problem> {
        let failed = |detail| Problem::ServiceFailed {
            site: worker.here.clone(),
            detail: format!("{} of {}: {detail}", service.config.name, worker.here),
        };
        let unknown = |detail| Problem::OutcomeUnknown {
            site: worker.here.clone(),
            detail,
        };
        let response = match sent {
            Some(Ok(response)) => response,
            no_answer => {
                if let Some(pass) = self.pass {
                    pass.failed(Instant::now());
                }
                return Err(match no_answer {
                    Some(Err(Fault::Sent(detail))) if !self.is_safe => unknown(detail),
                    Some(Err(Fault::Sent(detail) | Fault::NotSent(detail))) => failed(detail),
                    Some(Ok(_)) | None => {
                        let (name, limit) = (&service.config.name, self.limit);
                        unknown(format!(
                            "{name} gave no answer within {limit:?} (`deadline`)"
                        ))
                    }
                });
            }
        };
        if let Some(pass) = &self.pass {
            pass.answered();
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS && !self.may_leave {
            return Err(failed("it left HTTP without being asked".to_owned()));
        }
        let mut response = response.map(|body| Body::answer(body, self.pass));
        let out = response.headers_mut();
        headers::clean(out);
        restore(out, self.replaced);
        out.insert(headers::SERVED_BY, worker.stamps.served_by.clone());
        Ok(response)
    }
}

/// Room for one more call, if the service is bounded.
pub(crate) fn enter(
    worker: &Worker,
    service: &Service,
    asker: Asker,
) -> Result<Option<Pass>, Problem> {
    let Some(guard) = &service.guards.local else {
        return Ok(None);
    };
    let entered = guard.enter(asker, Instant::now());
    let refused = |refusal| Problem::refused(refusal, &service.config.name, &worker.here);
    entered.map(Some).map_err(refused)
}

/// Makes the request one of the kind that HTTP/1.1 services read.
fn prepare(head: &mut Parts, worker: &Worker) {
    head.version = Version::HTTP_11;
    if head.uri.authority().is_some() {
        origin_form(head);
    }
    headers::join_cookies(&mut head.headers);
    head.headers.append(header::VIA, worker.stamps.via.clone());
}

/// HTTP/2 and a whole URL name the host in the target; HTTP/1.1 services read it in `Host`, where
/// it was put when the request was checked.
fn origin_form(head: &mut Parts) {
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.authority = None;
    parts.scheme = None;
    head.uri = http::Uri::from_parts(parts).unwrap_or_default();
}

/// Gives the scope to the service the ways it asked for, and no other.
fn carry(
    worker: &Worker,
    service: &Service,
    call: &mut Call,
    trail: Option<&Trail>,
) -> Result<Vec<Replaced>, Problem> {
    let mut replaced = Vec::new();
    let head = &mut call.head;
    let wants_baggage = service.config.carriers.contains(&Carrier::Baggage);
    if call.has_baggage || (wants_baggage && trail.is_some()) {
        let scope = trail
            .filter(|_| wants_baggage)
            .and_then(|trail| trail.scope.to_str().ok());
        carrier::set_baggage(&mut head.headers, scope);
    }
    let Some(trail) = trail else {
        return Ok(replaced);
    };
    for carrier in &service.config.carriers {
        match carrier {
            Carrier::Baggage => (),
            Carrier::Header => {
                head.headers.insert(headers::SCOPE, trail.scope.clone());
            }
            Carrier::Correlate(correlate) => {
                let own = head.headers.get(&correlate.header).cloned();
                let value = own.as_ref().map(HeaderValue::as_bytes);
                let ours = worker
                    .correlation
                    .remember(correlate, value, trail, Instant::now())
                    .map_err(|_| ambiguous(&correlate.header))?;
                head.headers.insert(correlate.header.clone(), ours.clone());
                replaced.push(Replaced {
                    header: correlate.header.clone(),
                    ours,
                    own,
                });
            }
        }
    }
    Ok(replaced)
}

fn ambiguous(header: &HeaderName) -> Problem {
    let detail = format!("another scope is in use under the same `{header}`; send another value");
    Problem::ScopeAmbiguous(detail)
}

fn restore(headers: &mut http::HeaderMap, replaced: Vec<Replaced>) {
    for one in replaced {
        one.restore(headers);
    }
}
