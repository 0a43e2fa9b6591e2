//! The service of each site: small, large and slow answers, and bodies that are read to their end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Bytes of the large answer.
pub(crate) const LARGE_BYTES: usize = 1 << 20;

/// Bytes of the huge one, which is written in pieces.
pub(crate) const HUGE_BYTES: usize = 100 << 20;

/// Starts it on a free port: a thread per connection, for as long as the process runs.
pub(crate) fn start() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || converse(stream));
        }
    });
    Ok(address)
}

fn converse(stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut write = stream.try_clone().ok()?;
    let mut read = BufReader::new(stream);
    loop {
        let mut path = String::new();
        let (mut length, mut chunked, mut first) = (0, false, true);
        loop {
            let mut line = String::new();
            if read.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if std::mem::take(&mut first) {
                path = line.split(' ').nth(1)?.to_owned();
            } else if line.is_empty() {
                break;
            } else if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().ok()?;
            } else if line == "transfer-encoding: chunked" {
                chunked = true;
            }
        }
        let taken = match chunked {
            true => take_chunks(&mut read)?,
            false => take(&mut read, length)?,
        };
        answer(&mut write, &path, taken)?;
    }
}

fn take(read: &mut impl Read, length: u64) -> Option<u64> {
    let taken = std::io::copy(&mut read.take(length), &mut std::io::sink()).ok()?;
    (taken == length).then_some(taken)
}

fn take_chunks(read: &mut impl BufRead) -> Option<u64> {
    let mut total = 0;
    loop {
        let mut line = String::new();
        read.read_line(&mut line).ok()?;
        let size = u64::from_str_radix(line.trim_end(), 16).ok()?;
        total += take(read, size)?;
        take(read, 2)?;
        if size == 0 {
            return Some(total);
        }
    }
}

fn answer(write: &mut TcpStream, path: &str, taken: u64) -> Option<()> {
    if path == "/huge" {
        return answer_huge(write).ok();
    }
    let body = match path {
        "/large" => "x".repeat(LARGE_BYTES),
        "/slow" => {
            std::thread::sleep(Duration::from_millis(150));
            "slow".to_owned()
        }
        _ => format!("{taken} {}", "y".repeat(1000)),
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    write.write_all(head.as_bytes()).ok()?;
    write.write_all(body.as_bytes()).ok()
}

/// Writes the huge answer.
pub(crate) fn answer_huge(write: &mut TcpStream) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {HUGE_BYTES}\r\n\r\n");
    write.write_all(head.as_bytes())?;
    let piece = vec![b'h'; 256 * 1024];
    for _ in 0..HUGE_BYTES / piece.len() {
        write.write_all(&piece)?;
    }
    Ok(())
}
