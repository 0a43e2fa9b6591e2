//! Sending a request to another site's agent, on an HTTP/2 connection that this thread owns.
//!
//! A connection is killed as soon as the link to its site is given up: whoever waits on it learns
//! at once, and nobody waits on it afterwards.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use cheops_engine::Picture;
use cheops_engine::mesh::Dialer;
use cheops_model::{Mark, ServiceName, SiteName};
use foldhash::fast::RandomState;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri, Version, header};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OnceCell, watch};

use crate::backend::{Fault, describe};
use crate::body::Body;
use crate::envelope::Envelope;
use crate::guard::{Asker, Pass};
use crate::headers;
use crate::here::Call;
use crate::limits;
use crate::problem::Problem;
use crate::question;
use crate::route::Journey;
use crate::upgrade::{self, Feed};
use crate::worker::Worker;

/// The connections of one thread to other sites, at most one each.
pub(crate) struct Peers {
    dialer: Dialer,
    connections: RefCell<HashMap<SiteName, Rc<PeerConnection>, RandomState>>,
    /// Clients whose question is being answered.
    questions: Rc<Cell<usize>>,
}

/// One of those clients; over with the value.
pub(crate) struct Turn(Rc<Cell<usize>>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A connection, perhaps still being made; whoever needs it meanwhile waits for the same one.
struct PeerConnection {
    sender: OnceCell<SendRequest<Body>>,
    /// Becomes true when the link was given up.
    killed: watch::Sender<bool>,
}

/// Runs the tasks of one connection until it is killed. hyper starts tasks of its own, which
/// would otherwise wait on a dead path for as long as the kernel does.
#[derive(Clone)]
struct Mortal(watch::Receiver<bool>);

impl<F> Executor<F> for Mortal
where
    F: Future + 'static,
{
    fn execute(&self, task: F) {
        let mut killed = self.0.clone();
        tokio::task::spawn_local(async move {
            tokio::select! {
                _ = task => (),
                _ = killed.wait_for(|killed| *killed) => (),
            }
        });
    }
}

/// Sends the request to the site's agent, which calls its own service.
pub(crate) async fn send(
    journey: &Journey<'_>,
    site: &SiteName,
    call: Call,
) -> Result<Response<Body>, Problem> {
    let worker = journey.worker;
    let service = &journey.service.config.name;
    reachable(&worker.picture(), site, service)?;
    let guard = journey.service.guards.remote(site);
    let pass = guard.map(|guard| guard.enter(Asker::Client, Instant::now()));
    let pass = pass.transpose();
    let pass = pass.map_err(|refusal| Problem::refused(refusal, service, site))?;
    let safe = call.head.method.is_safe();
    let homes = journey.service.homes.as_ref();
    let mints = homes.filter(|homes| homes.mints(&call.head));
    let (request, feed) = forwarded(journey, site, call);
    journey.service.counters.forwarded();
    let hop = worker.picture().next_hop(site);
    let sent = pin!(worker.peers.send(&hop, request));
    let outcome = worker.sweep.within(&journey.patience, sent).await;
    if let (Some(pass), Some(Err(_)) | None) = (&pass, &outcome) {
        pass.failed(Instant::now());
    }
    match outcome {
        Some(Ok(response)) => {
            if let Some(homes) = mints {
                homes.minted(site, response.headers(), Instant::now());
            }
            count(pass.as_ref(), &response);
            let mut response = response.map(|body| Body::answer(body, pass));
            if let Some(feed) = feed {
                response.extensions_mut().insert(feed);
            }
            Ok(response)
        }
        Some(Err(Fault::NotSent(detail))) => {
            tracing::debug!(%site, detail, "not sent");
            Err(Problem::SiteUnreachable(site.clone()))
        }
        Some(Err(Fault::Sent(detail))) => {
            tracing::debug!(%site, detail, "no answer");
            Err(no_answer(
                site,
                safe,
                "the link was lost before the answer came".to_owned(),
            ))
        }
        None => {
            let detail = format!(
                "no answer from {site} within {:?} (`deadline`)",
                journey.service.config.deadline
            );
            Err(Problem::OutcomeUnknown {
                site: site.clone(),
                detail,
            })
        }
    }
}

/// Asks the agent of another site what it knows. None if it does not say.
pub(crate) async fn question(
    worker: &Worker,
    site: &SiteName,
    service: &ServiceName,
    path: &str,
) -> Option<Response<Incoming>> {
    let mut request = Request::new(Body::empty());
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = mesh_uri(Some(path.parse().ok()?));
    let envelope = question::envelope(&worker.here, site, service).to_header();
    request.headers_mut().insert(headers::ENVELOPE, envelope);
    let hop = worker.picture().next_hop(site);
    worker.peers.send(&hop, request).await.ok()
}

/// Whether the other site's service answered, or its agent had to.
fn count(pass: Option<&Pass>, response: &Response<Incoming>) {
    let Some(pass) = pass else { return };
    let by_service = response.headers().contains_key(headers::SERVED_BY);
    if by_service || !response.status().is_server_error() {
        pass.answered();
    } else {
        pass.failed(Instant::now());
    }
}

/// A read that was lost did nothing; anything else may still happen.
fn no_answer(site: &SiteName, safe: bool, detail: String) -> Problem {
    match safe {
        true => Problem::SiteUnreachable(site.clone()),
        false => Problem::OutcomeUnknown {
            site: site.clone(),
            detail,
        },
    }
}

/// Refuses at once what is known to be in vain.
fn reachable(
    picture: &Picture,
    site: &SiteName,
    service: &cheops_model::ServiceName,
) -> Result<(), Problem> {
    picture
        .allows(&picture.here, site)
        .map_err(|against| Problem::ForbiddenByTopology(against.to_string()))?;
    if picture.mark(site) != Mark::Connected {
        return Err(Problem::SiteUnreachable(site.clone()));
    }
    if !picture.runs(site, service) {
        let service = service.as_str().to_owned();
        return Err(Problem::ServiceNotAtSite {
            service,
            site: site.clone(),
        });
    }
    Ok(())
}

/// The request as it goes to the other agent, and what fills its body if the client wants to leave
/// HTTP.
fn forwarded(journey: &Journey<'_>, site: &SiteName, call: Call) -> (Request<Body>, Option<Feed>) {
    let Call {
        mut head,
        mut body,
        upgrade,
        ..
    } = call;
    let feed = upgrade.map(|protocol| {
        head.headers.insert(headers::UPGRADE_ASKED, protocol);
        let (feed, pipe) = upgrade::pipe();
        body = Body::Pipe(pipe);
        feed
    });
    let worker = journey.worker;
    let trail = journey.trail;
    let envelope = Envelope {
        service: journey.service.config.name.clone(),
        target: site.clone(),
        entry: trail.map_or_else(|| worker.here.clone(), |trail| trail.entry.clone()),
        visited: vec![worker.here.clone()],
        hops: trail.map_or(0, |trail| trail.hops),
        deadline: journey.patience.time_left(Instant::now()),
    };
    let out = &mut head.headers;
    out.append(header::VIA, worker.stamps.via.clone());
    out.insert(headers::ENVELOPE, envelope.to_header());
    let (now, homes) = (Instant::now(), worker.homes());
    let told = homes.iter().flat_map(|homes| homes.told(out, now));
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        let told = HeaderValue::try_from(told.join(";")).expect("names fit a header");
        out.insert(headers::HOMES, told);
    }
    if let Some(trail) = trail {
        out.insert(headers::SCOPE, trail.scope.clone());
    }
    // HTTP/2 wants an authority in the URI; what the client asked for travels beside it.
    let host = out.remove(header::HOST);
    let asked = head.uri.authority().and_then(|a| a.as_str().parse().ok());
    if let Some(host) = host.or(asked) {
        out.insert(headers::HOST, host);
    }
    let path = head.uri.path_and_query().cloned();
    head.uri = mesh_uri(path);
    head.version = Version::HTTP_2;
    (Request::from_parts(head, body), feed)
}

pub(crate) fn mesh_uri(path: Option<PathAndQuery>) -> Uri {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(Authority::from_static("cheops.mesh"));
    parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    Uri::from_parts(parts).unwrap_or_default()
}

impl Peers {
    pub(crate) fn new(dialer: Dialer) -> Peers {
        Peers {
            dialer,
            connections: RefCell::default(),
            questions: Rc::default(),
        }
    }

    /// None if as many as may be have asked.
    pub(crate) fn take_turn(&self) -> Option<Turn> {
        let taken = self.questions.get();
        (taken < limits::QUESTIONS_MAX).then(|| {
            self.questions.set(taken + 1);
            Turn(self.questions.clone())
        })
    }

    /// Ends the connections to sites whose link was given up.
    pub(crate) fn kill_unreachable(&self, picture: &Picture) {
        self.connections.borrow_mut().retain(|site, connection| {
            let keep = picture.mark(site) == Mark::Connected;
            if !keep {
                connection.killed.send_replace(true);
            }
            keep
        });
    }

    /// Sends a request to a site's agent, on the connection to it.
    pub(crate) async fn send(
        &self,
        site: &SiteName,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, Fault> {
        // The second try is for a connection that died idle: nothing was sent on it.
        for _ in 0..2 {
            let connection = self.connection(site);
            let mut killed = connection.killed.subscribe();
            let sender = tokio::select! {
                sender = connection.sender.get_or_try_init(|| self.connect(site, &connection)) => sender,
                _ = killed.wait_for(|killed| *killed) => Err("the link was given up".to_owned()),
            };
            let mut sender = match sender {
                Ok(sender) => sender.clone(),
                Err(fault) => {
                    self.forget(site, &connection);
                    return Err(Fault::NotSent(fault));
                }
            };
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(response),
                Err(mut error) => {
                    self.forget(site, &connection);
                    match error.take_message() {
                        Some(unsent) => request = unsent,
                        None => return Err(Fault::Sent(describe(error.error()))),
                    }
                }
            }
        }
        Err(Fault::NotSent(
            "two connections died before anything was sent".to_owned(),
        ))
    }

    fn connection(&self, site: &SiteName) -> Rc<PeerConnection> {
        let mut connections = self.connections.borrow_mut();
        let dead = |c: &Rc<PeerConnection>| c.sender.get().is_some_and(SendRequest::is_closed);
        if connections.get(site.as_str()).is_none_or(dead) {
            let connection = PeerConnection {
                sender: OnceCell::new(),
                killed: watch::Sender::new(false),
            };
            connections.insert(site.clone(), Rc::new(connection));
        }
        connections[site.as_str()].clone()
    }

    fn forget(&self, site: &SiteName, connection: &Rc<PeerConnection>) {
        let mut connections = self.connections.borrow_mut();
        let closed = connection.sender.get().is_none_or(SendRequest::is_closed);
        if closed
            && connections
                .get(site.as_str())
                .is_some_and(|c| Rc::ptr_eq(c, connection))
        {
            connections.remove(site.as_str());
        }
    }

    async fn connect(
        &self,
        site: &SiteName,
        connection: &PeerConnection,
    ) -> Result<SendRequest<Body>, String> {
        let stream = self
            .dialer
            .dial_requests(site)
            .await
            .map_err(|error| error.to_string())?;
        let mortal = Mortal(connection.killed.subscribe());
        let (sender, driver) = http2::Builder::new(mortal.clone())
            .timer(TokioTimer::new())
            .initial_stream_window_size(limits::PEER_STREAM_WINDOW)
            .initial_connection_window_size(limits::PEER_CONNECTION_WINDOW)
            .keep_alive_interval(limits::PEER_PROBE_EVERY)
            .keep_alive_timeout(limits::PEER_PROBE_TIME_MAX)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| describe(&error))?;
        mortal.execute(driver);
        Ok(sender)
    }
}
