//! A client's HTTP/1 connection, whose bytes are read strictly before the HTTP library reads them.
//!
//! What [`Framing`] refuses never reaches the library. A byte that no head and no chunk can hold
//! takes its place, so the library answers 400 itself, or gives up the body; after it the
//! connection has nothing more to say.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::framing::Framing;
use crate::transport::Transport;

/// Nothing that HTTP lets stand in a head or before a chunk.
const POISON: &[u8] = b"\0";

/// What can be seen of a connection while the library has it.
#[derive(Clone, Default)]
pub(crate) struct Signs(Arc<Seen>);

#[derive(Default)]
struct Seen {
    refused: AtomicBool,
    /// A request has begun to come and has not come to its end.
    midway: AtomicBool,
    /// Something was written and has not gone out.
    unsent: AtomicBool,
}

impl Signs {
    /// Whether the client's bytes were refused: whoever meets the end of a body asks why.
    pub(crate) fn refused(&self) -> bool {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Whether nothing is under way in either direction.
    pub(crate) fn are_quiet(&self) -> bool {
        let seen = [&self.0.refused, &self.0.midway, &self.0.unsent];
        !seen.iter().any(|sign| sign.load(Ordering::Relaxed))
    }
}

/// The connection.
pub(crate) struct Intake<S> {
    stream: S,
    framing: Framing,
    signs: Signs,
    /// Read and found good before the library asked.
    held: Bytes,
}

impl<S> Intake<S> {
    pub(crate) fn new(stream: S, signs: Signs) -> Intake<S> {
        Intake {
            stream,
            framing: Framing::default(),
            signs,
            held: Bytes::new(),
        }
    }

    /// Gives back what the library has read and not used. Whether there is any, beyond the empty
    /// lines that may stand before a request.
    pub(crate) fn put_back(&mut self, mut unused: Bytes) -> bool {
        let lines = unused.iter().take_while(|byte| b"\r\n".contains(byte));
        unused.advance(lines.count());
        self.held = unused;
        !self.held.is_empty()
    }
}

impl<S: Transport> Intake<S> {
    /// The socket, if it can be written to as it is: nothing that was written waits here.
    pub(crate) fn bare(&self) -> Option<&TcpStream> {
        self.stream.bare()
    }
}

impl<S: AsyncRead + Unpin> Intake<S> {
    /// Reads what there is, and tells how much: nothing at the end, and at a fault, which is met
    /// again by whoever reads next.
    pub(crate) fn poll_take(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<usize> {
        let mut buffer = ReadBuf::new(buffer);
        let _ = ready!(Pin::new(self).poll_read(cx, &mut buffer));
        Poll::Ready(buffer.filled().len())
    }

    /// What was taken last and not used: it is read again, before anything else.
    pub(crate) fn give_back(&mut self, unused: &[u8]) {
        if !unused.is_empty() {
            self.held = [unused, &self.held].concat().into();
        }
    }

    /// Ready when the client has hung up. What it says meanwhile is held, one buffer of it.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<()> {
        if !self.held.is_empty() {
            return Poll::Pending;
        }
        let taken = ready!(self.poll_take(cx, buffer));
        if taken == 0 {
            return Poll::Ready(());
        }
        self.give_back(&buffer[..taken]);
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Intake<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.held.is_empty() {
            let now = this.held.len().min(buffer.remaining());
            buffer.put_slice(&this.held[..now]);
            this.held.advance(now);
            return Poll::Ready(Ok(()));
        }
        if this.signs.refused() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if let Err((passed, why)) = this.framing.read(&buffer.filled()[before..]) {
            tracing::debug!(?why, "a client's request can be read two ways");
            this.signs.0.refused.store(true, Ordering::Relaxed);
            // At least one byte was refused, so there is room for one.
            buffer.set_filled(before + passed);
            buffer.put_slice(POISON);
        }
        let midway = !this.framing.is_between_requests();
        this.signs.0.midway.store(midway, Ordering::Relaxed);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Intake<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.signs.0.unsent.store(true, Ordering::Relaxed);
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.signs.0.unsent.store(true, Ordering::Relaxed);
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The library flushes when it has nothing more to write.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = ready!(Pin::new(&mut this.stream).poll_flush(cx));
        this.signs.0.unsent.store(false, Ordering::Relaxed);
        Poll::Ready(flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_connection_is_quiet_between_requests_alone() {
        let (mut client, stream) = duplex(1024);
        let signs = Signs::default();
        let mut intake = Intake::new(stream, signs.clone());
        let mut buffer = [0; 1024];
        for (said, quiet) in [
            ("\r\n", true),
            ("GET / HTTP/1.1\r\n", false),
            ("Host: a\r\n", false),
            ("\r\n", true),
            ("PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\na", false),
            ("b", true),
        ] {
            client.write_all(said.as_bytes()).await.unwrap();
            let read = intake.read(&mut buffer).await.unwrap();
            assert_eq!(
                (&buffer[..read], signs.are_quiet()),
                (said.as_bytes(), quiet)
            );
        }
        intake.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        assert!(!signs.are_quiet(), "it may not have gone out");
        intake.flush().await.unwrap();
        assert!(signs.are_quiet());
        client.write_all(b"GET / HTTP/1.1\n").await.unwrap();
        let read = intake.read(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..read], POISON);
        assert!(signs.refused() && !signs.are_quiet());
    }

    #[tokio::test]
    async fn what_was_read_at_rest_is_read_again_and_once() {
        let (mut client, stream) = duplex(8192);
        let mut intake = Intake::new(stream, Signs::default());
        let text = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(3000));
        client.write_all(text.as_bytes()).await.unwrap();
        let mut buffer = [0; 2048];
        let taken = poll_fn(|cx| intake.poll_take(cx, &mut buffer)).await;
        intake.give_back(&buffer[1..taken]);
        intake.give_back(&buffer[..1]);
        assert!(intake.signs.0.midway.load(Ordering::Relaxed));
        let mut heard = vec![0; text.len()];
        intake.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, text.as_bytes());
        assert!(intake.signs.are_quiet());
        assert!(!intake.put_back(Bytes::from_static(b"\r\n\r\n")));
        assert!(intake.put_back(Bytes::from_static(b"\r\nGET")));
        let mut three = [0; 3];
        intake.read_exact(&mut three).await.unwrap();
        assert_eq!(&three, b"GET");
        client.write_all(b"PUT").await.unwrap();
        let gone = poll_fn(|cx| Poll::Ready(intake.poll_gone(cx, &mut buffer))).await;
        assert!(gone.is_pending());
        drop(client);
        let gone = poll_fn(|cx| Poll::Ready(intake.poll_gone(cx, &mut buffer))).await;
        assert!(gone.is_pending(), "what it said is answered first");
        intake.read_exact(&mut three).await.unwrap();
        assert_eq!(&three, b"PUT");
        poll_fn(|cx| intake.poll_gone(cx, &mut buffer)).await;
    }
}
