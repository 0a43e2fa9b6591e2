//! The client: so many connections, each asking again as soon as it is answered.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// No answer takes as long.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// What is asked: about 500 bytes with eight headers, as clients of the field send them.
fn request(address: SocketAddr) -> String {
    let token = "Zk3".repeat(58);
    format!(
        "GET /v2.1/servers/detail?limit=20 HTTP/1.1\r\nHost: {address}\r\n\
         X-Scope: compute: site1, image: site1\r\nUser-Agent: python-novaclient\r\n\
         Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\n\
         X-OpenStack-Nova-API-Version: 2.90\r\nX-Auth-Token: gAAAAABl{token}\r\n\
         X-Openstack-Request-Id: req-1d2c3b4a-1111-4222-8333-444455556666\r\n\r\n"
    )
}

/// A load to put on one address.
pub(super) struct Load {
    pub(super) address: SocketAddr,
    pub(super) connections: usize,
    /// Zero: one answer on each connection.
    pub(super) time: Duration,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) answers: usize,
    latencies_us: Vec<u32>,
}

impl Outcome {
    pub(super) fn p50_us(&self) -> f64 {
        super::median(self.latencies_us.iter().map(|us| f64::from(*us)).collect())
    }
}

impl Load {
    /// One thread, which looks after all connections that have something to read before it sleeps, as clients of many do.
    pub(super) fn run(&self) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.ask_all())
    }

    async fn ask_all(&self) -> anyhow::Result<Outcome> {
        let mut clients = Vec::new();
        for _ in 0..self.connections {
            clients.push(Client::open(self.address).await?);
        }
        let until = Instant::now() + self.time;
        let mut tasks = JoinSet::new();
        for client in clients {
            tasks.spawn(client.ask_until(request(self.address), until));
        }
        let mut outcome = Outcome::default();
        while let Some(done) = tasks.join_next().await {
            let mut latencies_us = done??;
            outcome.answers += latencies_us.len();
            outcome.latencies_us.append(&mut latencies_us);
        }
        Ok(outcome)
    }
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn open(address: SocketAddr) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream,
            buffer: vec![0; 16 * 1024],
        })
    }

    /// Asks at least once; how long each answer took, in microseconds.
    async fn ask_until(mut self, request: String, until: Instant) -> anyhow::Result<Vec<u32>> {
        let mut latencies_us = Vec::new();
        loop {
            let asked = Instant::now();
            self.stream.write_all(request.as_bytes()).await?;
            let answer = timeout(ANSWER_TIME_MAX, self.answer());
            answer.await.context("no answer in 10 s")??;
            let took_us = u32::try_from(asked.elapsed().as_micros());
            latencies_us.push(took_us.unwrap_or(u32::MAX));
            if Instant::now() >= until {
                return Ok(latencies_us);
            }
        }
    }

    async fn answer(&mut self) -> anyhow::Result<()> {
        let mut held = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[held..]).await?;
            if read == 0 {
                bail!("the connection was closed");
            }
            held += read;
            if let Some(whole) = whole_bytes(&self.buffer[..held])?
                && held >= whole
            {
                return Ok(());
            }
        }
    }
}

/// How long the answer is, once its head is there.
fn whole_bytes(answer: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&answer[..end])?;
    if !head.starts_with("HTTP/1.1 200") {
        bail!("not 200: {}", head.lines().next().unwrap_or_default());
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    Ok(Some(end + 4 + length.context("no content-length")?))
}
