//! Datagrams in and out of the mesh port. What cannot be sent is lost, as on any path.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::{UdpSocket, lookup_host};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::warn;

use super::owner::Event;
use super::refused::Origin;
use crate::limits::{DATAGRAM_BYTES_MAX, NAMES_KEPT};

/// How long the address of a name is believed.
const NAME_TIME_MAX: Duration = Duration::from_secs(30);

/// How long looking a name up may hold back other datagrams.
const LOOK_UP_TIME_MAX: Duration = Duration::from_millis(500);

/// A datagram to be sent.
pub(super) struct Letter {
    /// `host:port`.
    pub(super) address: String,
    pub(super) sealed: Bytes,
}

/// Puts what comes in before the owner, until the owner is gone.
pub(super) async fn receive(socket: Arc<UdpSocket>, events: mpsc::Sender<Event>) {
    // One byte more than is taken: what is too long shows.
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX + 1];
    loop {
        // An error tells of an earlier datagram that nobody took.
        let Ok((bytes, sender)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let sealed = Bytes::copy_from_slice(&buffer[..bytes]);
        let origin = Origin::Socket(sender.ip());
        let received = Event::Datagram { sealed, origin };
        // A flood is dropped here rather than let it crowd out links and operators.
        match events.try_send(received) {
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => (),
            Err(mpsc::error::TrySendError::Closed(_)) => return,
        }
    }
}

/// Sends what is to be sent.
pub(super) async fn send(socket: Arc<UdpSocket>, mut letters: mpsc::Receiver<Letter>) {
    let mut names: HashMap<String, (Instant, Option<SocketAddr>)> = HashMap::new();
    let mut warned = false;
    while let Some(letter) = letters.recv().await {
        let Some(address) = resolve(&letter.address, &mut names).await else {
            continue;
        };
        if let Err(fault) = socket.send_to(&letter.sealed, address).await
            && !warned
        {
            warned = true;
            warn!(%fault, %address, "datagrams cannot be sent there; links carry what they would have");
        }
    }
}

async fn resolve(
    address: &str,
    names: &mut HashMap<String, (Instant, Option<SocketAddr>)>,
) -> Option<SocketAddr> {
    if let Ok(address) = address.parse() {
        return Some(address);
    }
    if let Some((at, known)) = names.get(address)
        && at.elapsed() < NAME_TIME_MAX
    {
        return *known;
    }
    let looked_up = timeout(LOOK_UP_TIME_MAX, lookup_host(address)).await;
    let found = looked_up
        .ok()
        .and_then(Result::ok)
        .and_then(|mut found| found.next());
    if names.len() >= NAMES_KEPT {
        names.clear();
    }
    names.insert(address.to_owned(), (Instant::now(), found));
    found
}
