//! Sockets and connections: each belongs to the thread that accepted it.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::{Duration, Instant};

use cheops_engine::mesh::{Accepted, Kind};
use http::HeaderValue;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::doorway::Doorway;
use crate::entry::{self, Connection};
use crate::http1;
use crate::intake::Signs;
use crate::limits;
use crate::mesh;
use crate::pulse::{Patience, Pulse};
use crate::sweep::{Idle, Outcome};
use crate::transport::Transport;
use crate::worker::Worker;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;

/// After a failure to accept (no descriptors left, say): neither spin nor sleep long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Binds `address` once per thread, so that the kernel spreads connections over them.
pub(crate) fn bind(address: SocketAddr, threads: usize) -> io::Result<Vec<StdListener>> {
    // `SO_REUSEPORT` would share a port with another agent in silence: ask without it first.
    let mut address = address;
    let probe = socket(address)?;
    probe.bind(&address.into())?;
    probe.listen(1)?;
    if let Some(bound) = probe.local_addr()?.as_socket() {
        address = bound;
    }
    drop(probe);
    (0..threads).map(|_| shared(address)).collect()
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn shared(address: SocketAddr) -> io::Result<StdListener> {
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Runs hyper's tasks on the thread they were started on.
#[derive(Clone, Copy)]
pub(crate) struct LocalExecutor;

impl<F> Executor<F> for LocalExecutor
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// Accepts clients until the agent stops or the doorway is closed.
pub(crate) async fn clients(worker: Rc<Worker>, doorway: Rc<Doorway>, listener: TcpListener) {
    let accepting = accept_each(&worker, &listener, |stream, from| {
        let Some(seat) = worker.seat() else {
            return turn_away(&doorway, &stream);
        };
        let tls = doorway.tls();
        let proto = if tls.is_some() { "https" } else { "http" };
        let forwarded = HeaderValue::try_from(format!("for={};proto={proto}", bracketed(from)));
        let connection = Rc::new(Connection {
            worker: worker.clone(),
            doorway: doorway.clone(),
            forwarded: forwarded.expect("an address fits a header"),
            idle: Idle::new(worker.client_idle.get()),
            signs: Signs::default(),
            begun: Cell::default(),
        });
        tokio::task::spawn_local(async move {
            let _seat = seat;
            serve_client(connection, stream, tls).await;
        });
    });
    tokio::select! {
        () = accepting => (),
        () = doorway.closing() => (),
    }
}

/// There is no room: said at once, if it can be, and without waiting for anything.
fn turn_away(doorway: &Doorway, stream: &TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
        Content-Length: 0\r\nConnection: close\r\n\r\n";
    if doorway.tls().is_none() {
        let _ = stream.try_write(ANSWER);
    }
}

/// Accepts other agents until this one stops.
pub(crate) async fn peers(worker: Rc<Worker>, listener: TcpListener) {
    accept_each(&worker, &listener, |stream, from| {
        tokio::task::spawn_local(serve_peer(worker.clone(), stream, from));
    })
    .await;
}

async fn accept_each(
    worker: &Worker,
    listener: &TcpListener,
    mut each: impl FnMut(TcpStream, SocketAddr),
) {
    let mut stop = worker.stop.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stopping| *stopping) => return,
        };
        match accepted {
            Ok((stream, from)) => {
                let _ = stream.set_nodelay(true);
                each(stream, from);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// RFC 7239 wants IPv6 addresses in brackets and quotes.
fn bracketed(from: SocketAddr) -> String {
    match from.ip() {
        std::net::IpAddr::V4(v4) => v4.to_string(),
        std::net::IpAddr::V6(v6) => format!("\"[{v6}]\""),
    }
}

async fn serve_client(connection: Rc<Connection>, stream: TcpStream, tls: Option<TlsAcceptor>) {
    let worker = connection.worker.clone();
    let first_bytes = first_bytes(&connection);
    // A client that breaks off or speaks nonsense is no event of ours.
    match tls {
        None => {
            let told = worker
                .sweep
                .within(&first_bytes, pin!(speaks_http2(&stream)))
                .await;
            if let Some(Ok(http2)) = told {
                speak(connection, stream, http2).await;
            }
        }
        Some(tls) => {
            Box::pin(serve_secured(connection, stream, tls)).await;
        }
    }
}

/// Serves what comes through a tunnel, as if it had come to the service's own listener.
pub(crate) async fn serve_tunnel(connection: Rc<Connection>, tunnel: Upgraded) {
    match connection.doorway.tls() {
        None => speak(connection, TokioIo::new(tunnel), false).await,
        Some(tls) => serve_secured(connection, TokioIo::new(tunnel), tls).await,
    }
}

async fn serve_secured<S: Transport>(connection: Rc<Connection>, stream: S, tls: TlsAcceptor) {
    let worker = connection.worker.clone();
    let first_bytes = first_bytes(&connection);
    let accepting = pin!(tls.accept(stream));
    if let Some(Ok(stream)) = worker.sweep.within(&first_bytes, accepting).await {
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        speak(connection, stream, http2).await;
    }
}

/// How long a client may take to say what it speaks.
fn first_bytes(connection: &Connection) -> Patience {
    Patience {
        pulse: Pulse::new(Instant::now()),
        limit: connection.worker.client_idle.get(),
    }
}

/// HTTP with a client, until either ends it.
///
/// What only some connections need is boxed: a task is as large as the largest of what it may do.
async fn speak<S: Transport>(connection: Rc<Connection>, stream: S, http2: bool) {
    let _open = connection.worker.opened();
    if http2 {
        Box::pin(speak_http2(connection, stream)).await;
    } else {
        http1::speak(connection, stream).await;
    }
}

async fn speak_http2<S: Transport>(connection: Rc<Connection>, stream: S) {
    let (worker, doorway) = (connection.worker.clone(), connection.doorway.clone());
    let idle = Some(connection.idle.clone());
    let answer = service_fn(move |request| entry::serve(connection.clone(), request));
    let serving = pin!(
        http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits::CLIENT_STREAMS_MAX)
            .max_header_list_size(limits::HEAD_BYTES_MAX as u32)
            .serve_connection(TokioIo::new(stream), answer)
    );
    let is_over = || doorway.is_closed();
    let end = |serving: Pin<&mut _>| http2::Connection::graceful_shutdown(serving);
    let never_rests = || false;
    let kept = worker
        .sweep
        .keep(serving, idle, is_over, end, never_rests)
        .await;
    debug_assert_eq!(kept, Outcome::Over);
}

/// Looks at the first bytes without taking them: HTTP/2 opens with a preface of its own.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0";
    let mut first = [0; PREFACE.len()];
    let mut seen = 0;
    loop {
        stream.readable().await?;
        let read = stream.peek(&mut first).await?;
        if read == 0 || first[..read] != PREFACE[..read] {
            return Ok(false);
        }
        if read == PREFACE.len() {
            return Ok(true);
        }
        // Half a preface: the rest is on its way, or never comes.
        if read == seen {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        seen = read;
    }
}

/// Only requests hold back an agent that stops. Its links stand until it is gone: without them,
/// peers would give up what is still open.
async fn serve_peer(worker: Rc<Worker>, stream: TcpStream, from: SocketAddr) {
    let accepted = match worker.acceptor.accept(stream).await {
        Ok(accepted) => accepted,
        Err(error) => {
            tracing::debug!(%from, %error, "no agent of this mesh");
            return;
        }
    };
    match accepted.kind {
        Kind::Control => worker.acceptor.serve_control(accepted).await,
        Kind::Requests => serve_requests(worker, accepted).await,
        Kind::Log => worker.replication.serve_link(accepted).await,
        Kind::Blob => worker.replication.serve_blobs(accepted).await,
    }
}

async fn serve_requests(worker: Rc<Worker>, accepted: Accepted) {
    let _open = worker.opened();
    let serving_worker = worker.clone();
    let Accepted { peer, stream, .. } = accepted;
    let answer = service_fn(move |request| mesh::serve(worker.clone(), peer.clone(), request));
    let serving = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::PEER_STREAMS_MAX)
        .initial_stream_window_size(limits::PEER_STREAM_WINDOW)
        .initial_connection_window_size(limits::PEER_CONNECTION_WINDOW)
        .keep_alive_interval(limits::PEER_PROBE_EVERY)
        .keep_alive_timeout(limits::PEER_PROBE_TIME_MAX)
        .max_header_list_size(limits::HEAD_BYTES_MAX as u32 * 2)
        .serve_connection(TokioIo::new(stream), answer);
    let serving = pin!(serving);
    let end = |serving: Pin<&mut _>| http2::Connection::graceful_shutdown(serving);
    let (is_over, never_rests) = (|| false, || false);
    let kept = serving_worker
        .sweep
        .keep(serving, None, is_over, end, never_rests)
        .await;
    debug_assert_eq!(kept, Outcome::Over);
}
