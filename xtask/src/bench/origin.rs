//! The service behind every proxy: the same small answer to everything but `/huge`, as cheaply as
//! can be.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

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

/// Prints its address, and serves until it is killed: one thread for all connections. A thread for each would have to be woken for
/// each request, by whoever sends it, and so count as work of the proxy.
pub(super) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, accept())
}

async fn accept() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    super::say(&listener.local_addr()?.to_string());
    let answer = format!(
        "HTTP/1.1 200 OK\r\nServer: origin\r\nContent-Type: application/json\r\n\
         X-Openstack-Request-Id: req-7b1f3a58-6a27-4c58-9b5f-0c6d1a9f2e11\r\n\
         Content-Length: {BODY_BYTES}\r\n\r\n{}",
        "x".repeat(BODY_BYTES),
    );
    let answer: Rc<str> = answer.into();
    loop {
        let (stream, _) = listener.accept().await?;
        let answer = answer.clone();
        // Whoever hangs up is not answered.
        tokio::task::spawn_local(async move { converse(stream, answer.as_bytes()).await.ok() });
    }
}

/// Answers every request head; requests of the benchmark have no body.
async fn converse(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 16 * 1024];
    let mut held = 0;
    loop {
        let read = stream.read(&mut buffer[held..]).await?;
        if read == 0 {
            return Ok(());
        }
        held += read;
        let heads = buffer[..held]
            .windows(4)
            .filter(|w| w == b"\r\n\r\n")
            .count();
        if heads == 1 && buffer.starts_with(b"GET /huge ") {
            return answer_huge(stream);
        }
        for _ in 0..heads {
            stream.write_all(answer).await?;
        }
        if heads > 0 {
            held = 0;
        }
    }
}

/// In a thread of its own, and nothing after it on this connection.
fn answer_huge(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    std::thread::spawn(move || service::answer_huge(&mut stream));
    Ok(())
}
