//! A site that lies: it is who it says it is, speaks as it should, and what it gives of contents is wrong.
//!
//! It stands before the real agent of that site, with its key, and passes everything on but for one byte in every chunk.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use cheops_engine::identity::Identity;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What agents speak with each other.
const PROTOCOLS: [&[u8]; 4] = [
    b"cheops-ctl/1",
    b"cheops-req/1",
    b"cheops-log/1",
    b"cheops-blob/1",
];

/// Beyond the sums, and so often that no chunk of 1 MiB comes through.
const LIE_EVERY: usize = 700_000;

/// Stands at an address before the agent at `target`; `told` is who will be told lies.
pub(crate) async fn stand_before(target: SocketAddr, liar: &Path, told: &Path) -> SocketAddr {
    let liar = Identity::load(liar).unwrap();
    let told = Arc::new(Identity::load(told).unwrap());
    let acceptor = TlsAcceptor::from(liar.server_config(&PROTOCOLS));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let datagrams = UdpSocket::bind(address).await.unwrap();
    tokio::spawn(pass_datagrams(datagrams, target));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, told) = (acceptor.clone(), told.clone());
            tokio::spawn(async move { converse(stream, &acceptor, &told, target).await });
        }
    });
    address
}

async fn converse(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    told: &Identity,
    target: SocketAddr,
) -> std::io::Result<()> {
    let client = acceptor.accept(stream).await?;
    let protocol = client.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    let protocol = protocol.unwrap_or_default();
    let connector = TlsConnector::from(told.client_config(&[&protocol]));
    let server = TcpStream::connect(target).await?;
    let server = connector.connect(Identity::server_name(), server).await?;
    let lie_at = (protocol == b"cheops-blob/1").then_some(LIE_EVERY);
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = tokio::io::split(server);
    tokio::select! {
        ended = pass(from_client, to_server, None) => ended,
        ended = pass(from_server, to_client, lie_at) => ended,
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut lie_at: Option<usize>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        lie_at = match lie_at {
            Some(at) if at < count => {
                buffer[at] ^= 1;
                Some(at + LIE_EVERY - count)
            }
            other => other.map(|at| at - count),
        };
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
    }
}

/// Between one peer and the agent.
async fn pass_datagrams(front: UdpSocket, target: SocketAddr) -> std::io::Result<()> {
    let back = UdpSocket::bind("127.0.0.1:0").await?;
    back.connect(target).await?;
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let mut peer = None;
    loop {
        tokio::select! {
            Ok((count, from)) = front.recv_from(&mut asked) => {
                peer = Some(from);
                let _ = back.send(&asked[..count]).await;
            }
            Ok(count) = back.recv(&mut answered) => {
                if let Some(peer) = peer {
                    let _ = front.send_to(&answered[..count], peer).await;
                }
            }
        }
    }
}
