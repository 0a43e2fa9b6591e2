//! A request at a service's listener: whose scope, which way, and an answer that tells the truth.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use cheops_model::SiteName;
use cheops_scope::{ErrorKind, ScopeError, Span};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::body::{Answer, Body};
use crate::carrier::{self, Carrier};
use crate::correlation::Trail;
use crate::doorway::Doorway;
use crate::express::Begun;
use crate::guard::Asker;
use crate::headers::{self, Survey};
use crate::here::{self, Call};
use crate::home::{Homes, Sent};
use crate::host;
use crate::intake::Signs;
use crate::limits;
use crate::own;
use crate::problem::Problem;
use crate::pulse::{Patience, Pulse};
use crate::replicate;
use crate::route::Journey;
use crate::scope::{Decision, Route};
use crate::service::Service;
use crate::sweep::{Idle, InFlight};
use crate::tunnel;
use crate::upgrade::Wish;
use crate::worker::Worker;

/// A client's connection to a listener.
pub(crate) struct Connection {
    pub(crate) worker: Rc<Worker>,
    pub(crate) doorway: Rc<Doorway>,
    /// `for=192.0.2.7`, the same for all its requests.
    pub(crate) forwarded: HeaderValue,
    pub(crate) idle: Rc<Idle>,
    /// What can be seen of it while the HTTP library has it.
    pub(crate) signs: Signs,
    /// The next request was sent to the service already.
    pub(crate) begun: Cell<Option<Box<Begun>>>,
}

/// Answers one request of a client.
pub(crate) async fn serve(
    connection: Rc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let worker = &connection.worker;
    if let Some(begun) = connection.begun.take() {
        let (answered, told) = begun.answer(worker).await;
        let response = answered.unwrap_or_else(Problem::into_response);
        return Ok(told.finish(worker, response));
    }
    let started = Instant::now();
    let open = connection.idle.begin();
    let logged = worker.access_log.get().then(|| AccessLine::of(&request));
    let service = connection.doorway.choose(worker, &request);
    let tunnel = request.method() == Method::CONNECT;
    let http1 = request.version() < Version::HTTP_2;
    let survey = Survey::of(request.headers());
    let may_leave = tunnel || survey.upgrade;
    let pulse = Pulse::new(started);
    if request.body().is_end_stream() {
        pulse.end();
    }
    let answered = match &service {
        _ if tunnel => tunnel::open(&connection, request),
        Ok(service) => answer(&connection, service, request, &survey, pulse.clone()).await,
        Err(problem) => {
            skip(worker, request.into_body(), &pulse).await;
            Err(problem.clone())
        }
    };
    let mut bad = false;
    let mut response = answered.unwrap_or_else(|problem| {
        let problem = blame(&connection, problem);
        tracing::debug!(code = problem.code(), "refused");
        bad = matches!(problem, Problem::BadRequest(_));
        problem.into_response()
    });
    let left = match tunnel {
        true => response.status().is_success(),
        false => response.status() == StatusCode::SWITCHING_PROTOCOLS,
    };
    if http1 && (bad || !pulse.has_ended() || (may_leave && !left)) {
        // What follows on this connection cannot be trusted, or is what is left of a body that
        // nobody reads, or is no longer read strictly.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    let told = Told {
        service: service.ok(),
        started,
        open,
        logged,
    };
    Ok(told.finish(worker, response))
}

/// What is known of a request when it is answered.
pub(crate) struct Told {
    /// None that serves it.
    pub(crate) service: Option<Rc<Service>>,
    pub(crate) started: Instant,
    pub(crate) open: InFlight,
    pub(crate) logged: Option<AccessLine>,
}

impl Told {
    /// Says how long it took, and counts it.
    fn finish(self, worker: &Worker, mut response: Response<Body>) -> Response<Answer> {
        let took_us = self.took_us(Instant::now());
        let success = response.status().is_success();
        let out = response.headers_mut();
        if !success {
            out.remove(headers::NOTHING_HAPPENED);
        }
        out.append(header::VIA, worker.stamps.via.clone());
        worker.stamps.timing(out, took_us);
        let served_by = response.headers().get(headers::SERVED_BY);
        self.count(response.status(), served_by, took_us);
        response.map(|body| Answer {
            body,
            _open: self.open,
        })
    }

    pub(crate) fn took_us(&self, now: Instant) -> u64 {
        let took = now.saturating_duration_since(self.started);
        u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
    }

    /// Counts the answer, and writes it to the access log.
    pub(crate) fn count(&self, status: StatusCode, served_by: Option<&HeaderValue>, took_us: u64) {
        let service = self.service.as_deref();
        if let Some(service) = service {
            service.counters.answered(status, took_us);
        }
        if let Some(line) = &self.logged {
            line.write(service, status, served_by, took_us);
        }
    }
}

/// A service that got half a body is not to blame if the client's bytes were refused.
fn blame(connection: &Connection, problem: Problem) -> Problem {
    match problem {
        Problem::ServiceFailed { .. } | Problem::OutcomeUnknown { .. }
            if connection.signs.refused() =>
        {
            Problem::BadRequest("its body is not framed as HTTP wants it".to_owned())
        }
        problem => problem,
    }
}

async fn answer(
    connection: &Connection,
    service: &Service,
    request: Request<Incoming>,
    survey: &Survey,
    pulse: Pulse,
) -> Result<Response<Body>, Problem> {
    let worker = &connection.worker;
    let (mut head, body) = request.into_parts();
    if head.uri.path().starts_with(own::ROOT) {
        return own::answer(worker, &service.config.name, &head).await;
    }
    let wish = survey.upgrade.then(|| Wish::take(&mut head)).flatten();
    let checked = host::check(&mut head, survey);
    let scoped = match checked.and_then(|()| read_scope(worker, service, &mut head)) {
        Ok(scoped) => scoped,
        Err(problem) => {
            skip(worker, body, &pulse).await;
            return Err(problem);
        }
    };
    if survey.unclean {
        headers::clean(&mut head.headers);
    }
    head.headers
        .append(header::FORWARDED, connection.forwarded.clone());
    let home = home_of(service, &mut head, scoped.as_ref());
    let call = Call {
        head,
        body: Body::Request(body, pulse.clone()),
        upgrade: wish.as_ref().map(Wish::protocol),
        asker: Asker::Client,
        has_baggage: survey.baggage,
    };
    let patience = Patience {
        pulse,
        limit: service.config.deadline,
    };
    let journey = Journey {
        worker,
        service,
        trail: scoped.as_ref().map(|(_, trail)| trail),
        patience,
    };
    let bound = scoped.as_ref().map(|(decision, _)| decision);
    let route = bound.map_or(&Route::Here, |decision| &decision.route);
    let mut response = match (home, route) {
        (Some((homes, sent)), _) => {
            let to_home = Route::Site(sent.home.clone());
            let mut response = Box::pin(journey.take(&to_home, call)).await?;
            homes.answered(&sent, &mut response);
            response
        }
        // What is local takes no detour: each step on the way would move the request once more.
        (None, Route::Here) if !concerns_replicas(service, &call) => {
            here::run(worker, service, call, journey.trail, &journey.patience).await?
        }
        // Boxed: every connection would hold room for it, and most never need it.
        (None, route) => Box::pin(journey.take(route, call)).await?,
    };
    if let Some(wish) = wish {
        response = wish.settle(worker, response);
    }
    if bound.is_some_and(|decision| decision.unbound)
        && let Ok(name) = HeaderValue::from_str(service.config.name.as_str())
    {
        response.headers_mut().insert(headers::UNBOUND, name);
    }
    Ok(response)
}

fn concerns_replicas(service: &Service, call: &Call) -> bool {
    let (method, target) = (&call.head.method, replicate::target(call));
    call.upgrade.is_none() && replicate::concerns(service, method, target)
}

/// Where a request goes that is about a value of another site. A scope that says where the service
/// runs stands over it.
fn home_of<'a>(
    service: &'a Service,
    head: &mut Parts,
    scoped: Option<&(Rc<Decision>, Trail)>,
) -> Option<(&'a Homes, Sent)> {
    let homes = service.homes.as_deref()?;
    let bound = scoped.is_some_and(|(decision, _)| !decision.unbound);
    let sent = (!bound).then(|| homes.send_home(head, Instant::now()))?;
    sent.map(|sent| (homes, sent))
}

/// Reads what is left of a refused request, if it is not long and comes soon: a connection whose
/// request was not read to its end cannot be used again.
async fn skip(worker: &Worker, mut body: Incoming, pulse: &Pulse) {
    let patience = Patience {
        pulse: Pulse::new(Instant::now()),
        limit: limits::SKIP_TIME_MAX,
    };
    let reading = pin!(async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, |piece| piece.len());
            if bytes > limits::SKIP_BYTES_MAX {
                return;
            }
        }
        pulse.end();
    });
    let _ = worker.sweep.within(&patience, reading).await;
}

fn read_scope(
    worker: &Worker,
    service: &Service,
    head: &mut Parts,
) -> Result<Option<(Rc<Decision>, Trail)>, Problem> {
    let own = take_scope(service, &mut head.headers)?;
    scope_of(worker, service, head, own)
}

/// The scope of a request: its own, the one its workflow came with, or the site's rule.
fn scope_of(
    worker: &Worker,
    service: &Service,
    head: &Parts,
    own: Option<HeaderValue>,
) -> Result<Option<(Rc<Decision>, Trail)>, Problem> {
    if let Some(text) = own {
        return decided(worker, service, text.as_bytes(), &worker.here, 0).map(Some);
    }
    for carrier in &service.carriers_in {
        match carrier {
            Carrier::Header => (),
            Carrier::Baggage => {
                if let Some(text) = carrier::from_baggage(&head.headers) {
                    return decided(worker, service, &text, &worker.here, 0).map(Some);
                }
            }
            Carrier::Correlate(correlate) => {
                let value = head.headers.get(&correlate.header);
                let find = |value: &HeaderValue| {
                    let memory = &worker.correlation;
                    memory.find(correlate, value.as_bytes(), Instant::now())
                };
                if let Some(found) = value.and_then(find) {
                    let (text, hops) = (found.scope.as_bytes(), found.hops + 1);
                    return decided(worker, service, text, &found.entry, hops).map(Some);
                }
            }
        }
    }
    match service.rules.iter().find(|rule| rule.matches.fits(head)) {
        Some(rule) => decided(worker, service, rule.scope.as_bytes(), &worker.here, 0).map(Some),
        None => Ok(None),
    }
}

/// Takes the request's own scope off it, if it has one and may.
fn take_scope(service: &Service, headers: &mut HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    // Whether any header is repeated is known without looking one up.
    let repeated = headers.len() > headers.keys_len();
    if repeated && headers.get_all(headers::SCOPE).iter().nth(1).is_some() {
        return Err(scope_twice().into());
    }
    let scope = headers.remove(headers::SCOPE);
    if scope.is_some() && !service.config.accept_scope {
        let detail = format!("{} takes no scope from clients here", service.config.name);
        return Err(Problem::ForbiddenByPolicy(detail));
    }
    Ok(scope)
}

fn scope_twice() -> ScopeError {
    ScopeError {
        kind: ErrorKind::Syntax,
        title: "X-Scope is given twice; write one, its bindings separated by `,`".to_owned(),
        position: Span::new(0, 0),
        expected: vec!["one X-Scope header".to_owned()],
        suggestion: None,
    }
}

pub(crate) fn decided(
    worker: &Worker,
    service: &Service,
    text: &[u8],
    entry: &SiteName,
    hops: u32,
) -> Result<(Rc<Decision>, Trail), Problem> {
    if hops > limits::HOPS_MAX {
        let detail = format!(
            "the workflow made more than {} calls in a row",
            limits::HOPS_MAX
        );
        return Err(Problem::Loop(detail));
    }
    let decision = service.decider.decide(&worker.picture_now(), entry, text)?;
    let trail = Trail {
        scope: decision.scope.clone(),
        entry: entry.clone(),
        hops,
    };
    Ok((decision, trail))
}

/// What the access log says of a request; the query is left out, it may hold secrets.
pub(crate) struct AccessLine {
    pub(crate) method: Method,
    pub(crate) path: String,
}

impl AccessLine {
    fn of(request: &Request<Incoming>) -> AccessLine {
        AccessLine {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
        }
    }

    fn write(
        &self,
        service: Option<&Service>,
        status: StatusCode,
        served_by: Option<&HeaderValue>,
        took_us: u64,
    ) {
        tracing::info!(
            target: "access",
            service = service.map_or("-", |service| service.config.name.as_str()),
            method = %self.method,
            path = %self.path,
            status = status.as_u16(),
            served_by = served_by.and_then(|value| value.to_str().ok()).unwrap_or("-"),
            took_us,
        );
    }
}
