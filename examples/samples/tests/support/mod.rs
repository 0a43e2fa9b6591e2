//! A running service on a free port, and a client for it.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use cheops_samples::{compute, image};
use http_body_util::{BodyExt, Full};
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Ends with the value.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    _task: JoinSet<io::Result<()>>,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

pub(crate) async fn start_image(config: image::Config) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(image::serve(listener, config));
    Running {
        address,
        _task: task,
    }
}

pub(crate) async fn start_compute(config: compute::Config) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(compute::serve(listener, config));
    Running {
        address,
        _task: task,
    }
}

/// An address where nobody listens any more.
pub(crate) async fn deserted() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
}

impl Running {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    pub(crate) async fn json(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = body.to_string();
        self.ask(method, path, &[("content-type", "application/json")], body)
            .await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let (head, body) = client.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    /// Creates an image and tells its path.
    pub(crate) async fn create_image(&self, name: &str) -> String {
        let answer = self
            .json("POST", "/images", serde_json::json!({ "name": name }))
            .await;
        assert_eq!(answer.status, 201);
        answer.header("location").to_owned()
    }
}
