//! Loading a site's identity, and refusing one that would only fail later.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use super::error::IdentityError;
use super::{CA_FILE, CERTIFICATE_FILE, Identity, KEY_FILE, MeshSecret, peer};

impl Identity {
    /// Reads `ca.pem`, `cert.pem`, `key.pem` and `mesh.key` of `dir`.
    pub fn load(dir: &Path) -> Result<Identity, IdentityError> {
        let (ca_path, path) = (dir.join(CA_FILE), dir.join(CERTIFICATE_FILE));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let ca = read_certificate(&ca_path)?;
        let certificate = read_certificate(&path)?;
        let key = read_key(&dir.join(KEY_FILE))?;
        let secret = MeshSecret::load(dir, &ca)?;
        let own = pair(dir, &certificate, key, &provider)?;
        let roots = Arc::new(roots(&ca_path, ca)?);
        let as_server = client_verifier(&ca_path, &roots, &provider)?;
        let as_client = server_verifier(&ca_path, &roots, &provider)?;
        check_trust(&path, &certificate, as_server.as_ref(), as_client.as_ref())?;
        let (mesh, site) =
            peer::site_of(&certificate).map_err(|fault| unusable(&path, fault.to_string()))?;
        Ok(Identity {
            mesh,
            site,
            secret,
            provider,
            own,
            as_server,
            as_client,
        })
    }
}

fn read_certificate(path: &Path) -> Result<CertificateDer<'static>, IdentityError> {
    CertificateDer::from_pem_slice(&read(path)?)
        .map_err(|_| unusable(path, "this is not a certificate"))
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, IdentityError> {
    let pem = read(path)?;
    check_private(path)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| unusable(path, "this is not a private key"))
}

/// Refuses a key that others may read.
pub(super) fn check_private(path: &Path) -> Result<(), IdentityError> {
    let metadata = fs::metadata(path).map_err(|fault| unread(path, fault))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(IdentityError::Exposed {
            path: path.into(),
            mode,
        });
    }
    Ok(())
}

fn pair(
    dir: &Path,
    certificate: &CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<Arc<SingleCertAndKey>, IdentityError> {
    let pair = CertifiedKey::from_der(vec![certificate.clone()], key, provider).map_err(|_| {
        unusable(
            &dir.join(KEY_FILE),
            format!("this is not the key of {CERTIFICATE_FILE}"),
        )
    })?;
    Ok(Arc::new(SingleCertAndKey::from(pair)))
}

fn roots(path: &Path, ca: CertificateDer<'static>) -> Result<RootCertStore, IdentityError> {
    let mut roots = RootCertStore::empty();
    roots
        .add(ca)
        .map_err(|_| unusable(path, "this is not the certificate of a CA"))?;
    Ok(roots)
}

fn client_verifier(
    path: &Path,
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, IdentityError> {
    WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .map_err(|fault| unusable(path, fault.to_string()))
}

fn server_verifier(
    path: &Path,
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, IdentityError> {
    WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .map_err(|fault| unusable(path, fault.to_string()))
}

/// Our own certificate has to pass what peers will put it through.
fn check_trust(
    path: &Path,
    certificate: &CertificateDer<'_>,
    as_server: &dyn ClientCertVerifier,
    as_client: &WebPkiServerVerifier,
) -> Result<(), IdentityError> {
    let now = UnixTime::now();
    let name = Identity::server_name();
    as_server
        .verify_client_cert(certificate, &[], now)
        .and_then(|_| as_client.verify_server_cert(certificate, &[], &name, &[], now))
        .map_err(|fault| distrusted(path, fault))?;
    Ok(())
}

fn distrusted(path: &Path, fault: rustls::Error) -> IdentityError {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let not_in_force = |why| IdentityError::NotInForce {
        path: path.into(),
        why,
    };
    match fault {
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
            not_in_force("expired")
        }
        rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => {
            not_in_force("not valid yet")
        }
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => unusable(path, format!("{CA_FILE} beside it did not sign it")),
        other => unusable(path, other.to_string()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    fs::read(path).map_err(|fault| unread(path, fault))
}

pub(super) fn unread(path: &Path, source: io::Error) -> IdentityError {
    match source.kind() {
        io::ErrorKind::NotFound => IdentityError::Missing { path: path.into() },
        _ => IdentityError::Io {
            path: path.into(),
            source,
        },
    }
}

pub(super) fn unusable(path: &Path, why: impl Into<String>) -> IdentityError {
    IdentityError::Unusable {
        path: path.into(),
        why: why.into(),
    }
}
