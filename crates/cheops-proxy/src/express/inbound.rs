//! From a service's plain answer to the bytes that the client gets.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::AsyncWrite;

use super::answer::Plain;
use super::lines::{Without, write_line};
use super::outbound::Ticket;
use super::scratch::Scratch;
use crate::headers;
use crate::limits;
use crate::replicate::Changes;
use crate::worker::Worker;

/// Whether the connection to the client goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Next,
    Close,
}

/// Writes the head that the client gets to `out`, and the body if it is another one, and counts the answer.
pub(super) fn write(
    worker: &Worker,
    ticket: &Ticket,
    plain: &Plain<'_, '_>,
    changes: &Changes,
    after: After,
    out: &mut Vec<u8>,
) {
    let now = Instant::now();
    let took_us = ticket.told.took_us(now);
    let mut without = plain.without;
    out.clear();
    for replaced in &ticket.called.replaced {
        let (name, ours) = (replaced.header.as_str(), replaced.ours.as_bytes());
        let headers = plain.lines.headers.iter();
        let echo = headers
            .enumerate()
            .find(|(_, header)| header.name.eq_ignore_ascii_case(name) && header.value == ours);
        if let Some((place, _)) = echo {
            without.add(place);
        }
    }
    let has_echo = without != plain.without;
    leave_out(changes, plain, &mut without);
    plain.lines.write(without, out);
    if has_echo {
        restore(ticket, plain, out);
    }
    for (place, value) in &changes.headers {
        write_line(out, plain.lines.headers[*place].name, value.as_bytes());
    }
    if let Some(body) = &changes.body {
        write_line(out, "content-length", body.len().to_string().as_bytes());
    }
    worker.stamps.write_answer(out, took_us);
    if !plain.has_date {
        worker.stamps.write_date(out, now);
    }
    if let Some(service) = ticket.told.service.as_deref().filter(|_| ticket.unbound) {
        let name = service.config.name.as_str();
        write_line(out, headers::UNBOUND.as_str(), name.as_bytes());
    }
    if after == After::Close {
        write_line(out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(changes.body.as_deref().unwrap_or_default());
    let served_by = Some(&worker.stamps.served_by);
    ticket.told.count(plain.status, served_by, took_us);
}

/// Leaves out what is written in another way.
fn leave_out(changes: &Changes, plain: &Plain<'_, '_>, without: &mut Without) {
    changes
        .headers
        .iter()
        .for_each(|(place, _)| without.add(*place));
    if changes.body.is_some() {
        let mut headers = plain.lines.headers.iter();
        let length = headers.position(|header| header.name.eq_ignore_ascii_case("content-length"));
        length.into_iter().for_each(|place| without.add(place));
    }
}

/// Writes the client's own values where the service passed ours back.
fn restore(ticket: &Ticket, plain: &Plain<'_, '_>, out: &mut Vec<u8>) {
    for replaced in &ticket.called.replaced {
        let (name, ours) = (replaced.header.as_str(), replaced.ours.as_bytes());
        let mut headers = plain.lines.headers.iter();
        let echoed =
            headers.any(|header| header.name.eq_ignore_ascii_case(name) && header.value == ours);
        if let Some(own) = replaced.own.as_ref().filter(|_| echoed) {
            write_line(out, name, own.as_bytes());
        }
    }
}

/// What the client has not taken yet: a head, and a part of a buffer.
#[derive(Default)]
pub(super) struct Rest {
    head: Vec<u8>,
    buffer: Vec<u8>,
    body: Range<usize>,
}

/// Writes what is in the scratch to the client: its `out`, and `body` of its `bytes`. What the client
/// does not take now is taken out of the scratch.
pub(super) fn write_now<W: AsyncWrite + Unpin>(
    stream: &mut W,
    scratch: &mut Scratch,
    body: Range<usize>,
    cx: &mut Context<'_>,
) -> io::Result<Option<Rest>> {
    let (head, short) = (&mut scratch.out, &scratch.bytes[body.clone()]);
    let body = match short.len() <= limits::JOINED_BYTES_MAX {
        // To copy a little is cheaper than to have the kernel gather it.
        true => {
            head.extend_from_slice(short);
            body.end..body.end
        }
        false => body,
    };
    let rest = &scratch.bytes[body.clone()];
    let written = match rest.is_empty() {
        true => Pin::new(&mut *stream).poll_write(cx, head),
        false => {
            let pieces = [IoSlice::new(head), IoSlice::new(rest)];
            Pin::new(&mut *stream).poll_write_vectored(cx, &pieces)
        }
    };
    let written = match written {
        Poll::Ready(written) => written?,
        Poll::Pending => 0,
    };
    let head_len = scratch.out.len();
    if written == head_len + body.len() && Pin::new(stream).poll_flush(cx)?.is_ready() {
        return Ok(None);
    }
    let of_body = written.saturating_sub(head_len);
    Ok(Some(Rest {
        head: scratch.out[written.min(head_len)..].to_vec(),
        buffer: scratch.take_bytes(),
        body: body.start + of_body..body.end,
    }))
}

impl Rest {
    /// Writes until the client has all of it, and then its buffer can be used again.
    pub(super) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.head.is_empty() || !self.body.is_empty() {
            let pieces = [
                IoSlice::new(&self.head),
                IoSlice::new(&self.buffer[self.body.clone()]),
            ];
            let written = ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &pieces))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(self.head.len());
            self.head.drain(..of_head);
            self.body.start += written - of_head;
        }
        Pin::new(stream).poll_flush(cx)
    }

    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}
