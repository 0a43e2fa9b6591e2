//! The answering end of a control link: hellos and beats, put to the owner of the state.

use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use cheops_core::membership::Reports;
use cheops_model::SiteName;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::debug;

use super::accept::Accepted;
use super::message::{BEAT_PATH, Beat, DATAGRAM_PATH, HELLO_PATH, Hello, REPORT_PATH, encode};
use super::owner::Event;
use super::refused::Origin;
use super::roster::Refusal;
use crate::limits::{CONTROL_BYTES_MAX, HELLO_DEADLINE};

/// A silent connection is asked whether it is still there; the dialling side beats far more often.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// A hello and a beat at a time are what a link needs.
const STREAMS_MAX: u32 = 8;
const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Why a message is answered with an error: the status and what is said.
#[derive(Debug)]
struct Refused(StatusCode, String);

/// Who is at the other end.
#[derive(Clone)]
struct Peer {
    site: SiteName,
    ip: IpAddr,
    events: mpsc::Sender<Event>,
}

pub(super) async fn serve(accepted: Accepted, events: mpsc::Sender<Event>) {
    let peer = Peer {
        site: accepted.peer,
        ip: accepted.ip,
        events,
    };
    let (end, ended) = oneshot::channel();
    let opened = Event::Accepted {
        site: peer.site.clone(),
        end,
    };
    if peer.events.send(opened).await.is_err() {
        return;
    }
    let site = peer.site.clone();
    let service = service_fn(move |request| answer(peer.clone(), request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(accepted.stream), service);
    tokio::select! {
        finished = connection => debug!(%site, ?finished, "a control connection ended"),
        _ = ended => debug!(%site, "a control connection was closed"),
    }
}

async fn answer(
    peer: Peer,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match route(&peer, request).await {
        Ok(body) => (StatusCode::OK, body),
        Err(Refused(status, why)) => {
            debug!(site = %peer.site, %status, why, "a control message was refused");
            (status, Bytes::from(why))
        }
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    Ok(response)
}

async fn route(peer: &Peer, request: Request<Incoming>) -> Result<Bytes, Refused> {
    if request.method() != Method::POST {
        return Err(Refused(
            StatusCode::METHOD_NOT_ALLOWED,
            "only POST is known".into(),
        ));
    }
    match request.uri().path() {
        HELLO_PATH => hello(peer, read(request).await?).await,
        BEAT_PATH => beat(peer, read(request).await?).await,
        DATAGRAM_PATH => datagram(peer, read_bytes(request).await?).await,
        REPORT_PATH => reports(peer, read(request).await?).await,
        _ => Err(Refused(
            StatusCode::NOT_FOUND,
            "only hello, beat, datagram and report are known".into(),
        )),
    }
}

async fn hello(peer: &Peer, hello: Hello) -> Result<Bytes, Refused> {
    let said = &hello.announcement.site;
    if *said != peer.site {
        let why = format!(
            "announced as {said}, but the certificate is of {}",
            peer.site
        );
        return Err(Refused(StatusCode::FORBIDDEN, why));
    }
    hello
        .check()
        .map_err(|fault| Refused(StatusCode::BAD_REQUEST, fault.to_string()))?;
    let (reply, answer) = oneshot::channel();
    put(
        peer,
        Event::Greeted {
            hello: Box::new(hello),
            ip: peer.ip,
            reply,
        },
    )
    .await?;
    let body = answer.await.map_err(|_| stopping())?;
    body.map_err(|refusal| Refused(status_of(refusal), refusal.to_string()))
}

async fn beat(peer: &Peer, _: Beat) -> Result<Bytes, Refused> {
    let (reply, answer) = oneshot::channel();
    put(
        peer,
        Event::Heard {
            site: peer.site.clone(),
            reply,
        },
    )
    .await?;
    let state = answer.await.map_err(|_| stopping())?;
    Ok(encode(&state))
}

/// A datagram over a link: UDP is blocked between the two.
async fn datagram(peer: &Peer, sealed: Bytes) -> Result<Bytes, Refused> {
    let origin = Origin::Link(peer.site.clone());
    let event = Event::Datagram { sealed, origin };
    put(peer, event).await?;
    Ok(encode(&()))
}

async fn reports(peer: &Peer, reports: Reports<SiteName>) -> Result<Bytes, Refused> {
    let site = peer.site.clone();
    put(peer, Event::Reported { site, reports }).await?;
    Ok(encode(&()))
}

async fn put(peer: &Peer, event: Event) -> Result<(), Refused> {
    peer.events.send(event).await.map_err(|_| stopping())
}

async fn read<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Refused> {
    serde_json::from_slice(&read_bytes(request).await?)
        .map_err(|fault| Refused(StatusCode::BAD_REQUEST, fault.to_string()))
}

async fn read_bytes(request: Request<Incoming>) -> Result<Bytes, Refused> {
    let body = Limited::new(request.into_body(), CONTROL_BYTES_MAX).collect();
    let late = |_| {
        Refused(
            StatusCode::REQUEST_TIMEOUT,
            "the message came too slowly".into(),
        )
    };
    let body = timeout(HELLO_DEADLINE, body)
        .await
        .map_err(late)?
        .map_err(unread)?;
    Ok(body.to_bytes())
}

fn unread(fault: Box<dyn std::error::Error + Send + Sync>) -> Refused {
    if fault.is::<LengthLimitError>() {
        let why = format!("a message has {CONTROL_BYTES_MAX} bytes at most");
        Refused(StatusCode::PAYLOAD_TOO_LARGE, why)
    } else {
        Refused(StatusCode::BAD_REQUEST, fault.to_string())
    }
}

fn status_of(refusal: Refusal) -> StatusCode {
    match refusal {
        Refusal::Ourselves => StatusCode::MISDIRECTED_REQUEST,
        Refusal::NameTaken => StatusCode::CONFLICT,
        Refusal::Full => StatusCode::INSUFFICIENT_STORAGE,
        Refusal::Out(_) => StatusCode::FORBIDDEN,
    }
}

fn stopping() -> Refused {
    Refused(
        StatusCode::SERVICE_UNAVAILABLE,
        "the agent is stopping".into(),
    )
}
