//! Connections to this site's own service: one pool per service and thread, no lock.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cheops_engine::registry::Endpoints;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::body::Body;
use crate::limits;
use crate::socket::ServiceSocket;

/// Why a service gave no answer.
pub(crate) enum Fault {
    /// It cannot have seen the request.
    NotSent(String),
    /// It may have.
    Sent(String),
}

/// A service's endpoints and the idle connections to them.
pub(crate) struct Backend {
    endpoints: RefCell<watch::Receiver<Arc<Endpoints>>>,
    slots: RefCell<Rc<[Slot]>>,
    turn: Cell<usize>,
    /// How long connecting may take.
    connect: Duration,
}

struct Slot {
    address: SocketAddr,
    idle: RefCell<Vec<SendRequest<Body>>>,
    /// Without the HTTP library, for the short way.
    bare: RefCell<Vec<TcpStream>>,
}

/// A bare connection to a service, and where it belongs.
pub(crate) struct Lease {
    slots: Rc<[Slot]>,
    at: usize,
    pub(crate) stream: TcpStream,
}

impl Lease {
    /// It is not given back.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// It can be used again: all of an answer was read, and nothing more than that.
    pub(crate) fn give_back(self) {
        let mut bare = self.slots[self.at].bare.borrow_mut();
        if bare.len() < limits::IDLE_CONNECTIONS_MAX {
            bare.push(self.stream);
        }
    }
}

impl Backend {
    pub(crate) fn new(endpoints: watch::Receiver<Arc<Endpoints>>, connect: Duration) -> Backend {
        let slots = RefCell::new(slots(&endpoints.borrow(), &[]));
        Backend {
            endpoints: RefCell::new(endpoints),
            slots,
            turn: Cell::new(0),
            connect,
        }
    }

    /// Whether it is one to these endpoints.
    pub(crate) fn follows(
        &self,
        endpoints: &watch::Receiver<Arc<Endpoints>>,
        connect: Duration,
    ) -> bool {
        self.connect == connect && self.endpoints.borrow().same_channel(endpoints)
    }

    /// Sends a request on an idle connection or a new one. A connection that turns out to be dead
    /// before anything was written is replaced; what was written is never written again.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, Fault> {
        let slots = self.current();
        let mut last = "no endpoint is known; is its name resolved?".to_owned();
        for turn in 0..slots.len() {
            let slot = &slots[(self.turn.get() + turn) % slots.len()];
            while let Some(sender) = slot.take_idle() {
                match slot.try_send(sender, request).await {
                    Ok(response) => return Ok(response),
                    Err((fault, None)) => return Err(Fault::Sent(fault)),
                    Err((_, Some(unsent))) => request = *unsent,
                }
            }
            match slot.connect(self.connect).await {
                Ok(sender) => match slot.try_send(sender, request).await {
                    Ok(response) => return Ok(response),
                    Err((fault, None)) => return Err(Fault::Sent(fault)),
                    Err((fault, Some(unsent))) => {
                        request = *unsent;
                        last = fault;
                    }
                },
                Err(fault) => last = fault,
            }
        }
        Err(Fault::NotSent(last))
    }

    /// An idle bare connection to the endpoint whose turn it is.
    pub(crate) fn lease(&self) -> Option<Lease> {
        let slots = self.current();
        let at = self.turn.get().checked_rem(slots.len())?;
        let stream = slots[at].take_bare()?;
        Some(Lease { slots, at, stream })
    }

    /// A new one, to the first endpoint that can be reached.
    pub(crate) async fn lease_new(&self) -> Option<Lease> {
        let slots = self.slots.borrow().clone();
        for turn in 0..slots.len() {
            let at = (self.turn.get() + turn) % slots.len();
            if let Ok(stream) = slots[at].open(self.connect).await {
                return Some(Lease { slots, at, stream });
            }
        }
        None
    }

    /// Closes bare connections that services have closed: nobody else looks at them.
    pub(crate) fn tidy(&self) {
        for slot in self.slots.borrow().iter() {
            slot.bare.borrow_mut().retain(is_idle);
        }
    }

    /// The slots of the endpoints as they are now; connections of those that stay are kept.
    fn current(&self) -> Rc<[Slot]> {
        let mut endpoints = self.endpoints.borrow_mut();
        if endpoints.has_changed().unwrap_or(false) {
            let now = endpoints.borrow_and_update();
            let mut slots_now = self.slots.borrow_mut();
            *slots_now = slots(&now, &slots_now);
        }
        let slots = self.slots.borrow().clone();
        if slots.len() > 1 {
            self.turn.set(self.turn.get().wrapping_add(1));
        }
        slots
    }
}

fn slots(endpoints: &Endpoints, before: &[Slot]) -> Rc<[Slot]> {
    let slot = |address: &SocketAddr| {
        let same = before.iter().find(|slot| slot.address == *address);
        let kept = same.map(|slot| (slot.idle.take(), slot.bare.take()));
        let (idle, bare) = kept.unwrap_or_default();
        Slot {
            address: *address,
            idle: RefCell::new(idle),
            bare: RefCell::new(bare),
        }
    };
    endpoints.addresses.iter().map(slot).collect()
}

/// Whether nothing has come: no answer is due, so anything would be the end of it. Costs a system
/// call only if there is something.
fn is_idle(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0]);
    read.is_err_and(|fault| fault.kind() == io::ErrorKind::WouldBlock)
}

/// What came back instead of an answer, and the request if it was not sent.
type TryFault = (String, Option<Box<Request<Body>>>);

impl Slot {
    /// The youngest connection that is ready; closed ones are dropped on the way.
    fn take_idle(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.borrow_mut();
        let mut at = idle.len();
        while at > 0 {
            at -= 1;
            if idle[at].is_ready() {
                return Some(idle.swap_remove(at));
            }
            if idle[at].is_closed() {
                idle.swap_remove(at);
            }
        }
        None
    }

    fn take_bare(&self) -> Option<TcpStream> {
        let mut bare = self.bare.borrow_mut();
        std::iter::from_fn(|| bare.pop()).find(is_idle)
    }

    async fn open(&self, time_max: Duration) -> Result<TcpStream, String> {
        let stream = match timeout(time_max, TcpStream::connect(self.address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.fault(&error)),
            Err(_) => return Err(self.fault(&format!("not within {time_max:?} (`connect`)"))),
        };
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    async fn connect(&self, time_max: Duration) -> Result<SendRequest<Body>, String> {
        let stream = self.open(time_max).await?;
        let sender = speak(ServiceSocket(stream)).await;
        sender.map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &dyn std::fmt::Display) -> String {
        format!("cannot connect to {}: {error}", self.address)
    }

    async fn try_send(
        &self,
        mut sender: SendRequest<Body>,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TryFault> {
        match sender.try_send_request(request).await {
            Ok(response) => {
                // Not ready before the answer's body has been read; taken by whoever finds it so.
                let mut idle = self.idle.borrow_mut();
                if idle.len() < limits::IDLE_CONNECTIONS_MAX {
                    idle.push(sender);
                }
                Ok(response)
            }
            Err(mut error) => {
                let unsent = error.take_message().map(Box::new);
                Err((describe(error.error()), unsent))
            }
        }
    }
}

/// HTTP on a connection to a service.
pub(crate) async fn speak<S>(socket: S) -> hyper::Result<SendRequest<Body>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(limits::SERVICE_BUFFER_BYTES_MAX)
        .handshake(TokioIo::new(socket))
        .await?;
    tokio::task::spawn_local(connection.with_upgrades());
    Ok(sender)
}

/// A hyper error with its causes: the outermost alone says little.
pub(crate) fn describe(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
