//! Connections that leave HTTP (WebSocket and the like), to this site's service or another site's.
//!
//! Between agents there is no upgrade: the request's body carries the bytes one way, the answer's
//! body the other. At either end the bytes pass between that and a real, upgraded connection.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, copy_bidirectional, split};
use tokio::sync::mpsc;

use crate::body::Body;
use crate::headers;
use crate::worker::Worker;

/// Pieces under way between two connections, and how long each is: with a slow reader, no more
/// than their product is held.
const PIECES_MAX: usize = 8;
const PIECE_BYTES: usize = 16 * 1024;

/// A client's wish to leave HTTP.
pub(crate) struct Wish {
    protocol: HeaderValue,
    client: OnUpgrade,
}

impl Wish {
    /// Takes the wish off a request, if it has one. Its headers belong to this hop alone.
    pub(crate) fn take(head: &mut Parts) -> Option<Wish> {
        let named = names_upgrade(&head.headers);
        let client = head.extensions.remove::<OnUpgrade>()?;
        let protocol = head.headers.remove(header::UPGRADE)?;
        // `h2c` would make the service speak HTTP/2 to us: no application asks for that.
        let known = named && !protocol.as_bytes().eq_ignore_ascii_case(b"h2c");
        known.then_some(Wish { protocol, client })
    }

    /// What another agent, or the service, is asked for.
    pub(crate) fn protocol(&self) -> HeaderValue {
        self.protocol.clone()
    }
}

fn names_upgrade(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| {
        let mut tokens = value
            .as_bytes()
            .split(|b| *b == b',')
            .map(<[u8]>::trim_ascii);
        tokens.any(|token| token.eq_ignore_ascii_case(b"upgrade"))
    })
}

/// Puts the wish on the request to the service.
pub(crate) fn ask(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

impl Wish {
    /// Joins the client to whoever agreed; any other answer passes as it is.
    pub(crate) fn settle(
        self,
        worker: &Rc<Worker>,
        mut response: Response<Body>,
    ) -> Response<Body> {
        let protocol = self.protocol.clone();
        let service = response.extensions_mut().remove::<OnUpgrade>();
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(service) = service
        {
            join_local(worker, self.client, service);
            return agreed(response, protocol);
        }
        let feed = response.extensions_mut().remove::<Feed>();
        if response.headers_mut().remove(headers::UPGRADED).is_some()
            && let Some(feed) = feed
        {
            let far = std::mem::replace(response.body_mut(), Body::empty());
            join_remote(worker, self.client, feed, far);
            return agreed(response, protocol);
        }
        response
    }
}

/// What the client is told.
fn agreed(mut response: Response<Body>, protocol: HeaderValue) -> Response<Body> {
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.body_mut() = Body::empty();
    ask(response.headers_mut(), protocol);
    response
}

/// Joins the client to the service, once both have left HTTP.
fn join_local(worker: &Rc<Worker>, client: OnUpgrade, service: OnUpgrade) {
    let open = worker.opened();
    tokio::task::spawn_local(async move {
        let _open = open;
        if let (Ok(client), Ok(service)) = (client.await, service.await) {
            let (mut client, mut service) = (TokioIo::new(client), TokioIo::new(service));
            // Either end may break off at any time; there is nobody to tell.
            let _ = copy_bidirectional(&mut client, &mut service).await;
        }
    });
}

/// At the other site: what goes back to the agent that asked, if the service agreed.
pub(crate) fn answer_agent(
    worker: &Rc<Worker>,
    mut response: Response<Body>,
    far: Incoming,
) -> Response<Body> {
    let service = response.extensions_mut().remove::<OnUpgrade>();
    let Some(service) = service.filter(|_| response.status() == StatusCode::SWITCHING_PROTOCOLS)
    else {
        return response;
    };
    let (feed, pipe) = pipe();
    join_remote(worker, service, feed, Body::Incoming(far));
    *response.status_mut() = StatusCode::OK;
    *response.body_mut() = Body::Pipe(pipe);
    response
        .headers_mut()
        .insert(headers::UPGRADED, HeaderValue::from_static("1"));
    response
}

/// A request body that is filled from an upgraded connection once there is one.
pub(crate) struct Pipe(mpsc::Receiver<Bytes>);

impl Pipe {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(cx)
    }
}

/// The other end of a [`Pipe`].
#[derive(Clone)]
pub(crate) struct Feed(mpsc::Sender<Bytes>);

/// A body to send, and what fills it.
pub(crate) fn pipe() -> (Feed, Pipe) {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    (Feed(sender), Pipe(receiver))
}

/// Joins an upgraded connection (a client's, or at the other site the service's) to the two
/// bodies that lead to the other agent.
fn join_remote(worker: &Rc<Worker>, near: OnUpgrade, feed: Feed, far: Body) {
    let open = worker.opened();
    tokio::task::spawn_local(async move {
        let _open = open;
        if let Ok(near) = near.await {
            let (read, write) = split(TokioIo::new(near));
            let _ = tokio::join!(send(read, feed), receive(far, write));
        }
    });
}

async fn send(mut near: ReadHalf<TokioIo<Upgraded>>, feed: Feed) -> io::Result<()> {
    loop {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        if near.read_buf(&mut piece).await? == 0 || feed.0.send(piece.freeze()).await.is_err() {
            return Ok(());
        }
    }
}

async fn receive(mut far: Body, mut near: WriteHalf<TokioIo<Upgraded>>) -> io::Result<()> {
    while let Some(Ok(frame)) = far.frame().await {
        if let Some(piece) = frame.data_ref() {
            near.write_all(piece).await?;
        }
    }
    near.shutdown().await
}
