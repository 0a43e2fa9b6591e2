//! Calling a service of this site for the applier: few connections, whole bodies, a deadline.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::limits::{CALLS_MAX, IDLE_MAX};
use super::replaced::Replaced;
use crate::limits::CONNECT_DEADLINE;
use crate::registry::Endpoints;

/// A service's answer.
pub(super) struct Heard {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// None if it was longer than was asked for.
    pub(super) body: Option<Bytes>,
}

impl Heard {
    /// As if the request had reached the service as it was.
    pub(super) fn restored(mut self, replaced: Vec<Replaced>) -> Heard {
        for one in replaced {
            one.restore(&mut self.headers);
        }
        self
    }
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum Silence {
    /// It cannot have seen the request whole.
    NotSent,
    /// It may have.
    Unknown,
}

/// The way to one service.
pub(super) struct Way {
    endpoints: watch::Receiver<Arc<Endpoints>>,
    deadline: Duration,
    calls: Semaphore,
    idle: Mutex<Vec<(SocketAddr, SendRequest<Full<Bytes>>)>>,
}

impl Way {
    pub(super) fn new(endpoints: watch::Receiver<Arc<Endpoints>>, deadline: Duration) -> Way {
        Way {
            endpoints,
            deadline,
            calls: Semaphore::new(CALLS_MAX),
            idle: Mutex::default(),
        }
    }

    /// Where it is.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.endpoints.borrow().addresses.to_vec()
    }

    /// How long it may take.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Asks, and reads the answer up to `bytes_max`. What was written is never written again.
    pub(super) async fn ask(
        &self,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<Heard, Silence> {
        let _turn = self.calls.acquire().await.map_err(|_| Silence::NotSent)?;
        let until = Instant::now() + self.deadline;
        match timeout_at(until, self.exchange(request, bytes_max)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Silence::Unknown),
        }
    }

    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<Heard, Silence> {
        let addresses = self.endpoints.borrow().addresses.clone();
        for address in addresses.iter().copied() {
            while let Some(sender) = self.take_idle(address) {
                match self.try_one(address, sender, request, bytes_max).await {
                    Ok(outcome) => return outcome,
                    Err(unsent) => request = *unsent,
                }
            }
            let Some(sender) = connect(address).await else {
                continue;
            };
            match self.try_one(address, sender, request, bytes_max).await {
                Ok(outcome) => return outcome,
                Err(unsent) => request = *unsent,
            }
        }
        Err(Silence::NotSent)
    }

    /// An outcome, or the request if the connection was dead before anything was written.
    async fn try_one(
        &self,
        address: SocketAddr,
        mut sender: SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<Result<Heard, Silence>, Box<Request<Full<Bytes>>>> {
        match sender.try_send_request(request).await {
            Ok(response) => {
                let heard = hear(response, bytes_max).await;
                if heard.as_ref().is_ok_and(|heard| heard.body.is_some()) {
                    self.keep(address, sender);
                }
                Ok(heard)
            }
            Err(mut error) => match error.take_message() {
                Some(unsent) => Err(Box::new(unsent)),
                None => Ok(Err(Silence::Unknown)),
            },
        }
    }

    fn take_idle(&self, address: SocketAddr) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(|e| e.into_inner());
        idle.retain(|(_, sender)| !sender.is_closed());
        let ready =
            |(at, sender): &(SocketAddr, SendRequest<_>)| *at == address && sender.is_ready();
        let place = idle.iter().rposition(ready)?;
        Some(idle.swap_remove(place).1)
    }

    fn keep(&self, address: SocketAddr, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock().unwrap_or_else(|e| e.into_inner());
        if idle.len() < IDLE_MAX {
            idle.push((address, sender));
        }
    }
}

pub(super) async fn connect<B>(address: SocketAddr) -> Option<SendRequest<B>>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = timeout(CONNECT_DEADLINE, TcpStream::connect(address)).await;
    let stream = stream.ok()?.ok()?;
    let _ = stream.set_nodelay(true);
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

/// An answer whose end does not come is none: whether its body was all is not known.
pub(super) async fn hear(response: Response<Incoming>, bytes_max: usize) -> Result<Heard, Silence> {
    let (head, body) = response.into_parts();
    let body = match Limited::new(body, bytes_max).collect().await {
        Ok(body) => Some(body.to_bytes()),
        Err(fault) if fault.is::<LengthLimitError>() => None,
        Err(_) => return Err(Silence::Unknown),
    };
    Ok(Heard {
        status: head.status,
        headers: head.headers,
        body,
    })
}
