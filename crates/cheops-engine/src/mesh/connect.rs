//! Connecting to a peer: TCP, TLS, and the certificate's name, under one deadline.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use cheops_model::SiteName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::handshake::{HandshakeFault, peer_of};
use super::pause::Failure;
use crate::identity::Identity;
use crate::limits::CONNECT_DEADLINE;

/// Why a peer could not be dialled.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Name another site: this one was never heard of, or nobody said where it is.
    #[error("no address of site {site} is known")]
    NoAddress {
        /// The site asked for.
        site: SiteName,
    },
    /// Try again later.
    #[error("{address} cannot be reached: {source}")]
    Unreachable {
        /// What was dialled.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Try again later.
    #[error("{address} did not answer within {} s", CONNECT_DEADLINE.as_secs())]
    Timeout {
        /// What was dialled.
        address: String,
    },
    /// Correct the address, or the identity of either side.
    #[error("{address} is not of this mesh: {why}; correct the address or the identity")]
    OtherMesh {
        /// What was dialled.
        address: String,
        /// What tells.
        why: String,
    },
    /// Bring both agents to the same version.
    #[error("{address} speaks another version of the protocol between agents; upgrade the older")]
    OtherProtocol {
        /// What was dialled.
        address: String,
    },
    /// Correct the address: the site has moved.
    #[error("{address} is site {found}, not {asked}")]
    OtherSite {
        /// What was dialled.
        address: String,
        /// Who answered.
        found: SiteName,
        /// Who was meant.
        asked: SiteName,
    },
}

impl DialError {
    /// Whether waiting may help.
    pub(super) fn failure(&self) -> Failure {
        match self {
            DialError::NoAddress { .. }
            | DialError::Unreachable { .. }
            | DialError::Timeout { .. } => Failure::Unreachable,
            DialError::OtherMesh { .. }
            | DialError::OtherProtocol { .. }
            | DialError::OtherSite { .. } => Failure::Refused,
        }
    }
}

/// A trusted connection.
pub(super) struct Connected {
    pub(super) peer: SiteName,
    /// Where the peer is.
    pub(super) ip: IpAddr,
    pub(super) stream: TlsStream<TcpStream>,
}

/// Makes connections of one kind.
#[derive(Clone)]
pub(super) struct Connector {
    identity: Arc<Identity>,
    tls: TlsConnector,
    /// Where sites are reached from here, whatever they announce.
    routes: Arc<BTreeMap<SiteName, String>>,
}

impl Connector {
    pub(super) fn new(
        identity: Arc<Identity>,
        alpn: &[u8],
        routes: Arc<BTreeMap<SiteName, String>>,
    ) -> Connector {
        let tls = TlsConnector::from(identity.client_config(&[alpn]));
        Connector {
            identity,
            tls,
            routes,
        }
    }

    /// Connects to whichever site of the mesh is there.
    pub(super) async fn connect(&self, address: &str) -> Result<Connected, DialError> {
        match timeout(CONNECT_DEADLINE, self.reach(address)).await {
            Ok(connected) => connected,
            Err(_) => Err(DialError::Timeout {
                address: address.into(),
            }),
        }
    }

    /// Connects to that site.
    pub(super) async fn connect_to(
        &self,
        asked: &SiteName,
        address: &str,
    ) -> Result<Connected, DialError> {
        let address = self.routes.get(asked).map_or(address, String::as_str);
        let connected = self.connect(address).await?;
        if connected.peer == *asked {
            return Ok(connected);
        }
        let (found, asked) = (connected.peer, asked.clone());
        Err(DialError::OtherSite {
            address: address.into(),
            found,
            asked,
        })
    }

    async fn reach(&self, address: &str) -> Result<Connected, DialError> {
        let unreachable = |source| DialError::Unreachable {
            address: address.into(),
            source,
        };
        let tcp = TcpStream::connect(address).await.map_err(unreachable)?;
        tcp.set_nodelay(true).map_err(unreachable)?;
        let ip = tcp.peer_addr().map_err(unreachable)?.ip();
        let (peer, stream) = self
            .secure(tcp)
            .await
            .map_err(|fault| worded(fault, address))?;
        Ok(Connected { peer, ip, stream })
    }

    async fn secure(
        &self,
        tcp: TcpStream,
    ) -> Result<(SiteName, TlsStream<TcpStream>), HandshakeFault> {
        let stream = self.tls.connect(Identity::server_name(), tcp).await?;
        let state = stream.get_ref().1;
        let peer = peer_of(&self.identity, state)?;
        if state.alpn_protocol().is_none() {
            return Err(HandshakeFault::OtherProtocol);
        }
        Ok((peer, stream))
    }
}

fn worded(fault: HandshakeFault, address: &str) -> DialError {
    let address = address.to_owned();
    match fault {
        HandshakeFault::OtherMesh(why) => DialError::OtherMesh { address, why },
        HandshakeFault::OtherProtocol => DialError::OtherProtocol { address },
        HandshakeFault::Broken(source) => DialError::Unreachable { address, source },
    }
}
