//! Connections to this site's own service: one pool per service and thread, no lock.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cheops_engine::registry::Endpoints;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
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
        let idle = same.map(|slot| slot.idle.take()).unwrap_or_default();
        Slot {
            address: *address,
            idle: RefCell::new(idle),
        }
    };
    endpoints.addresses.iter().map(slot).collect()
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

    async fn connect(&self, time_max: Duration) -> Result<SendRequest<Body>, String> {
        let address = self.address;
        let fault = |error: &dyn std::fmt::Display| format!("cannot connect to {address}: {error}");
        let stream = match timeout(time_max, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(fault(&error)),
            Err(_) => return Err(fault(&format!("not within {time_max:?} (`connect`)"))),
        };
        let _ = stream.set_nodelay(true);
        let socket = TokioIo::new(ServiceSocket(stream));
        let handshake = http1::Builder::new()
            .max_buf_size(limits::SERVICE_BUFFER_BYTES_MAX)
            .handshake(socket)
            .await;
        let (sender, connection) = handshake.map_err(|error| fault(&error))?;
        tokio::task::spawn_local(connection.with_upgrades());
        Ok(sender)
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
