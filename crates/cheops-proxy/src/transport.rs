//! What a client's bytes come and go over.

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A client's connection, before anything is read of it.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// The socket beneath, if what is written there is what the client reads, and nothing that was
    /// written before can still be on its way to it.
    fn bare(&self) -> Option<&TcpStream>;
}

impl Transport for TcpStream {
    fn bare(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl<S: Transport> Transport for TlsStream<S> {
    fn bare(&self) -> Option<&TcpStream> {
        None
    }
}

/// A tunnel.
impl Transport for TokioIo<Upgraded> {
    fn bare(&self) -> Option<&TcpStream> {
        None
    }
}
