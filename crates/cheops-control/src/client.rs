//! Asking an agent's admin API. Every wait has a deadline, every answer a bound.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An answer takes no longer: it comes from this machine, or from nearby.
const ASK_TIME_MAX: Duration = Duration::from_secs(10);

/// An answer is no longer.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The address of an agent that was not told another.
pub const DEFAULT_ADMIN: &str = "127.0.0.1:8700";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Start the agent, or name another address.
    #[error("no agent answers at {address}: {why}; start one, or name its address with --admin")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        why: String,
    },
    /// Something else answers there.
    #[error("{address} gave no answer that can be read: {why}")]
    Garbled {
        /// Where.
        address: String,
        /// What was wrong.
        why: String,
    },
}

/// An agent's admin API.
#[derive(Clone, Debug)]
pub struct Client {
    address: String,
}

impl Client {
    /// For `127.0.0.1:8700` or `http://127.0.0.1:8700`.
    pub fn new(address: &str) -> Client {
        let bare = address.trim_start_matches("http://").trim_end_matches('/');
        Client {
            address: bare.to_owned(),
        }
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), ClientError> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// `POST` of JSON.
    pub async fn post(
        &self,
        path: &str,
        json: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        self.ask(Method::POST, path, Bytes::from(json)).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        match timeout(ASK_TIME_MAX, self.exchange(method, path, body)).await {
            Ok(answer) => answer,
            Err(late) => Err(self.unreachable(&late)),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let stream = TcpStream::connect(&self.address)
            .await
            .map_err(|e| self.unreachable(&e))?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|e| self.garbled(&e))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.address)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|e| self.garbled(&e))?;
        let answer = async {
            let response = sender
                .send_request(request)
                .await
                .map_err(|e| self.garbled(&e))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
                .collect()
                .await;
            Ok((status, body.map_err(|e| self.garbled(&e))?.to_bytes()))
        };
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answered = answer.as_mut() => answered,
            // The peer may close right after its answer, which is then still to be read.
            _ = connection => answer.await,
        }
    }

    fn unreachable(&self, why: &dyn std::fmt::Display) -> ClientError {
        ClientError::Unreachable {
            address: self.address.clone(),
            why: why.to_string(),
        }
    }

    fn garbled(&self, why: &dyn std::fmt::Display) -> ClientError {
        ClientError::Garbled {
            address: self.address.clone(),
            why: why.to_string(),
        }
    }
}
