//! A connection to a service, which may answer and hang up before it has read all of a request.
//!
//! hyper gives up a connection that cannot be written to, and with it an answer that is there to
//! be read: a 401 to a long upload, say. Here a write that meets a closed end goes nowhere
//! instead; what can be read then tells whether there was an answer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

pub(crate) struct ServiceSocket(pub(crate) TcpStream);

/// A closed end takes all that is written; every other outcome stays as it is.
fn taken(polled: Poll<io::Result<usize>>, all: usize) -> Poll<io::Result<usize>> {
    match polled {
        Poll::Ready(Err(fault)) if is_closed(&fault) => Poll::Ready(Ok(all)),
        polled => polled,
    }
}

fn is_closed(fault: &io::Error) -> bool {
    matches!(
        fault.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

impl AsyncRead for ServiceSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ServiceSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.get_mut().0).poll_write(cx, bytes);
        taken(polled, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.get_mut().0).poll_write_vectored(cx, pieces);
        taken(polled, pieces.iter().map(|piece| piece.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}
