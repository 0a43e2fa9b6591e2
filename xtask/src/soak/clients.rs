//! Clients that ask for one thing after another, and know what each answer has to be.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::service::LARGE_BYTES;
use super::stage::Stage;
use super::stalls::Stalls;

/// What is asked; each has a name for the table.
const KINDS: [&str; 9] = [
    "small, local",
    "small, local, new connection",
    "small, other site",
    "first of several",
    "upload, local",
    "upload in chunks, other site",
    "large, local",
    "large, other site",
    "slow, other site",
];

/// How many answers of each kind were right, explained, or neither.
#[derive(Default)]
pub(super) struct Tally(BTreeMap<usize, [u64; 3]>, Vec<String>);

/// Errors that are shown.
const SHOWN_MAX: usize = 10;

impl Tally {
    pub(super) fn add(&mut self, other: Tally) {
        for (kind, counts) in other.0 {
            let sum = self.0.entry(kind).or_default();
            (0..3).for_each(|n| sum[n] += counts[n]);
        }
        self.1.extend(other.1);
    }

    pub(super) fn unexplained(&self) -> u64 {
        self.0.values().map(|counts| counts[2]).sum()
    }

    pub(super) fn table(&self) -> String {
        let mut out = "\n| requests | right | failed, explained by a fault | failed otherwise |\n\
                       | --- | --- | --- | --- |\n"
            .to_owned();
        for (kind, [right, explained, not]) in &self.0 {
            let _ = writeln!(out, "| {} | {right} | {explained} | {not} |", KINDS[*kind]);
        }
        for error in self.1.iter().take(SHOWN_MAX) {
            let _ = writeln!(out, "not explained: {error}");
        }
        out
    }
}

pub(super) struct Client {
    number: u64,
    stage: Arc<Stage>,
    stalls: Arc<Stalls>,
    pause: Duration,
    /// The site whose agent it asks: 1 or 2, which stay.
    at: usize,
    random: u64,
    kept: Option<BufReader<TcpStream>>,
}

/// One request, and the sites that may be asked for it.
struct Ask {
    kind: usize,
    path: &'static str,
    scope: String,
    /// The site whose troubles explain a failure; none for what is local.
    far: Option<usize>,
    body: Body,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    Counted,
    Chunked,
}

/// Bytes of an upload.
const UPLOAD_BYTES: usize = 64 * 1024;

impl Client {
    pub(super) fn new(
        number: u64,
        stage: Arc<Stage>,
        stalls: Arc<Stalls>,
        pause: Duration,
    ) -> Client {
        Client {
            number,
            stage,
            stalls,
            pause,
            at: 1 + usize::from(number % 3 == 2),
            random: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            kept: None,
        }
    }

    pub(super) fn run(mut self, stop: &AtomicBool) -> Tally {
        let mut tally = Tally::default();
        let mut next = Instant::now();
        while !stop.load(Ordering::SeqCst) {
            next += self.pause;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            // One that was held up does not make up for it.
            next = next.max(Instant::now());
            let ask = self.draw();
            let begun = Instant::now();
            let outcome = self.ask(&ask);
            let counts = tally.0.entry(ask.kind).or_default();
            match outcome {
                Ok(()) => counts[0] += 1,
                Err(_) if ask.far.is_some_and(|far| self.is_explained(far, begun)) => {
                    counts[1] += 1;
                }
                Err(error) => {
                    counts[2] += 1;
                    let (n, kind) = (self.number, KINDS[ask.kind]);
                    let (scope, stalls) = (&ask.scope, self.stalls.lately());
                    let now = clock();
                    tally.1.push(format!(
                        "{now}, client {n}, {kind}, `{scope}`: {error}; {stalls}"
                    ));
                }
            }
        }
        tally
    }

    /// Also by what happened to the site that it asks at.
    fn is_explained(&self, far: usize, begun: Instant) -> bool {
        self.stage.explains(far, begun) || self.stage.explains(self.at, begun)
    }

    fn draw(&mut self) -> Ask {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let kind = match self.random % 100 {
            0..35 => 0,
            35..45 => 1,
            45..63 => 2,
            63..75 => 3,
            75..85 => 4,
            85..92 => 5,
            92..95 => 6,
            95..97 => 7,
            _ => 8,
        };
        let others: Vec<usize> = (1..=3).filter(|site| *site != self.at).collect();
        let far = others[usize::try_from(self.random >> 32).unwrap_or_default() % 2];
        let here = self.at;
        let one = |site: usize| format!("image: site{site}");
        let (scope, far) = match kind {
            0 | 1 | 4 | 6 => (one(here), None),
            // The last resort is this site: only a request that was lost on its way may fail.
            3 => (format!("image: site{far}; site{here}"), Some(far)),
            _ => (one(far), Some(far)),
        };
        Ask {
            kind,
            path: match kind {
                6 | 7 => "/large",
                8 => "/slow",
                _ => "/small",
            },
            scope,
            far,
            body: match kind {
                4 => Body::Counted,
                5 => Body::Chunked,
                _ => Body::None,
            },
        }
    }

    fn ask(&mut self, ask: &Ask) -> Result<(), String> {
        let address = self.stage.site(self.at).image;
        let mut connection = match self.kept.take() {
            Some(kept) if ask.kind != 1 => kept,
            _ => connect(address)?,
        };
        let Answer {
            status,
            body,
            closes,
        } = exchange(&mut connection, ask)?;
        let wanted = match ask.path {
            "/large" => body.len() == LARGE_BYTES,
            "/slow" => body == b"slow",
            _ if ask.body == Body::None => body.starts_with(b"0 "),
            _ => body.starts_with(format!("{UPLOAD_BYTES} ").as_bytes()),
        };
        self.kept = (!closes).then_some(connection);
        match (status, wanted) {
            (200, true) => Ok(()),
            (200, false) => Err(format!("{} bytes that are not the answer", body.len())),
            _ => Err(format!("{status} {}", String::from_utf8_lossy(&body))),
        }
    }
}

/// The time of day as logs write it.
fn clock() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

fn connect(address: SocketAddr) -> Result<BufReader<TcpStream>, String> {
    let stream = TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?;
    let set = stream.set_nodelay(true).and_then(|()| {
        let time = Some(Duration::from_secs(90));
        stream.set_read_timeout(time)
    });
    set.map_err(|error| error.to_string())?;
    Ok(BufReader::new(stream))
}

/// An answer, and whether it is the last on its connection.
struct Answer {
    status: u16,
    body: Vec<u8>,
    closes: bool,
}

fn exchange(connection: &mut BufReader<TcpStream>, ask: &Ask) -> Result<Answer, String> {
    let upload = "u".repeat(UPLOAD_BYTES);
    let (method, more, body) = match ask.body {
        Body::None => ("GET", String::new(), String::new()),
        Body::Counted => ("PUT", format!("Content-Length: {UPLOAD_BYTES}\r\n"), upload),
        Body::Chunked => {
            let chunks = format!("{UPLOAD_BYTES:x}\r\n{upload}\r\n0\r\n\r\n");
            ("PUT", "Transfer-Encoding: chunked\r\n".to_owned(), chunks)
        }
    };
    let head = format!(
        "{method} {} HTTP/1.1\r\nHost: soak.example\r\nX-Scope: {}\r\n{more}\r\n",
        ask.path, ask.scope
    );
    let stream = connection.get_mut();
    stream
        .write_all(head.as_bytes())
        .map_err(|error| format!("write: {error}"))?;
    // Refused early, the rest of a body may not be taken; the answer tells.
    let _ = stream.write_all(body.as_bytes());
    read_answer(connection).map_err(|error| format!("read: {error}"))
}

fn read_answer(connection: &mut BufReader<TcpStream>) -> std::io::Result<Answer> {
    let bad = |what: &str| std::io::Error::other(what.to_owned());
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 {
        return Err(bad("the connection was closed"));
    }
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| bad(&line))?;
    let (mut length, mut closes) = (0, false);
    loop {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().map_err(|_| bad("no length"))?;
        }
        closes |= line == "connection: close";
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    Ok(Answer {
        status,
        body,
        closes,
    })
}

/// One small request on a connection of its own; the status, if there is one.
pub(super) fn ask_once(address: SocketAddr, scope: &str) -> Option<u16> {
    let ask = Ask {
        kind: 0,
        path: "/small",
        scope: scope.to_owned(),
        far: None,
        body: Body::None,
    };
    let mut connection = connect(address).ok()?;
    exchange(&mut connection, &ask)
        .ok()
        .map(|answer| answer.status)
}
