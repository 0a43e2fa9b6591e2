//! What is left of a plain answer once its head has gone to the client.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};

use super::inbound::{self, After, Rest};
use super::{Trip, Way};

/// An answer on its way.
pub(super) struct Passing {
    /// Bytes of its body that have not come.
    pub(super) left: usize,
    /// What the client has not taken yet.
    pub(super) rest: Option<Rest>,
    /// Whether the service's connection can be used again.
    pub(super) keeps: bool,
    pub(super) after: After,
}

impl<S> Way<'_, S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    /// Passes on what is left of an answer. `None` if nothing can follow it.
    pub(super) async fn pass_on(&mut self, mut trip: Trip, passing: Passing) -> Option<()> {
        let Passing {
            mut left,
            mut rest,
            keeps,
            after,
        } = passing;
        loop {
            if let Some(mut rest) = rest.take() {
                let written = poll_fn(|cx| rest.poll_write(self.stream, cx)).await;
                let mut scratch = self.connection.worker.scratch.borrow_mut();
                scratch.give_back(rest.into_buffer());
                written.ok()?;
            }
            if left == 0 {
                break;
            }
            (left, rest) = poll_fn(|cx| self.poll_piece(&mut trip, left, cx)).await?;
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

    /// Passes on what has come of a body, and tells what is left of it then. `None` if either end has
    /// gone: half an answer cannot be mended, so the other end is told by the end of its connection.
    fn poll_piece(
        &mut self,
        trip: &mut Trip,
        left: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(usize, Option<Rest>)>> {
        let scratch = &mut *self.connection.worker.scratch.borrow_mut();
        let most = left.min(scratch.bytes.len());
        let Poll::Ready(taken) = trip.poll_read(&mut scratch.bytes[..most], cx) else {
            let gone = self.poll_gone(scratch, cx);
            return gone.map(|()| None);
        };
        if taken == 0 {
            return Poll::Ready(None);
        }
        scratch.out.clear();
        let written = inbound::write_now(self.stream, scratch, 0..taken, cx);
        Poll::Ready(written.ok().map(|rest| (left - taken, rest)))
    }
}
