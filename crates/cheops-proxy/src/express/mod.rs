//! The short way: an ordinary request for this site's own service, and a plain answer to it, passed
//! on as bytes.
//!
//! Nearly every request is one, and most of what an HTTP library does is of no use to it: maps of
//! headers, bodies as streams, a task for each connection. Here its head is read where it lies, and
//! copied but for the lines that do not pass. All bytes of a client have gone through the strict
//! reading of [`Intake`] before. Where the service has replicants, the answer is looked through for their
//! ids first ([`Look`]).
//!
//! Nothing is decided here that is not decided elsewhere: what is unusual in any way, or to be
//! refused, is left to the library untouched ([`Next::Library`]); an answer that is not plain, too,
//! with what was read of it ([`Begun`]).

mod answer;
mod begun;
mod inbound;
mod lines;
mod lookout;
mod outbound;
mod passing;
mod pipe;
mod request;
mod scratch;
pub mod seam;

use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::backend::Lease;
use crate::entry::Connection;
use crate::guard::Asker;
use crate::here;
use crate::intake::Intake;
use crate::limits;
use crate::replicate::{Answered, Changes, Look};
use crate::sweep::Place;
use crate::transport::Transport;
use answer::Plain;
pub(crate) use begun::Begun;
use inbound::After;
pub(crate) use lookout::{Habit, Lookout, Post};
use outbound::Ticket;
use passing::{Passing, Waiting};
pub(crate) use pipe::Pipes;
use scratch::Held;
pub(crate) use scratch::Scratch;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It has ended.
    Over,
    /// The HTTP library goes on with it.
    Library,
}

/// Passes requests on for as long as they are ordinary.
pub(crate) async fn serve<S: Transport>(
    connection: &Rc<Connection>,
    stream: &mut Intake<S>,
) -> Next {
    let _rest = connection.idle.rest();
    let place = connection.worker.sweep.place();
    let mut way = Way {
        connection,
        stream,
        place,
    };
    loop {
        let trip = match poll_fn(|cx| way.poll_ask(cx)).await {
            Asked::Sent(trip) => Some(trip),
            Asked::Written(written) => Box::pin(way.connect(written)).await,
            Asked::Over => return Next::Over,
            Asked::Library => None,
        };
        let Some(mut trip) = trip else {
            return Next::Library;
        };
        let heard = way.hear(&mut trip).await;
        connection.idle.wait_until(None);
        match heard {
            Heard::Plain(passing) => {
                if way.pass_on(trip, passing).await.is_none() {
                    return Next::Over;
                }
            }
            Heard::Unusual(read) => {
                way.take_detours(&trip, &read);
                way.hand_over(trip, read);
                return Next::Library;
            }
            Heard::Unread(read) => {
                way.hand_over(trip, read);
                return Next::Library;
            }
            Heard::Gone => return Next::Over,
        }
    }
}

/// A client's connection.
struct Way<'a, S> {
    connection: &'a Rc<Connection>,
    stream: &'a mut Intake<S>,
    place: Place<'a>,
}

/// What a client wants.
enum Asked {
    /// An ordinary request, on its way to the service.
    Sent(Trip),
    /// The same, and no connection to the service is idle.
    Written(Written),
    Over,
    Library,
}

/// A request for which there is no connection yet.
struct Written {
    ticket: Ticket,
    /// For the service.
    bytes: Vec<u8>,
    /// As it came.
    original: Vec<u8>,
}

/// A request on its way.
struct Trip {
    lease: Lease,
    ticket: Ticket,
    /// What the service has not taken yet: nearly always nothing.
    unsent: Vec<u8>,
    /// What has come of an answer that is looked through when all of it is there.
    held: Option<Held>,
}

/// What a service says.
enum Heard {
    Plain(Passing),
    /// So far; nothing, if it hung up.
    Unusual(Bytes),
    /// So far, and it tells nothing of how the service answers: it is late, or is to be looked through and cannot be here.
    Unread(Bytes),
    /// Nothing yet, and the client has gone.
    Gone,
}

impl<S: Transport> Way<'_, S> {
    /// Waits for a request, and sends it to the service if it is ordinary.
    fn poll_ask(&mut self, cx: &mut Context<'_>) -> Poll<Asked> {
        let (worker, idle) = (&self.connection.worker, &self.connection.idle);
        if idle.has_expired() {
            return Poll::Ready(Asked::Over);
        }
        if self.is_ending() {
            return Poll::Ready(Asked::Library);
        }
        self.place.watch(idle, cx);
        let scratch = &mut *worker.scratch.borrow_mut();
        // No more than the library would hold: a longer head is refused by it.
        let most = &mut scratch.bytes[..limits::HEAD_BYTES_MAX];
        let taken = ready!(self.stream.poll_take(cx, most));
        if taken == 0 {
            return Poll::Ready(Asked::Over);
        }
        let bytes = &scratch.bytes[..taken];
        let mut room = lines::room();
        let written = request::read(bytes, &mut room).and_then(|request| {
            let len = request.len();
            Some((
                len,
                outbound::write(self.connection, request, &mut scratch.out)?,
            ))
        });
        let Some((len, ticket)) = written else {
            self.stream.give_back(bytes);
            return Poll::Ready(Asked::Library);
        };
        self.stream.give_back(&bytes[len..]);
        let service = ticket.told.service.as_deref();
        let Some(lease) = service.and_then(|service| service.backend.lease()) else {
            return Poll::Ready(Asked::Written(Written {
                ticket,
                bytes: scratch.out.clone(),
                original: bytes[..len].to_vec(),
            }));
        };
        match self.enter(lease, ticket) {
            Some(mut trip) => {
                trip.unsent = send(&trip.lease, &scratch.out);
                Poll::Ready(Asked::Sent(trip))
            }
            None => {
                self.stream.give_back(&bytes[..len]);
                Poll::Ready(Asked::Library)
            }
        }
    }

    /// Whether the client has hung up; what it says meanwhile is held, as much as a head may be.
    fn poll_gone(&mut self, scratch: &mut Scratch, cx: &mut Context<'_>) -> Poll<()> {
        let most = &mut scratch.bytes[..limits::HEAD_BYTES_MAX];
        self.stream.poll_gone(cx, most)
    }

    /// Whether the connection is to end with its current request.
    fn is_ending(&self) -> bool {
        self.connection.worker.sweep.is_stopping() || self.connection.doorway.is_closed()
    }

    /// Sends a request on a new connection. `None` if there is none to be had, or no room for the
    /// call: the library finds out again, and says why.
    async fn connect(&mut self, written: Written) -> Option<Trip> {
        let service = written.ticket.told.service.clone()?;
        let trip = match service.backend.lease_new().await {
            Some(lease) => self.enter(lease, written.ticket),
            None => None,
        };
        match trip {
            Some(mut trip) => {
                trip.unsent = send(&trip.lease, &written.bytes);
                Some(trip)
            }
            None => {
                self.stream.give_back(&written.original);
                None
            }
        }
    }

    /// Room for the call, and the time by which it has to be answered.
    fn enter(&self, lease: Lease, mut ticket: Ticket) -> Option<Trip> {
        let service = ticket.told.service.as_deref()?;
        match here::enter(&self.connection.worker, service, Asker::Client) {
            Ok(pass) => ticket.called.pass = pass,
            Err(_) => {
                lease.give_back();
                return None;
            }
        }
        let until = ticket.told.started.checked_add(ticket.called.limit);
        self.connection.idle.wait_until(until);
        Some(Trip {
            lease,
            ticket,
            unsent: Vec::new(),
            held: None,
        })
    }

    /// Waits for the answer; awake, if it is likely to be there at once.
    async fn hear(&mut self, trip: &mut Trip) -> Heard {
        let service = trip.ticket.told.service.clone();
        let Some(service) = service.as_deref() else {
            return poll_fn(|cx| self.poll_answer(trip, cx)).await;
        };
        let worker = self.connection.worker.clone();
        let (sent, wait) = (Instant::now(), worker.lookout.wait());
        let mut look = wait.look_for(&service.habit);
        let heard = loop {
            let Some(looking) = &look else {
                break poll_fn(|cx| self.poll_answer(trip, cx)).await;
            };
            let heard = poll_fn(|cx| Poll::Ready(self.poll_answer(trip, cx))).await;
            if let Poll::Ready(heard) = heard {
                break heard;
            }
            if !looking.goes_on().await {
                look = None;
            }
        };
        service.habit.note(sent.elapsed());
        heard
    }

    /// Waits for the answer, and writes it to the client if it is plain.
    fn poll_answer(&mut self, trip: &mut Trip, cx: &mut Context<'_>) -> Poll<Heard> {
        let worker = &self.connection.worker;
        trip.poll_send(cx);
        let scratch = &mut *worker.scratch.borrow_mut();
        let mut taken = trip.held.take().map_or(0, |held| scratch.take_up(held));
        let (body, mut passing) = loop {
            let Poll::Ready(more) = trip.poll_read(&mut scratch.bytes[taken..], cx) else {
                return self.poll_wait(trip, scratch, taken, cx);
            };
            taken += more;
            let mut room = lines::room();
            let bytes = &scratch.bytes[..taken];
            let Some(plain) = answer::read(bytes, &mut room) else {
                return Poll::Ready(Heard::Unusual(Bytes::copy_from_slice(bytes)));
            };
            let changes = match look(&trip.ticket, &plain) {
                Look::Pass(changes) => changes,
                Look::Wait if more > 0 && plain.whole_len() <= scratch.bytes.len() => continue,
                Look::Wait | Look::Read => {
                    return Poll::Ready(Heard::Unread(Bytes::copy_from_slice(bytes)));
                }
            };
            break self.write_plain(trip, &plain, &changes, &mut scratch.out);
        };
        match inbound::write_now(self.stream, scratch, body, cx) {
            Ok(rest) => {
                passing.waiting = rest.map(Waiting::InBuffer);
                Poll::Ready(Heard::Plain(passing))
            }
            Err(_) => Poll::Ready(Heard::Gone),
        }
    }

    /// Writes what the client gets, but for the part of what was read that goes on as it is.
    fn write_plain(
        &self,
        trip: &Trip,
        plain: &Plain<'_, '_>,
        changes: &Changes,
        out: &mut Vec<u8>,
    ) -> (Range<usize>, Passing) {
        let (worker, ticket) = (&self.connection.worker, &trip.ticket);
        if let Some(pass) = &ticket.called.pass {
            pass.answered();
        }
        let after = match self.is_ending() {
            true => After::Close,
            false => After::Next,
        };
        inbound::write(worker, ticket, plain, changes, after, out);
        let (start, came) = (plain.lines.head.len(), plain.rest.len().min(plain.length));
        let surplus = plain.rest.len() > plain.length;
        let passing = Passing {
            left: plain.length - came,
            waiting: None,
            keeps: plain.keeps && !surplus && trip.unsent.is_empty(),
            after,
        };
        match changes.body {
            None => (start..start + came, passing),
            Some(_) => (start..start, passing),
        }
    }

    /// Nothing more has come of an answer.
    fn poll_wait(
        &mut self,
        trip: &mut Trip,
        scratch: &mut Scratch,
        taken: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Heard> {
        let idle = &self.connection.idle;
        if idle.is_late() {
            let read = Bytes::copy_from_slice(&scratch.bytes[..taken]);
            return Poll::Ready(Heard::Unread(read));
        }
        if taken > 0 {
            trip.held = Some(scratch.put_aside(taken));
        }
        self.place.watch(idle, cx);
        let gone = self.poll_gone(scratch, cx);
        gone.map(|()| Heard::Gone)
    }

    /// Lets the next requests of the service go by the library. That it hung up says nothing of how it answers.
    fn take_detours(&self, trip: &Trip, read: &Bytes) {
        match &trip.ticket.told.service {
            Some(service) if !read.is_empty() => service.detours.set(limits::DETOURS),
            Some(_) | None => (),
        }
    }

    /// Leaves the answer to the library, and a request in its place that stands for the one that was
    /// sent.
    fn hand_over(&mut self, trip: Trip, read: Bytes) {
        self.stream.give_back(begun::STAND_IN);
        self.connection.begun.set(Some(Box::new(Begun {
            stream: trip.lease.into_stream(),
            read,
            ticket: trip.ticket,
        })));
    }
}

/// Whether an answer passes, and with which ids.
fn look(ticket: &Ticket, plain: &Plain<'_, '_>) -> Look {
    let (Some(mention), Some(service)) = (&ticket.mention, &ticket.told.service) else {
        return Look::Pass(Changes::default());
    };
    let answered = Answered {
        headers: plain.lines.headers,
        body: plain.rest,
        length: plain.length,
    };
    mention.look(&service.replicas, &answered)
}

/// Writes a request, and tells what could not be written now. A service may answer and hang up
/// before it has read all of one: what can be read then tells whether it did.
fn send(lease: &Lease, bytes: &[u8]) -> Vec<u8> {
    match lease.stream.try_write(bytes) {
        Ok(written) => bytes[written..].to_vec(),
        Err(fault) if fault.kind() == std::io::ErrorKind::WouldBlock => bytes.to_vec(),
        Err(_) => Vec::new(),
    }
}

impl Trip {
    /// Writes what is left of the request.
    fn poll_send(&mut self, cx: &mut Context<'_>) {
        while !self.unsent.is_empty() {
            match Pin::new(&mut self.lease.stream).poll_write(cx, &self.unsent) {
                Poll::Ready(Ok(written)) => drop(self.unsent.drain(..written)),
                Poll::Ready(Err(_)) => self.unsent = Vec::new(),
                Poll::Pending => return,
            }
        }
    }

    /// Reads what there is: nothing at the end, and at a fault.
    fn poll_read(&mut self, buffer: &mut [u8], cx: &mut Context<'_>) -> Poll<usize> {
        let mut buffer = ReadBuf::new(buffer);
        let _ = ready!(Pin::new(&mut self.lease.stream).poll_read(cx, &mut buffer));
        Poll::Ready(buffer.filled().len())
    }
}
