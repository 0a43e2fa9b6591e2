//! One body type for every hop: what came in passes through, frame by frame.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use crate::guard::Pass;
use crate::limits;
use crate::pulse::Pulse;
use crate::replicate::Documents;
use crate::sweep::InFlight;
use crate::upgrade::Pipe;

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyFault {
    /// It stopped coming in.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// A later try sends it now: two that read in turn would each send half of it.
    #[error("the request is sent elsewhere now")]
    SentElsewhere,
    /// Ids in it cannot be told, so it is not shown.
    #[error("the answer is half a document, or too long a one")]
    Unreadable,
}

/// A body on its way.
pub(crate) enum Body {
    /// Made here, whole.
    Full(Option<Bytes>),
    /// An answer's, as it comes in.
    Incoming(Incoming),
    /// An answer's, of a call that counts until the last of it has gone.
    Counted {
        body: Incoming,
        /// Held, not read.
        _pass: Pass,
    },
    /// A request's, as it comes in.
    Request(Incoming, Pulse),
    /// As it comes in, kept for a second try.
    Kept(Kept),
    /// What was read of a body, then the rest of it.
    Resumed(Option<Bytes>, Box<Body>),
    /// From a connection that left HTTP.
    Pipe(Pipe),
    /// An answer's, document by document.
    Documents(Box<Documents>),
}

impl Body {
    pub(crate) fn empty() -> Body {
        Body::Full(None)
    }

    pub(crate) fn answer(incoming: Incoming, pass: Option<Pass>) -> Body {
        match pass {
            None => Body::Incoming(incoming),
            Some(pass) => Body::Counted {
                body: incoming,
                _pass: pass,
            },
        }
    }

    pub(crate) fn full(bytes: Bytes) -> Body {
        Body::Full(Some(bytes))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyFault;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        match self.get_mut() {
            Body::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Incoming(incoming) | Body::Counted { body: incoming, .. } => {
                poll_incoming(incoming, cx)
            }
            Body::Request(incoming, pulse) => poll_request(incoming, pulse, cx),
            Body::Kept(kept) => kept.poll_frame(cx),
            Body::Resumed(read, rest) => match read.take() {
                Some(read) => Poll::Ready(Some(Ok(Frame::data(read)))),
                None => Pin::new(&mut **rest).poll_frame(cx),
            },
            Body::Pipe(pipe) => pipe
                .poll(cx)
                .map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
            Body::Documents(documents) => documents.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Full(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Body::Incoming(incoming)
            | Body::Counted { body: incoming, .. }
            | Body::Request(incoming, _) => incoming.is_end_stream(),
            Body::Kept(kept) => kept.is_end_stream(),
            Body::Resumed(read, rest) => read.is_none() && rest.is_end_stream(),
            Body::Pipe(_) | Body::Documents(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Body::Incoming(incoming)
            | Body::Counted { body: incoming, .. }
            | Body::Request(incoming, _) => incoming.size_hint(),
            Body::Kept(kept) => kept.size_hint(),
            Body::Resumed(read, rest) => {
                let read = read.as_ref().map_or(0, |read| read.len() as u64);
                let rest = rest.size_hint();
                let mut whole = SizeHint::new();
                whole.set_lower(rest.lower() + read);
                if let Some(upper) = rest.upper() {
                    whole.set_upper(upper + read);
                }
                whole
            }
            Body::Pipe(_) | Body::Documents(_) => SizeHint::default(),
        }
    }
}

fn poll_incoming(
    incoming: &mut Incoming,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
    let polled = Pin::new(incoming).poll_frame(cx);
    polled.map(|frame| frame.map(|frame| frame.map_err(BodyFault::Broken)))
}

fn poll_request(
    incoming: &mut Incoming,
    pulse: &Pulse,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
    let polled = poll_incoming(incoming, cx);
    if polled.is_ready() {
        pulse.beat();
        // The last piece may be known to be the last: whoever counts does not ask again.
        if matches!(polled, Poll::Ready(None)) || incoming.is_end_stream() {
            pulse.end();
        }
    }
    polled
}

/// The body of an answer to a client: its request is open until the last of it has gone.
pub(crate) struct Answer {
    pub(crate) body: Body,
    /// Held, not read.
    pub(crate) _open: InFlight,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = BodyFault;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A request body that can be sent again from its start, while it fits the bound.
#[derive(Clone)]
pub(crate) struct Kept {
    store: Rc<RefCell<Store>>,
    /// Which try this is for.
    turn: u32,
    /// The next chunk of the store that this try has not sent.
    next: usize,
}

struct Store {
    rest: Incoming,
    pulse: Pulse,
    /// The latest try: the only one that may read.
    turn: u32,
    ended: bool,
    chunks: Vec<Bytes>,
    bytes: usize,
    whole: SizeHint,
    /// Set once something went by that was not kept.
    torn: bool,
}

impl Kept {
    pub(crate) fn new(rest: Incoming, pulse: Pulse) -> Kept {
        let whole = rest.size_hint();
        let ended = rest.is_end_stream();
        let store = Store {
            rest,
            pulse,
            turn: 0,
            ended,
            chunks: Vec::new(),
            bytes: 0,
            whole,
            torn: false,
        };
        Kept {
            store: Rc::new(RefCell::new(store)),
            turn: 0,
            next: 0,
        }
    }

    /// The same body from its start, if all that went by was kept. Whoever still sends it for an
    /// earlier try cannot any more.
    pub(crate) fn again(&self) -> Option<Kept> {
        let mut store = self.store.borrow_mut();
        if store.torn {
            return None;
        }
        store.turn += 1;
        Some(Kept {
            store: self.store.clone(),
            turn: store.turn,
            next: 0,
        })
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        let mut store = self.store.borrow_mut();
        if store.turn != self.turn {
            return Poll::Ready(Some(Err(BodyFault::SentElsewhere)));
        }
        if let Some(chunk) = store.chunks.get(self.next) {
            self.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(chunk.clone()))));
        }
        if store.ended {
            return Poll::Ready(None);
        }
        let pulse = store.pulse.clone();
        let polled = poll_request(&mut store.rest, &pulse, cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                store.keep(frame);
                self.next = store.chunks.len();
            }
            Poll::Ready(Some(Err(_))) => store.torn = true,
            Poll::Ready(None) => store.ended = true,
            Poll::Pending => (),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let store = self.store.borrow();
        store.ended && self.next >= store.chunks.len()
    }

    fn size_hint(&self) -> SizeHint {
        // Asked for before the first frame, to choose between a length and chunks.
        self.store.borrow().whole
    }
}

impl Store {
    fn keep(&mut self, frame: &Frame<Bytes>) {
        match frame.data_ref() {
            Some(chunk) if self.bytes + chunk.len() <= limits::REPLAY_BYTES_MAX => {
                self.bytes += chunk.len();
                self.chunks.push(chunk.clone());
            }
            // Past the bound, or trailers: from here on there is no second try.
            _ => {
                self.torn = true;
                self.chunks.clear();
            }
        }
    }
}
