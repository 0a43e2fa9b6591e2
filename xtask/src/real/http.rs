//! A client: one connection per request, bodies whole.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

/// A request to make.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) scope: Option<&'a str>,
    pub(super) body: &'a [u8],
}

impl<'a> Ask<'a> {
    pub(super) fn new(method: &'a str, path: &'a str) -> Ask<'a> {
        Ask {
            method,
            path,
            scope: None,
            body: b"",
        }
    }

    pub(super) fn body(self, body: &'a [u8]) -> Ask<'a> {
        Ask { body, ..self }
    }

    pub(super) fn scope(self, scope: &'a str) -> Ask<'a> {
        let scope = Some(scope).filter(|scope| !scope.is_empty());
        Ask { scope, ..self }
    }

    /// Sends it; the answer is read to its end.
    pub(super) fn send(&self, to: SocketAddr) -> anyhow::Result<Answer> {
        self.send_with(to, "")
    }

    /// With further headers, each ended by CRLF.
    pub(super) fn send_with(&self, to: SocketAddr, headers: &str) -> anyhow::Result<Answer> {
        let mut stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let Ask { method, path, .. } = self;
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n{headers}");
        if let Some(scope) = self.scope {
            head.push_str(&format!("X-Scope: {scope}\r\n"));
        }
        if !self.body.is_empty() {
            head.push_str("Content-Type: application/json\r\n");
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        stream.write_all(head.as_bytes())?;
        stream.write_all(self.body)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Answer::read(&bytes).with_context(|| format!("{method} {path}"))
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    fn read(bytes: &[u8]) -> anyhow::Result<Answer> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.context("no answer")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut answer = Answer {
            status: status.context("no status")?,
            head,
            body: bytes[end + 4..].to_vec(),
        };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = unchunked(&answer.body).context("broken chunks")?;
        }
        Ok(answer)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Null if it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// For a line that says what went wrong.
    pub(super) fn told(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        format!(
            "{} {}",
            self.status,
            text.chars().take(300).collect::<String>()
        )
    }
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(rest.get(end + 2..end + 2 + size)?);
        rest = rest.get(end + 2 + size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_chunks_is_one_body() {
        let answer = Answer::read(
            b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n",
        )
        .unwrap();
        assert_eq!((answer.status, &answer.body[..]), (201, &b"abcde"[..]));
        assert_eq!(answer.header("x-a"), Some("b"));
        assert!(Answer::read(b"HTTP/1.1 200 OK\r\n").is_err());
    }
}
