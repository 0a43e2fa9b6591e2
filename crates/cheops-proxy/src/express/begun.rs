//! A request that was sent the short way and whose answer is not plain, or too long to look for ids in it as bytes: the HTTP
//! library reads it.
//!
//! The library is made to send the request again, into nothing, and then reads the answer as if it
//! had sent it. So there is one way of reading what is unusual, and of telling what went wrong.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use http::{HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::Ticket;
use crate::backend::{self, Fault};
use crate::body::Body;
use crate::entry::Told;
use crate::headers;
use crate::problem::Problem;
use crate::pulse::{Patience, Pulse};
use crate::route::Journey;
use crate::worker::Worker;

/// What stands for the request towards the client's end of the library: it was read already, and
/// only that it may have an answer with a body is still of interest.
pub(super) const STAND_IN: &[u8] = b"GET / HTTP/1.1\r\nhost: begun\r\n\r\n";

/// A request that was sent, and what was read of its answer.
pub(crate) struct Begun {
    pub(super) stream: TcpStream,
    pub(super) read: Bytes,
    pub(super) ticket: Ticket,
}

impl Begun {
    /// The answer as it goes on, or why there is none.
    pub(crate) async fn answer(self, worker: &Worker) -> (Result<Response<Body>, Problem>, Told) {
        let Ticket {
            told,
            method,
            unbound,
            called,
            mention,
        } = self.ticket;
        let patience = Patience {
            pulse: Pulse::new(told.started),
            limit: called.limit,
        };
        let reading = pin!(read(self.stream, self.read, method));
        let sent = worker.sweep.within(&patience, reading).await;
        let service = told.service.as_deref();
        let service = service.expect("a request that was sent has a service");
        let mut answered = called.settle(worker, service, sent);
        if let Some(mention) = mention
            && let Ok(response) = answered
        {
            let journey = Journey {
                worker,
                service,
                trail: None,
                patience,
            };
            // Boxed: every connection would hold room for it.
            answered = Box::pin(mention.read(&journey, response)).await;
        }
        if unbound
            && let Ok(response) = &mut answered
            && let Ok(name) = HeaderValue::from_str(service.config.name.as_str())
        {
            response.headers_mut().insert(headers::UNBOUND, name);
        }
        (answered, told)
    }
}

async fn read(stream: TcpStream, read: Bytes, method: Method) -> Result<Response<Incoming>, Fault> {
    let sent = |error: hyper::Error| Fault::Sent(backend::describe(&error));
    let socket = Replay {
        stream,
        read,
        asked: None,
    };
    let mut sender = backend::speak(socket).await.map_err(sent)?;
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method;
    sender.send_request(request).await.map_err(sent)
}

/// A connection on which the request was sent: it is written into nothing, and then the answer is
/// there.
struct Replay {
    stream: TcpStream,
    read: Bytes,
    /// `None` while nothing was written, and nobody waits.
    asked: Option<Asked>,
}

enum Asked {
    /// The library does not expect an answer before it has asked.
    Waits(Waker),
    Yes,
}

impl AsyncRead for Replay {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !matches!(this.asked, Some(Asked::Yes)) {
            this.asked = Some(Asked::Waits(cx.waker().clone()));
            return Poll::Pending;
        }
        if this.read.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        }
        let now = this.read.len().min(buffer.remaining());
        buffer.put_slice(&this.read[..now]);
        this.read.advance(now);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Replay {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(Asked::Waits(waker)) = self.get_mut().asked.replace(Asked::Yes) {
            waker.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
