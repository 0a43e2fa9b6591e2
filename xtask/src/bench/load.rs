//! The client: so many connections, each asking again as soon as it is answered.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

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
    /// One thread polls all connections in turn: a closed loop without a runtime of its own.
    pub(super) fn run(&self) -> anyhow::Result<Outcome> {
        let request = request(self.address);
        let mut clients: Vec<Client> = (0..self.connections)
            .map(|_| Client::open(self.address))
            .collect::<Result<_, _>>()?;
        let until = Instant::now() + self.time;
        let mut outcome = Outcome::default();
        loop {
            for client in &mut clients {
                client.ask(&request)?;
            }
            for client in &mut clients {
                let took = client.answer()?;
                outcome.answers += 1;
                outcome
                    .latencies_us
                    .push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
            }
            if Instant::now() >= until {
                return Ok(outcome);
            }
        }
    }
}

struct Client {
    stream: TcpStream,
    asked: Instant,
    buffer: Vec<u8>,
}

impl Client {
    fn open(address: SocketAddr) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Client {
            stream,
            asked: Instant::now(),
            buffer: vec![0; 16 * 1024],
        })
    }

    fn ask(&mut self, request: &str) -> anyhow::Result<()> {
        self.asked = Instant::now();
        Ok(self.stream.write_all(request.as_bytes())?)
    }

    fn answer(&mut self) -> anyhow::Result<Duration> {
        let mut held = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[held..])?;
            if read == 0 {
                bail!("the connection was closed");
            }
            held += read;
            if let Some(whole) = whole_bytes(&self.buffer[..held])?
                && held >= whole
            {
                return Ok(self.asked.elapsed());
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
