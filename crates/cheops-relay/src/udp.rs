//! UDP over a link: one conversation per sender, so that answers find back.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::datagrams::DatagramLine;
use crate::door::bind_udp;
use crate::line::{Line, Link};
use crate::shape::Direction;

/// How many senders are served at once; datagrams of others are dropped.
const CONVERSATIONS_MAX: usize = 1024;

/// How long both sides may be silent before a conversation is forgotten.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How many datagrams may wait to enter a line.
const ENTERING_MAX: usize = 1024;

/// The largest datagram there is.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// Carries datagrams until dropped.
pub(crate) async fn relay_datagrams(link: Arc<Link>, front: UdpSocket) {
    let mut desk = Desk {
        link,
        front: Arc::new(front),
        doors: HashMap::new(),
        conversations: JoinSet::new(),
        number: 0,
    };
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        tokio::select! {
            received = desk.front.recv_from(&mut buffer) => {
                // An error tells of an earlier datagram that nobody took: UDP has no more to say.
                if let Ok((bytes, sender)) = received {
                    desk.admit(sender, Bytes::copy_from_slice(&buffer[..bytes]));
                }
            }
            Some(_) = desk.conversations.join_next() => {
                desk.doors.retain(|_, door| !door.is_closed());
            }
        }
    }
}

/// Who is in conversation.
struct Desk {
    link: Arc<Link>,
    front: Arc<UdpSocket>,
    doors: HashMap<SocketAddr, mpsc::Sender<Bytes>>,
    conversations: JoinSet<()>,
    number: u64,
}

impl Desk {
    fn admit(&mut self, sender: SocketAddr, datagram: Bytes) {
        if self.doors.get(&sender).is_none_or(mpsc::Sender::is_closed)
            && self.begin(sender).is_err()
        {
            return;
        }
        if let Some(door) = self.doors.get(&sender) {
            // Too many at once: the surplus is lost, as on any line.
            let _ = door.try_send(datagram);
        }
    }

    fn begin(&mut self, sender: SocketAddr) -> io::Result<()> {
        if self.conversations.len() >= CONVERSATIONS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let socket = bind_udp(any_port(self.link.target))?;
        let (door, entering) = mpsc::channel(ENTERING_MAX);
        self.number += 1;
        let conversation = Conversation {
            link: self.link.clone(),
            number: self.number,
            front: self.front.clone(),
            sender,
            socket,
        };
        self.conversations.spawn(conversation.run(entering));
        self.doors.insert(sender, door);
        Ok(())
    }
}

/// An address of the target's family that takes any free port.
fn any_port(target: SocketAddr) -> SocketAddr {
    let ip = match target.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, 0)
}

/// One sender and the target.
struct Conversation {
    link: Arc<Link>,
    number: u64,
    front: Arc<UdpSocket>,
    sender: SocketAddr,
    socket: UdpSocket,
}

impl Conversation {
    /// Ends when both sides have been silent. What cannot be sent is lost.
    async fn run(self, mut entering: mpsc::Receiver<Bytes>) {
        // From here on, only the target's datagrams are received.
        if self.socket.connect(self.link.target).await.is_err() {
            return;
        }
        let line = |direction| DatagramLine::new(Line::new(&self.link, direction, self.number));
        let mut there = line(Direction::ToTarget);
        let mut back = line(Direction::FromTarget);
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            tokio::select! {
                Some(datagram) = entering.recv() => there.admit(datagram),
                received = self.socket.recv(&mut buffer) => {
                    if let Ok(bytes) = received {
                        back.admit(Bytes::copy_from_slice(&buffer[..bytes]));
                    }
                }
                datagram = there.next() => drop(self.socket.send(&datagram).await),
                datagram = back.next() => drop(self.front.send_to(&datagram, self.sender).await),
                () = sleep(SILENCE_MAX) => return,
            }
        }
    }
}
