//! The asking end of a control link: one HTTP/2 connection, one message at a time answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::leash::{Leash, Leashed};
use super::pause::Failure;
use crate::limits::{CONNECT_DEADLINE, CONTROL_BYTES_MAX};

/// Why a link ended or did not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkFault {
    /// The path does not work.
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The peer does not want what we say.
    #[error("refused with {status}: {why}")]
    Refused {
        /// Its status.
        status: StatusCode,
        /// Its words.
        why: String,
    },
    /// The peer says what we do not want.
    #[error("its answer is of no use: {0}")]
    Useless(String),
}

impl LinkFault {
    pub(super) fn failure(&self) -> Failure {
        match self {
            LinkFault::Late(_) | LinkFault::Broken(_) => Failure::Unreachable,
            // Most often our own life before a restart: over in a moment.
            LinkFault::Refused {
                status: StatusCode::CONFLICT,
                ..
            } => Failure::Unreachable,
            LinkFault::Refused { .. } | LinkFault::Useless(_) => Failure::Refused,
        }
    }
}

impl From<hyper::Error> for LinkFault {
    fn from(fault: hyper::Error) -> LinkFault {
        use std::error::Error;
        let source = fault
            .source()
            .map(|source| format!(": {source}"))
            .unwrap_or_default();
        LinkFault::Broken(format!("{fault}{source}"))
    }
}

/// The connection's own work, to be polled while messages are exchanged.
pub(super) type Work = http2::Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>, Leashed>;

/// Sends messages and reads the answers. With the last clone the connection is gone.
#[derive(Clone)]
pub(super) struct Exchange {
    _leash: Arc<Leash>,
    sender: http2::SendRequest<Full<Bytes>>,
}

impl Exchange {
    pub(super) async fn open(stream: TlsStream<TcpStream>) -> Result<(Exchange, Work), LinkFault> {
        let leash = Arc::new(Leash::new());
        let handshake = http2::Builder::new(leash.executor()).handshake(TokioIo::new(stream));
        let (sender, work) = timeout(CONNECT_DEADLINE, handshake)
            .await
            .map_err(|_| late(CONNECT_DEADLINE))??;
        Ok((
            Exchange {
                _leash: leash,
                sender,
            },
            work,
        ))
    }

    /// Posts `body` and reads the answer, within `deadline`.
    pub(super) async fn ask<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: Bytes,
        deadline: Duration,
    ) -> Result<T, LinkFault> {
        let answer = timeout(deadline, self.post(path, body))
            .await
            .map_err(|_| late(deadline))?;
        serde_json::from_slice(&answer?).map_err(|fault| LinkFault::Useless(fault.to_string()))
    }

    async fn post(&mut self, path: &str, body: Bytes) -> Result<Bytes, LinkFault> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("https://cheops.mesh{path}"))
            .body(Full::new(body))
            .expect("a constant address and path");
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let body = collect(response).await?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        let why = String::from_utf8_lossy(&body[..body.len().min(256)]).into_owned();
        Err(LinkFault::Refused { status, why })
    }
}

async fn collect(response: Response<Incoming>) -> Result<Bytes, LinkFault> {
    let body = Limited::new(response.into_body(), CONTROL_BYTES_MAX)
        .collect()
        .await;
    body.map(|body| body.to_bytes())
        .map_err(|fault| LinkFault::Broken(fault.to_string()))
}

fn late(deadline: Duration) -> LinkFault {
    LinkFault::Late(deadline)
}
