//! What is left of a plain answer once its head has gone to the client: through a pipe of the kernel
//! if it is long and the client has a bare socket, else by a buffer of the thread.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::inbound::{self, After, Rest};
use super::pipe::Pipe;
use super::{Trip, Way};
use crate::limits;
use crate::transport::Transport;

/// An answer on its way.
pub(super) struct Passing {
    /// Bytes of its body that have not come.
    pub(super) left: usize,
    pub(super) waiting: Option<Waiting>,
    /// Whether the service's connection can be used again.
    pub(super) keeps: bool,
    pub(super) after: After,
}

/// What the client has not taken yet.
pub(super) enum Waiting {
    InBuffer(Rest),
    InPipe(Pipe),
}

/// What is left of a body when some of it has passed, and what waits. `None` if either end has gone:
/// half an answer cannot be mended, so the other end is told by the end of its connection.
type Piece = Option<(usize, Option<Waiting>)>;

impl<S: Transport> Way<'_, S> {
    /// Passes on what is left of an answer. `None` if nothing can follow it.
    pub(super) async fn pass_on(&mut self, mut trip: Trip, passing: Passing) -> Option<()> {
        let Passing {
            mut left,
            mut waiting,
            keeps,
            after,
        } = passing;
        loop {
            if let Some(waiting) = waiting.take() {
                self.deliver(waiting).await?;
            }
            if left == 0 {
                break;
            }
            (left, waiting) = poll_fn(|cx| self.poll_piece(&mut trip, left, cx)).await?;
        }
        if keeps {
            trip.lease.give_back();
        }
        if after == After::Close {
            let _ = poll_fn(|cx| Pin::new(&mut *self.stream).poll_shutdown(cx)).await;
            return None;
        }
        Some(())
    }

    /// Waits until the client has taken all of it.
    async fn deliver(&mut self, waiting: Waiting) -> Option<()> {
        match waiting {
            Waiting::InBuffer(mut rest) => {
                let written = poll_fn(|cx| rest.poll_write(self.stream, cx)).await;
                let mut scratch = self.connection.worker.scratch.borrow_mut();
                scratch.give_back(rest.into_buffer());
                written.ok()
            }
            Waiting::InPipe(mut pipe) => {
                let client = self.stream.bare()?;
                poll_fn(|cx| pipe.poll_drain(client, cx)).await.ok()
            }
        }
    }

    /// Passes on what has come of a body.
    fn poll_piece(&mut self, trip: &mut Trip, left: usize, cx: &mut Context<'_>) -> Poll<Piece> {
        let piped = self.poll_piped(trip, left, cx);
        let piece = piped.unwrap_or_else(|| self.poll_copied(trip, left, cx));
        if piece.is_pending() {
            let scratch = &mut *self.connection.worker.scratch.borrow_mut();
            return self.poll_gone(scratch, cx).map(|()| None);
        }
        piece
    }

    /// `None` if it is to be copied, and nothing was taken of it.
    fn poll_piped(&self, trip: &Trip, left: usize, cx: &mut Context<'_>) -> Option<Poll<Piece>> {
        if left < limits::PIPED_BYTES_MIN {
            return None;
        }
        let client = self.stream.bare()?;
        let mut pipe = self.connection.worker.pipes.take()?;
        let taken = match pipe.poll_fill(&trip.lease.stream, left, cx) {
            Poll::Ready(Ok(0)) => return Some(Poll::Ready(None)),
            Poll::Ready(Ok(taken)) => taken,
            // Reading it tells whether the service has broken off, or this cannot be done here.
            Poll::Ready(Err(_)) => return None,
            Poll::Pending => return Some(Poll::Pending),
        };
        let waiting = match pipe.poll_drain(client, cx) {
            Poll::Ready(Ok(())) => None,
            Poll::Ready(Err(_)) => return Some(Poll::Ready(None)),
            Poll::Pending => Some(Waiting::InPipe(pipe)),
        };
        Some(Poll::Ready(Some((left - taken, waiting))))
    }

    fn poll_copied(&mut self, trip: &mut Trip, left: usize, cx: &mut Context<'_>) -> Poll<Piece> {
        let scratch = &mut *self.connection.worker.scratch.borrow_mut();
        let most = left.min(scratch.bytes.len());
        let taken = std::task::ready!(trip.poll_read(&mut scratch.bytes[..most], cx));
        if taken == 0 {
            return Poll::Ready(None);
        }
        scratch.out.clear();
        let written = inbound::write_now(self.stream, scratch, 0..taken, cx);
        let piece = written.map(|rest| (left - taken, rest.map(Waiting::InBuffer)));
        Poll::Ready(piece.ok())
    }
}
