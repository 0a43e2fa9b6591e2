//! Clients that hide nothing: HTTP/1.1 byte by byte, and HTTP/2 with prior knowledge.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::PATIENCE;

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// All values of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let same = |(key, value)| (key == name).then_some(value);
        let pairs = self.headers.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        pairs.filter_map(same).collect()
    }

    /// The value of a header; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.all(name).first().copied().unwrap_or_default()
    }

    pub(crate) fn served_by(&self) -> &str {
        self.header("x-cheops-served-by")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The word of a problem, after a look at its form.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{self:?}"
        );
        let body = self.json();
        let code = body["code"].as_str().expect("a code").to_owned();
        assert_eq!(body["type"], format!("urn:cheops:problem:{code}"));
        assert_eq!(body["status"], self.status);
        assert!(
            body["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty())
        );
        assert!(body["detail"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(body["sites"].is_array());
        assert_eq!(self.served_by(), "", "no service answered");
        assert!(
            !self
                .headers
                .iter()
                .any(|(name, _)| name == "x-cheops-nothing-happened"),
            "what agents tell each other stays among them"
        );
        code
    }
}

/// One connection, kept open from request to request.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Connection {
        Connection::over(TcpStream::connect(address).await.unwrap())
    }

    /// With so much room for what it has not read, and no more.
    pub(crate) async fn with_room(address: SocketAddr, bytes: u32) -> Connection {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Connection::over(socket.connect(address).await.unwrap())
    }

    fn over(stream: TcpStream) -> Connection {
        stream.set_nodelay(true).unwrap();
        Connection {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Writes the head of a request, and no body.
    pub(crate) async fn head(&mut self, first_line: &str, headers: &[(&str, &str)]) {
        self.write(&spell(first_line, headers)).await;
    }

    /// Reads an answer; `Err` tells how far it came.
    pub(crate) async fn answer(&mut self, method: &str) -> Result<Answer, String> {
        timeout(PATIENCE, self.read(method))
            .await
            .expect("an answer comes in time")
    }

    /// Reads the head of an answer; its body is still to come.
    pub(crate) async fn answer_head(&mut self) -> Result<Answer, String> {
        let line = self.line().await?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut answer = Answer {
            status: status.ok_or_else(|| format!("no status in {line:?}"))?,
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok(answer);
            }
            let (name, value) = line.split_once(':').ok_or("a header without a colon")?;
            answer
                .headers
                .push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    async fn read(&mut self, method: &str) -> Result<Answer, String> {
        let mut answer = self.answer_head().await?;
        while answer.status == 100 {
            answer = self.answer_head().await?;
        }
        let bare = method == "HEAD" || matches!(answer.status, 204 | 304);
        if bare {
            return Ok(answer);
        }
        if answer.header("transfer-encoding") == "chunked" {
            answer.body = self.chunks().await?;
        } else if let Ok(bytes) = answer.header("content-length").parse() {
            answer.body = self.exactly(bytes).await?;
        } else {
            let read = self.stream.read_to_end(&mut answer.body).await;
            read.map_err(|fault| fault.to_string())?;
        }
        Ok(answer)
    }

    async fn chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let bytes = usize::from_str_radix(&line, 16).map_err(|_| format!("chunk {line:?}"))?;
            body.extend(self.exactly(bytes).await?);
            if !self.line().await?.is_empty() {
                return Err("a chunk has no end".into());
            }
            if bytes == 0 {
                return Ok(body);
            }
        }
    }

    pub(crate) async fn exactly(&mut self, bytes: usize) -> Result<Vec<u8>, String> {
        let mut body = vec![0; bytes];
        let read = self.stream.read_exact(&mut body).await;
        read.map_err(|fault| fault.to_string())?;
        Ok(body)
    }

    pub(crate) async fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await;
        match read.map_err(|fault| fault.to_string())? {
            0 => Err("the connection ended".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

pub(crate) fn spell(first_line: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("{first_line}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{text}\r\n").into_bytes()
}

/// One request on a connection of its own; else how far its answer came.
pub(crate) async fn try_ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Answer, String> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|fault| format!("not connected: {fault}"))?;
    stream.set_nodelay(true).unwrap();
    let mut connection = Connection {
        stream: BufReader::new(stream),
    };
    let length = body.len().to_string();
    let mut all = headers.to_vec();
    if !headers.iter().any(|(name, _)| *name == "Host") {
        all.insert(0, ("Host", "app.example"));
    }
    if !body.is_empty() {
        all.push(("Content-Length", &length));
    }
    let mut request = spell(&format!("{method} {path} HTTP/1.1"), &all);
    request.extend_from_slice(body);
    let written = connection.stream.write_all(&request).await;
    written.map_err(|fault| format!("not written: {fault}"))?;
    connection.answer(method).await
}

/// One request on a connection of its own.
pub(crate) async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    try_ask(address, method, path, headers, body)
        .await
        .unwrap_or_else(|fault| panic!("{method} {path}: {fault}"))
}

/// `GET`, with a scope or without.
pub(crate) async fn get(address: SocketAddr, path: &str, scope: Option<&str>) -> Answer {
    let headers: Vec<_> = scope.map(|scope| ("X-Scope", scope)).into_iter().collect();
    ask(address, "GET", path, &headers, b"").await
}

/// `GET` of an admin page, by the name it is reached under.
pub(crate) async fn admin(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, &[("Host", "localhost")], b"").await
}

/// Bytes as they are, on a connection of their own; the answer to the last of them.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut connection = Connection::open(address).await;
    connection.write(bytes).await;
    connection.answer("GET").await.unwrap()
}

/// One request over HTTP/2 with prior knowledge.
pub(crate) async fn ask_http2(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let driver = tokio::spawn(connection);
    let mut request = http::Request::builder()
        .method(method)
        .uri(format!("http://app.example{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Full::new(Bytes::copy_from_slice(body)))
        .unwrap();
    let exchange = async {
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        (head, body)
    };
    let (head, body) = timeout(PATIENCE, exchange).await.expect("in time");
    driver.abort();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Answer {
        status: head.status.as_u16(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        body,
    }
}
