//! A client for the story: one request, one answer.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What came back.
pub(in super::super) struct Answer {
    pub(in super::super) status: u16,
    pub(in super::super) served_by: String,
    pub(in super::super) body: serde_json::Value,
}

/// Sends one request; JSON both ways, or text where it is not.
pub(in super::super) async fn ask(
    method: &str,
    address: SocketAddr,
    path: &str,
    scope: Option<&str>,
    body: &str,
) -> anyhow::Result<Answer> {
    let exchange = exchange(method, address, path, scope, body);
    tokio::time::timeout(Duration::from_secs(20), exchange)
        .await
        .context("no answer in 20 s")?
}

async fn exchange(
    method: &str,
    address: SocketAddr,
    path: &str,
    scope: Option<&str>,
    body: &str,
) -> anyhow::Result<Answer> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let mut request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header("host", address.to_string())
        .header("content-type", "application/json");
    if let Some(scope) = scope {
        request = request.header("x-scope", scope);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned())))?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let header = response.headers().get("x-cheops-served-by");
    let served_by = header
        .and_then(|value| value.to_str().ok())
        .unwrap_or("-")
        .to_owned();
    let bytes = response.into_body().collect().await?.to_bytes();
    driver.abort();
    let text = || serde_json::Value::String(String::from_utf8_lossy(&bytes).into_owned());
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
    Ok(Answer {
        status,
        served_by,
        body,
    })
}
