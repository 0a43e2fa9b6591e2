//! What a failed TLS handshake means, in words of the mesh.

use std::io;

use cheops_model::SiteName;
use rustls::{AlertDescription, CommonState, Error};

use crate::identity::Identity;

/// Why there is no trusted connection.
#[derive(Debug)]
pub(super) enum HandshakeFault {
    /// Either side does not trust the other's certificate.
    OtherMesh(String),
    /// The other side speaks another version of the protocol, or none.
    OtherProtocol,
    /// The connection broke, or the other side speaks something else than TLS.
    Broken(io::Error),
}

impl From<io::Error> for HandshakeFault {
    fn from(fault: io::Error) -> HandshakeFault {
        let inner = fault
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Error>());
        match inner {
            Some(Error::NoApplicationProtocol) => HandshakeFault::OtherProtocol,
            Some(Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
                HandshakeFault::OtherProtocol
            }
            Some(Error::InvalidCertificate(why)) => {
                HandshakeFault::OtherMesh(format!("our CA does not vouch for it ({why})"))
            }
            Some(Error::NoCertificatesPresented) => {
                HandshakeFault::OtherMesh("it showed no certificate".into())
            }
            Some(Error::AlertReceived(alert)) if is_distrust(*alert) => {
                HandshakeFault::OtherMesh("it does not trust our certificate".into())
            }
            _ => HandshakeFault::Broken(fault),
        }
    }
}

/// The site behind a finished handshake.
pub(super) fn peer_of(
    identity: &Identity,
    state: &CommonState,
) -> Result<SiteName, HandshakeFault> {
    let certificates = state.peer_certificates().unwrap_or_default();
    identity
        .peer_site(certificates)
        .map_err(|fault| HandshakeFault::OtherMesh(fault.to_string()))
}

fn is_distrust(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied
    )
}
