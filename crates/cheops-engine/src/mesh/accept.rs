//! Whoever connects to the mesh port: who it is and what for.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use cheops_model::SiteName;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::control;
use super::handshake::{HandshakeFault, peer_of};
use super::message::{ALPN_BLOB, ALPN_CONTROL, ALPN_LOG, ALPN_REQUESTS};
use super::owner::Event;
use crate::identity::Identity;
use crate::limits::ACCEPT_DEADLINE;

/// A connection from a site of this mesh.
pub struct Accepted {
    /// Whose certificate was shown.
    pub peer: SiteName,
    /// What it is for.
    pub kind: Kind,
    /// Ready for its protocol.
    pub stream: TlsStream<TcpStream>,
    pub(super) ip: IpAddr,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For [`MeshAcceptor::serve_control`].
    Control,
    /// Forwarded requests.
    Requests,
    /// For [`Replication::serve_link`](crate::replication::Replication::serve_link).
    Log,
    /// For [`Replication::serve_blobs`](crate::replication::Replication::serve_blobs).
    Blob,
}

/// Why a connection was not taken. Nothing is to be done but to say so, not too often.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// It took too long.
    #[error("no TLS handshake within {} s", ACCEPT_DEADLINE.as_secs())]
    Timeout,
    /// Correct the address or the identity of whoever connects.
    #[error("not of this mesh: {0}")]
    OtherMesh(String),
    /// Bring both agents to the same version.
    #[error("another version of the protocol between agents; upgrade the older agent")]
    OtherProtocol,
    /// The connection broke, or was never TLS.
    #[error("{0}")]
    Broken(io::Error),
}

impl From<HandshakeFault> for AcceptError {
    fn from(fault: HandshakeFault) -> AcceptError {
        match fault {
            HandshakeFault::OtherMesh(why) => AcceptError::OtherMesh(why),
            HandshakeFault::OtherProtocol => AcceptError::OtherProtocol,
            HandshakeFault::Broken(fault) => AcceptError::Broken(fault),
        }
    }
}

impl From<io::Error> for AcceptError {
    fn from(fault: io::Error) -> AcceptError {
        HandshakeFault::from(fault).into()
    }
}

/// Takes connections to the mesh port. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub struct MeshAcceptor {
    identity: Arc<Identity>,
    tls: TlsAcceptor,
    events: mpsc::Sender<Event>,
}

impl MeshAcceptor {
    pub(super) fn new(identity: Arc<Identity>, events: mpsc::Sender<Event>) -> MeshAcceptor {
        let protocols = [ALPN_CONTROL, ALPN_REQUESTS, ALPN_LOG, ALPN_BLOB];
        let tls = TlsAcceptor::from(identity.server_config(&protocols));
        MeshAcceptor {
            identity,
            tls,
            events,
        }
    }

    /// Finds out who connects and what for. Takes 5 s at most.
    pub async fn accept(&self, tcp: TcpStream) -> Result<Accepted, AcceptError> {
        timeout(ACCEPT_DEADLINE, self.secure(tcp))
            .await
            .map_err(|_| AcceptError::Timeout)?
    }

    /// Serves a control connection until it ends, is replaced by newer ones of that peer, or the
    /// mesh stops. To be called within a tokio runtime.
    ///
    /// # Panics
    ///
    /// If the connection is not of [`Kind::Control`].
    pub fn serve_control(
        &self,
        accepted: Accepted,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        assert_eq!(
            accepted.kind,
            Kind::Control,
            "only control connections are served here"
        );
        control::serve(accepted, self.events.clone())
    }

    async fn secure(&self, tcp: TcpStream) -> Result<Accepted, AcceptError> {
        tcp.set_nodelay(true)?;
        let ip = tcp.peer_addr()?.ip();
        let stream = self.tls.accept(tcp).await?;
        let state = stream.get_ref().1;
        let peer = peer_of(&self.identity, state)?;
        let kind = match state.alpn_protocol() {
            Some(ALPN_CONTROL) => Kind::Control,
            Some(ALPN_REQUESTS) => Kind::Requests,
            Some(ALPN_LOG) => Kind::Log,
            Some(ALPN_BLOB) => Kind::Blob,
            _ => return Err(AcceptError::OtherProtocol),
        };
        Ok(Accepted {
            peer,
            kind,
            stream,
            ip,
        })
    }
}
