//! A client that brings a long content, and one that asks small things meanwhile.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// What is written at once.
const PIECE_BYTES: usize = 1 << 20;

/// How often something small is asked.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Bytes that do not repeat, made as they are sent.
pub(super) struct Content {
    piece: Vec<u8>,
    left: u64,
    bytes: u64,
    hasher: blake3::Hasher,
}

impl Content {
    pub(super) fn new(bytes: u64) -> Content {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut piece = vec![0; PIECE_BYTES];
        for word in piece.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        Content {
            piece,
            left: bytes,
            bytes,
            hasher: blake3::Hasher::new(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// As the sample service says it, of what was sent so far.
    pub(super) fn checksum(&self) -> String {
        format!("blake3:{}", self.hasher.finalize().to_hex())
    }

    fn next(&mut self) -> Option<&[u8]> {
        let length = self.left.min(PIECE_BYTES as u64) as usize;
        self.piece[..8].copy_from_slice(&self.left.to_le_bytes());
        self.left -= length as u64;
        let piece = &self.piece[..length];
        self.hasher.update(piece);
        (length > 0).then_some(piece)
    }
}

/// An answer, with its head in lower case.
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(&prefix))
    }
}

/// One connection that is kept.
pub(super) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(super) fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(Connection(BufReader::new(stream)))
    }

    pub(super) fn ask(&mut self, head: &str, body: &[u8]) -> anyhow::Result<Answer> {
        let length = body.len();
        let text = format!("{head}\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        let stream = self.0.get_mut();
        stream.write_all(&[text.as_bytes(), body].concat())?;
        self.answer()
    }

    /// Brings a content, and waits for the answer to all of it.
    pub(super) fn bring(&mut self, head: &str, content: &mut Content) -> anyhow::Result<Answer> {
        let length = content.bytes();
        let text = format!("{head}\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        let stream = self.0.get_mut();
        stream.write_all(text.as_bytes())?;
        while let Some(piece) = content.next() {
            stream.write_all(piece)?;
        }
        self.answer()
    }

    fn answer(&mut self) -> anyhow::Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                bail!("the connection ended");
            }
        }
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
        };
        let length = answer.header("content-length").unwrap_or("0");
        answer.body = vec![0; length.parse()?];
        self.0.read_exact(&mut answer.body)?;
        Ok(answer)
    }
}

/// How long answers took that came.
pub(super) struct Latencies(Vec<Duration>);

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort();
        let at = |share: f64| {
            let place = (sorted.len() as f64 * share) as usize;
            let found = sorted.get(place.min(sorted.len().saturating_sub(1)));
            found.map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
        };
        let count = sorted.len();
        write!(
            f,
            "{count}: median {:.1} ms, p99 {:.1} ms",
            at(0.5),
            at(0.99)
        )
    }
}

/// Asks the other site's service for something small, again and again. What met a cut does not count.
pub(super) fn ask_until(address: SocketAddr, stop: &AtomicBool) -> Latencies {
    let mut seen = Vec::new();
    let mut connection = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(ASK_EVERY);
        let open = match connection.take() {
            Some(open) => Some(open),
            None => Connection::open(address).ok(),
        };
        let Some(mut open) = open else { continue };
        let started = Instant::now();
        let asked = open.ask("GET /images?limit=1 HTTP/1.1\r\nX-Scope: image: site2", b"");
        if let Ok(answer) = asked {
            if answer.status == 200 {
                seen.push(started.elapsed());
            }
            connection = Some(open);
        }
    }
    Latencies(seen)
}
