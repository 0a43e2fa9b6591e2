//! Hostile bytes from a raw socket: what the client is answered, what the service saw of it, and
//! what it cost.

mod floods;
mod frames;
mod http1;
mod http2;
mod witness;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::PATIENCE;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use witness::Witness;

/// What an attacker would like the service to see.
const SMUGGLED: &str = "/smuggled";

/// One site whose image service writes down every byte.
async fn start() -> (Mesh, Witness) {
    let witness = Witness::start().await;
    let mesh = Setup::of(1).image_at(1, witness.address).start().await;
    (mesh, witness)
}

/// Says all of it and hears whatever comes back until the connection ends.
async fn say(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The other end may have hung up in the middle.
    let _ = stream.write_all(bytes).await;
    let mut heard = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut heard))
        .await
        .expect("it hangs up");
    heard
}

/// The statuses of the answers in what was heard.
fn statuses(heard: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(heard);
    let lines = text
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| &text[at + 9..]);
    lines
        .filter_map(|line| line.get(..3)?.parse().ok())
        .collect()
}
