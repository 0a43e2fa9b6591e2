//! Who a site is: certificates of its mesh.
//!
//! [`init()`] makes them, [`Identity::load`] reads those of one site and gives the TLS settings of
//! its links. A certificate is trusted because the mesh's CA signed it, by the standard verifier;
//! which site it is, [`Identity::peer_site`] reads out of it.

mod error;
mod init;
mod listener;
mod load;
mod names;
mod peer;
mod secret;

use std::fmt;
use std::sync::Arc;

use cheops_model::SiteName;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName};

pub use error::{IdentityError, MeshNameFault, PeerFault};
pub use init::{InitReport, init};
pub use listener::{ListenerTlsError, listener_tls};
pub use names::MeshName;
pub use secret::MeshSecret;

const CA_FILE: &str = "ca.pem";
const CERTIFICATE_FILE: &str = "cert.pem";
const KEY_FILE: &str = "key.pem";
const MESH_KEY_FILE: &str = "mesh.key";

/// The identity of one site, checked: the key fits the certificate, the mesh's CA signed it, it is
/// in force and names a site.
pub struct Identity {
    mesh: MeshName,
    site: SiteName,
    secret: MeshSecret,
    provider: Arc<CryptoProvider>,
    own: Arc<SingleCertAndKey>,
    as_server: Arc<dyn ClientCertVerifier>,
    as_client: Arc<WebPkiServerVerifier>,
}

impl Identity {
    /// The site.
    pub fn site(&self) -> &SiteName {
        &self.site
    }

    /// The mesh it belongs to.
    pub fn mesh(&self) -> &MeshName {
        &self.mesh
    }

    /// What only the agents of the mesh know.
    pub fn secret(&self) -> &MeshSecret {
        &self.secret
    }

    /// TLS for whoever connects here: 1.3 only, a certificate of the mesh required.
    pub fn server_config(&self, alpn: &[&[u8]]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider speaks TLS 1.3")
            .with_client_cert_verifier(self.as_server.clone())
            .with_cert_resolver(self.own.clone());
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        // Links are few and long: nothing to gain from resumption, and a certificate is shown anew
        // each time.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Arc::new(config)
    }

    /// TLS towards a peer: 1.3 only, showing our certificate. To be used with
    /// [`server_name`](Self::server_name).
    pub fn client_config(&self, alpn: &[&[u8]]) -> Arc<ClientConfig> {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider speaks TLS 1.3")
            .with_webpki_verifier(self.as_client.clone())
            .with_client_cert_resolver(self.own.clone());
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.resumption = Resumption::disabled();
        Arc::new(config)
    }

    /// The DNS name that every certificate of a mesh carries.
    pub fn server_name() -> ServerName<'static> {
        ServerName::try_from(names::DNS_NAME).expect("a constant, and a DNS name")
    }

    /// Which site of our mesh a verified certificate is of.
    pub fn peer_site(&self, certificates: &[CertificateDer<'_>]) -> Result<SiteName, PeerFault> {
        let first = certificates.first().ok_or(PeerFault::NoCertificate)?;
        let (found, site) = peer::site_of(first)?;
        if found != self.mesh {
            return Err(PeerFault::OtherMesh {
                found,
                ours: self.mesh.clone(),
            });
        }
        Ok(site)
    }
}

/// Without the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("mesh", &self.mesh)
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}
