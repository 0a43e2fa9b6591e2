//! One large answer, read as fast as it comes: what its bytes cost.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::bail;

use super::peers::Peer;
use super::process;
use crate::soak::service::HUGE_BYTES;

/// CPU milliseconds of a proxy for 100 MB of an answer's body.
pub(super) fn cpu_ms(peer: &Peer) -> anyhow::Result<f64> {
    let before = process::cpu_us(peer.pid)?;
    let mut stream = ask(peer.address, "/huge")?;
    let mut left = HUGE_BYTES;
    let mut buffer = vec![0; 256 * 1024];
    while left > 0 {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            bail!("the body broke off");
        }
        left = left.saturating_sub(read);
    }
    let cpu_ms = (process::cpu_us(peer.pid)? - before) / 1e3;
    Ok(cpu_ms * 100e6 / HUGE_BYTES as f64)
}

/// Asks on a connection of its own; nothing of the answer is read.
pub(super) fn ask(address: SocketAddr, path: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Scope: compute: site1\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}
