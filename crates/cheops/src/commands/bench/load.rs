//! Clients: so many connections, each asking again as soon as it is answered, or at a steady rate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// No answer takes as long; a benchmark that waits for ever tells nothing.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// One request to make.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) scope: Option<&'static str>,
    pub(super) body: String,
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The meta-id, if it is about a replicant.
    pub(super) resource: Option<String>,
    pub(super) took: Duration,
}

/// One connection.
pub(super) struct Client {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Client { address, sender })
    }

    pub(super) async fn ask(&mut self, ask: &Ask) -> anyhow::Result<Answer> {
        let started = Instant::now();
        let mut request = hyper::Request::builder()
            .method(ask.method)
            .uri(&ask.path)
            .header("host", self.address.to_string());
        if !ask.body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let Some(scope) = ask.scope {
            request = request.header("x-scope", scope);
        }
        let request = request.body(Full::new(Bytes::from(ask.body.clone())))?;
        let exchange = async {
            self.sender.ready().await?;
            let response = self.sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            body.collect().await?;
            anyhow::Ok(head)
        };
        let head = timeout(ANSWER_TIME_MAX, exchange)
            .await
            .context("no answer in 30 s")??;
        let resource = head.headers.get("x-cheops-resource");
        Ok(Answer {
            status: head.status.as_u16(),
            resource: resource.and_then(|value| Some(value.to_str().ok()?.to_owned())),
            took: started.elapsed(),
        })
    }
}

/// What a load came to.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) took: Duration,
    pub(super) latencies_us: Vec<u64>,
    /// Meta-ids, in the order of the requests.
    pub(super) resources: Vec<String>,
    /// Answers other than 2xx.
    pub(super) failed: usize,
}

impl Outcome {
    pub(super) fn per_second(&self) -> f64 {
        self.latencies_us.len() as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// Makes `count` requests over that many connections; `make` says which.
pub(super) async fn closed(
    address: SocketAddr,
    connections: usize,
    count: usize,
    make: impl Fn(usize) -> Ask + Send + Sync + 'static,
) -> anyhow::Result<Outcome> {
    let (make, next) = (Arc::new(make), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Client::connect(address).await?);
    }
    let mut tasks = JoinSet::new();
    let started = Instant::now();
    for mut client in clients {
        let (make, next) = (make.clone(), next.clone());
        tasks.spawn(async move {
            let mut seen = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(seen);
                }
                seen.push((number, client.ask(&make(number)).await?));
            }
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done??);
    }
    let took = started.elapsed();
    all.sort_by_key(|(number, _)| *number);
    let mut outcome = Outcome {
        took,
        ..Outcome::default()
    };
    for (_, answer) in all {
        outcome.latencies_us.push(answer.took.as_micros() as u64);
        outcome.failed += usize::from(!(200..300).contains(&answer.status));
        outcome.resources.extend(answer.resource);
    }
    if outcome.failed > count / 100 {
        bail!("{} of {count} requests failed", outcome.failed);
    }
    Ok(outcome)
}

/// Requests at a steady rate until told to stop: what is late counts as late. They have a thread of their own, so that
/// they do not wait for the sample services in this process.
pub(super) struct Steady {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Vec<u64>>>,
}

impl Steady {
    pub(super) fn start(address: SocketAddr, per_second: u32, ask: Ask) -> anyhow::Result<Steady> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("steady".to_owned());
        let run = move || runtime.block_on(ask_steadily(address, per_second, &ask, &stopped));
        Ok(Steady {
            stop,
            thread: thread.spawn(run)?,
        })
    }

    /// Ends it; returns how long answers took, in microseconds.
    pub(super) async fn stop(self) -> anyhow::Result<Vec<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = spawn_blocking(|| self.thread.join()).await?;
        ended.unwrap_or_else(|_| bail!("the local traffic came to a bad end"))
    }
}

async fn ask_steadily(
    address: SocketAddr,
    per_second: u32,
    ask: &Ask,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Vec<u64>> {
    const CLIENTS: u32 = 8;
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut client = Client::connect(address).await?;
        let (stop, ask) = (stop.clone(), ask.clone());
        let mut beat = interval(Duration::from_secs(1) * CLIENTS / per_second.max(1));
        beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
        tasks.spawn(async move {
            let mut seen = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let due = beat.tick().await;
                let answer = client.ask(&ask).await?;
                if answer.status != 200 {
                    bail!("local traffic was answered {}", answer.status);
                }
                seen.push(due.elapsed().as_micros() as u64);
            }
            Ok(seen)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done??);
    }
    Ok(all)
}

/// A create of an image, as long as an ordinary one.
pub(super) fn create(scope: &'static str, number: usize) -> Ask {
    Ask {
        method: "POST",
        path: "/images".to_owned(),
        scope: Some(scope),
        body: format!(
            "{{\"name\":\"image-{number}\",\"description\":\"{}\"}}",
            "x".repeat(64)
        ),
    }
}

/// An update of one.
pub(super) fn update(id: &str, number: usize) -> Ask {
    Ask {
        method: "PATCH",
        path: format!("/images/{id}"),
        scope: None,
        body: format!("{{\"description\":\"{number:064}\"}}"),
    }
}
