//! HTTP/2, frame by frame, with headers spelled as badly as one likes.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::PATIENCE;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RESET: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GO_AWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// What became of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was answered with a status; those of the static table alone are told apart.
    Status(u16),
    /// The stream, or the whole connection, was given up.
    GivenUp,
}

/// One connection.
pub(super) struct Raw {
    stream: TcpStream,
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Headers as literals that are not remembered, without any check.
pub(super) fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in headers {
        bytes.push(0);
        for text in [name, value] {
            push_length(&mut bytes, text.len());
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

/// An integer of HPACK with a prefix of seven bits.
fn push_length(bytes: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return bytes.push(length as u8);
    }
    bytes.push(127);
    let mut left = length - 127;
    while left >= 128 {
        bytes.push((left % 128) as u8 | 128);
        left /= 128;
    }
    bytes.push(left as u8);
}

/// What every request has, for a path.
pub(super) fn plain(path: &str) -> Vec<(&str, &str)> {
    vec![
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", path),
    ]
}

impl Raw {
    pub(super) async fn open(address: SocketAddr) -> Raw {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(PREFACE).await.unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        Raw { stream }
    }

    /// Says it, as far as the other end listens.
    pub(super) async fn say(&mut self, bytes: &[u8]) -> bool {
        let written = timeout(PATIENCE, self.stream.write_all(bytes)).await;
        written.expect("it reads or hangs up").is_ok()
    }

    async fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).await.ok()?;
        Some((head[3], stream, payload))
    }

    /// What becomes of a stream.
    pub(super) async fn outcome(&mut self, of: u32) -> Outcome {
        timeout(PATIENCE, self.read_outcome(of))
            .await
            .expect("something comes of it")
    }

    async fn read_outcome(&mut self, of: u32) -> Outcome {
        while let Some((kind, stream, payload)) = self.frame().await {
            match kind {
                HEADERS if stream == of => {
                    let status = match payload.first() {
                        Some(0x88) => 200,
                        Some(0x8c) => 400,
                        Some(0x8d) => 404,
                        _ => 0,
                    };
                    return Outcome::Status(status);
                }
                RESET if stream == of => return Outcome::GivenUp,
                GO_AWAY => return Outcome::GivenUp,
                _ => (),
            }
        }
        Outcome::GivenUp
    }

    /// Whether the connection is given up; reads whatever else comes first.
    pub(super) async fn is_given_up(&mut self) -> bool {
        let read = async {
            while let Some((kind, _, _)) = self.frame().await {
                if kind == GO_AWAY {
                    return;
                }
            }
        };
        timeout(PATIENCE, read).await.is_ok()
    }
}
