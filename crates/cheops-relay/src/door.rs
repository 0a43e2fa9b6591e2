//! The two sockets of a relay, on one port; the TCP one can be shut and opened again.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

/// How often a port is tried that is free for TCP but not for UDP.
const PORT_TRIES: usize = 64;

/// How many streams may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Where streams come in.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    latch: Mutex<Latch>,
}

#[derive(Debug)]
enum Latch {
    Open(TcpListener),
    /// Bound but not listening: it refuses, and nobody else gets the port. `None` if somebody was
    /// quicker.
    Shut(Option<TcpSocket>),
}

/// Binds both sockets; port 0 takes one that is free for both.
pub(crate) fn bind(listen: SocketAddr) -> io::Result<(Door, UdpSocket)> {
    let mut tries_left = PORT_TRIES;
    loop {
        tries_left -= 1;
        let listener = bind_tcp(listen)?.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        match bind_udp(address) {
            Ok(socket) => {
                let latch = Mutex::new(Latch::Open(listener));
                return Ok((Door { address, latch }, socket));
            }
            Err(fault) if listen.port() != 0 || tries_left == 0 => return Err(fault),
            Err(_) => (),
        }
    }
}

impl Door {
    /// The next stream. While the door is shut there is none, and who waits has to ask again after
    /// it was opened.
    pub(crate) async fn accept(&self) -> io::Result<TcpStream> {
        let accepted = poll_fn(|context| match &*self.latch() {
            Latch::Open(listener) => listener.poll_accept(context),
            Latch::Shut(_) => Poll::Pending,
        });
        accepted.await.map(|(stream, _)| stream)
    }

    /// Refuses from now on, also those who were not accepted yet.
    pub(crate) fn shut(&self) {
        let mut latch = self.latch();
        // The listener has to go before the port can be bound again.
        *latch = Latch::Shut(None);
        *latch = Latch::Shut(bind_tcp(self.address).ok());
    }

    pub(crate) fn open(&self) -> io::Result<()> {
        let mut latch = self.latch();
        if let Latch::Shut(held) = &mut *latch {
            let socket = held.take().map_or_else(|| bind_tcp(self.address), Ok)?;
            *latch = Latch::Open(socket.listen(BACKLOG)?);
        }
        Ok(())
    }

    fn latch(&self) -> MutexGuard<'_, Latch> {
        self.latch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // Streams of before may linger on the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

pub(crate) fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
