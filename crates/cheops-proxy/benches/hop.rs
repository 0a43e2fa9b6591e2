//! What TLS adds to a request between two agents, both ends together:
//! `cargo bench --profile dist -p cheops-proxy`.
//!
//! One HTTP/2 connection over loopback with the identities of a mesh, and one without, in turn; the
//! CPU time of this process, which is both ends, for each request.

// A benchmark prints, and gives up at once.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use cheops_engine::identity::{Identity, init};
use cheops_proxy::limits;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const ROUNDS: usize = 9;
const REQUESTS: usize = 8_000;
const BODY_BYTES: usize = 1024;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, measure());
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let sites = ["a".parse().unwrap(), "b".parse().unwrap()];
    init("bench", folder.path(), &sites).unwrap();
    let identity = |site: &str| Identity::load(&folder.path().join(site)).unwrap();
    let plain = plain().await;
    let secured = secured(&identity("a"), &identity("b")).await;
    println!(
        "| requests at once | plain, CPU µs | TLS, CPU µs | added |\n| --- | --- | --- | --- |"
    );
    for at_once in [1, 8, 64] {
        let (mut plains, mut secureds) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            plains.push(cost_us(&plain, at_once).await);
            secureds.push(cost_us(&secured, at_once).await);
        }
        let (plain, tls) = (median(plains), median(secureds));
        println!("| {at_once} | {plain:.1} | {tls:.1} | {:.1} |", tls - plain);
    }
}

async fn plain() -> SendRequest<Full<Bytes>> {
    let (near, far) = pair().await;
    spawn_local(serve(far));
    connect(near).await
}

async fn secured(a: &Identity, b: &Identity) -> SendRequest<Full<Bytes>> {
    const ALPN: &[&[u8]] = &[b"bench"];
    let (near, far) = pair().await;
    let acceptor = TlsAcceptor::from(b.server_config(ALPN));
    spawn_local(async move { serve(acceptor.accept(far).await.unwrap()).await });
    let connector = TlsConnector::from(a.client_config(ALPN));
    let near = connector.connect(Identity::server_name(), near).await;
    connect(near.unwrap()).await
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await;
    let (near, (far, _)) = (near.unwrap(), listener.accept().await.unwrap());
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    (near, far)
}

#[derive(Clone, Copy)]
struct Local;

impl<F: Future<Output: 'static> + 'static> Executor<F> for Local {
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
    let answer = service_fn(|request: Request<Incoming>| async move {
        let _ = request.into_body().collect().await;
        let body = Full::new(Bytes::from_static(&[b'x'; BODY_BYTES]));
        let response = Response::builder()
            .header("content-type", "application/json")
            .header("x-cheops-served-by", "b");
        Ok::<_, Infallible>(response.body(body).unwrap())
    });
    let _ = hyper::server::conn::http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .initial_stream_window_size(limits::PEER_STREAM_WINDOW)
        .initial_connection_window_size(limits::PEER_CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

async fn connect(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> SendRequest<Full<Bytes>> {
    let (sender, connection) = hyper::client::conn::http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .initial_stream_window_size(limits::PEER_STREAM_WINDOW)
        .initial_connection_window_size(limits::PEER_CONNECTION_WINDOW)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    spawn_local(async move {
        let _ = connection.await;
    });
    sender
}

/// CPU time of both ends for one request, with so many on their way.
async fn cost_us(sender: &SendRequest<Full<Bytes>>, at_once: usize) -> f64 {
    let token: Rc<str> = format!("gAAAAABl{}", "Zk3".repeat(58)).into();
    let before = cpu_us();
    let askers: Vec<_> = (0..at_once)
        .map(|_| {
            let (mut sender, token) = (sender.clone(), token.clone());
            spawn_local(async move {
                for _ in 0..REQUESTS / at_once {
                    let request = Request::get("http://a/v2.1/servers/detail?limit=20")
                        .header("user-agent", "python-novaclient")
                        .header("accept", "application/json")
                        .header("x-auth-token", &*token)
                        .body(Full::default())
                        .unwrap();
                    let response = sender.send_request(request).await.unwrap();
                    let body = response.into_body().collect().await.unwrap();
                    assert_eq!(body.to_bytes().len(), BODY_BYTES);
                }
            })
        })
        .collect();
    for asker in askers {
        asker.await.unwrap();
    }
    (cpu_us() - before) / REQUESTS as f64
}

/// Time of this thread, which does everything, on a CPU.
fn cpu_us() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let on_cpu_ns: f64 = text.split(' ').next().unwrap().parse().unwrap();
    on_cpu_ns / 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
