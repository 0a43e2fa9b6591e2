//! Fetching images, before the answer or after it.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Servers;
use super::record::{BootedImage, Status};
use crate::id::Id;

/// How long after the answer a server is built: long enough for the answer to have gone.
const BUILD_DELAY: Duration = Duration::from_millis(50);

/// How long the image service may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The most that is read of a description or of a refusal.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// A server to build after its answer.
pub(crate) struct Boot {
    pub(crate) server: String,
    pub(crate) image_id: Id,
    pub(crate) headers: HeaderMap,
}

/// Builds what is ordered until nobody can order any more.
pub(crate) async fn build_later(
    images: ImageSource,
    servers: Servers,
    mut orders: mpsc::Receiver<Boot>,
) {
    let mut builds = JoinSet::new();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(boot) => drop(builds.spawn(build(images.clone(), servers.clone(), boot))),
                None => return,
            },
            Some(_) = builds.join_next() => (),
        }
    }
}

async fn build(images: ImageSource, servers: Servers, boot: Boot) {
    sleep(BUILD_DELAY).await;
    let status = match images.fetch(&boot.image_id, &boot.headers).await {
        Ok(image) => Status::Active(image),
        Err(why) => Status::Error(why),
    };
    let mut servers = servers
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // It may have been deleted meanwhile.
    if let Some(server) = servers.get_mut(&boot.server) {
        server.status = status;
    }
}

/// The image service, as seen from here. Its errors are texts for the client.
#[derive(Clone)]
pub(crate) struct ImageSource {
    url: String,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl ImageSource {
    pub(crate) fn new(url: &Uri) -> io::Result<ImageSource> {
        if url.scheme_str() != Some("http") || url.query().is_some() {
            let why = "the image URL has the form http://host:port";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let url = url.to_string().trim_end_matches('/').to_owned();
        Ok(ImageSource {
            url,
            client: Client::builder(TokioExecutor::new()).build_http(),
        })
    }

    /// Reads the description of an image, then all of its content.
    pub(crate) async fn fetch(&self, id: &Id, headers: &HeaderMap) -> Result<BootedImage, String> {
        let path = format!("/images/{}", encoded(&id.to_string()));
        let description = self.get(&path, headers).await?.into_body();
        let description: Value = serde_json::from_slice(&read_text(description).await?)
            .map_err(|fault| format!("image service sent no JSON: {fault}"))?;
        let content = self
            .get(&format!("{path}/file"), headers)
            .await?
            .into_body();
        let checksum = format!("blake3:{}", read_hash(content).await?.to_hex());
        Ok(BootedImage {
            name: description["name"].clone(),
            checksum,
        })
    }

    async fn get(&self, path: &str, headers: &HeaderMap) -> Result<Response<Incoming>, String> {
        let mut request = Request::get(format!("{}{path}", self.url))
            .body(Empty::new())
            .map_err(|fault| format!("bad image address: {fault}"))?;
        *request.headers_mut() = headers.clone();
        let answer = match timeout(SILENCE_MAX, self.client.request(request)).await {
            Ok(answer) => answer.map_err(unreachable)?,
            Err(_) => return Err(silent()),
        };
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = read_text(answer.into_body()).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        Err(format!(
            "image service answered {}: {text}",
            status.as_u16()
        ))
    }
}

async fn read_text(body: Incoming) -> Result<Bytes, String> {
    match timeout(SILENCE_MAX, Limited::new(body, TEXT_BYTES_MAX).collect()).await {
        Ok(Ok(text)) => Ok(text.to_bytes()),
        Ok(Err(fault)) => Err(format!("image service broke off: {fault}")),
        Err(_) => Err(silent()),
    }
}

async fn read_hash(mut body: Incoming) -> Result<blake3::Hash, String> {
    let mut hasher = blake3::Hasher::new();
    while let Some(frame) = timeout(SILENCE_MAX, body.frame())
        .await
        .map_err(|_| silent())?
    {
        let frame = frame.map_err(|fault| format!("image service broke off: {fault}"))?;
        if let Some(piece) = frame.data_ref() {
            hasher.update(piece);
        }
    }
    Ok(hasher.finalize())
}

/// An id comes from a client: it must not lead to another path.
fn encoded(id: &str) -> String {
    form_urlencoded::byte_serialize(id.as_bytes()).collect()
}

fn unreachable(fault: hyper_util::client::legacy::Error) -> String {
    let cause = std::error::Error::source(&fault).map(|cause| format!(" ({cause})"));
    format!(
        "image service unreachable: {fault}{}",
        cause.unwrap_or_default()
    )
}

fn silent() -> String {
    format!("image service silent for {} s", SILENCE_MAX.as_secs())
}
