//! A client's HTTP/1 connection, whose bytes are read strictly before the HTTP library reads them.
//!
//! What [`Framing`] refuses never reaches the library. A byte that no head and no chunk can hold
//! takes its place, so the library answers 400 itself, or gives up the body; after it the
//! connection has nothing more to say.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::framing::Framing;

/// Nothing that HTTP lets stand in a head or before a chunk.
const POISON: &[u8] = b"\0";

/// Whether a client's bytes were refused: whoever meets the end of a body asks why.
#[derive(Clone, Default)]
pub(crate) struct Refused(Arc<AtomicBool>);

impl Refused {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The connection.
pub(crate) struct Intake<S> {
    stream: S,
    framing: Framing,
    refused: Refused,
}

impl<S> Intake<S> {
    pub(crate) fn new(stream: S, refused: Refused) -> Intake<S> {
        Intake {
            stream,
            framing: Framing::default(),
            refused,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Intake<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.refused.get() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if let Err((passed, why)) = this.framing.read(&buffer.filled()[before..]) {
            tracing::debug!(?why, "a client's request can be read two ways");
            this.refused.0.store(true, Ordering::Relaxed);
            // At least one byte was refused, so there is room for one.
            buffer.set_filled(before + passed);
            buffer.put_slice(POISON);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Intake<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
