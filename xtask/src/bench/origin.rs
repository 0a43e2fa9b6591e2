//! The service behind every proxy: the same small answer to everything but `/huge`, as cheaply as
//! can be.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::soak::service;

/// Bytes of the answer's body.
const BODY_BYTES: usize = 1024;

/// A running origin.
pub(super) struct Origin {
    pub(super) address: SocketAddr,
    pub(super) process: Child,
}

impl Origin {
    /// Starts this program again, as the origin.
    pub(super) fn start() -> anyhow::Result<Origin> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("bench-origin")
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("no standard output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(Origin {
            address: line.trim().parse()?,
            process,
        })
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Prints its address, and serves until it is killed: a thread per connection.
pub(super) fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    super::say(&listener.local_addr()?.to_string());
    let answer = format!(
        "HTTP/1.1 200 OK\r\nServer: origin\r\nContent-Type: application/json\r\n\
         X-Openstack-Request-Id: req-7b1f3a58-6a27-4c58-9b5f-0c6d1a9f2e11\r\n\
         Content-Length: {BODY_BYTES}\r\n\r\n{}",
        "x".repeat(BODY_BYTES),
    );
    for stream in listener.incoming() {
        let (stream, answer) = (stream?, answer.clone());
        std::thread::spawn(move || {
            let _ = converse(stream, answer.as_bytes());
        });
    }
    Ok(())
}

/// Answers every request head; requests of the benchmark have no body.
fn converse(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 16 * 1024];
    let mut held = 0;
    loop {
        let read = stream.read(&mut buffer[held..])?;
        if read == 0 {
            return Ok(());
        }
        held += read;
        let heads = buffer[..held]
            .windows(4)
            .filter(|w| w == b"\r\n\r\n")
            .count();
        if heads == 1 && buffer.starts_with(b"GET /huge ") {
            service::answer_huge(&mut stream)?;
            held = 0;
            continue;
        }
        for _ in 0..heads {
            stream.write_all(answer)?;
        }
        if heads > 0 {
            held = 0;
        }
    }
}
