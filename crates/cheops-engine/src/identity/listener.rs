//! TLS on a service's own listener: an operator's certificate, for clients that have none.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Why a listener cannot have TLS. Correct the files.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub struct ListenerTlsError {
    file: String,
    why: String,
}

/// TLS 1.2 and 1.3 with that certificate chain and key (PEM), HTTP/2 and HTTP/1.1 offered.
pub fn listener_tls(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, ListenerTlsError> {
    let fault = |file: &Path, why: String| ListenerTlsError {
        file: file.display().to_string(),
        why,
    };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect)
        .map_err(|error| fault(chain, error.to_string()))?;
    if certificates.is_empty() {
        return Err(fault(chain, "there is no certificate in it".to_owned()));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| fault(key, error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(certificates, private)
        })
        .map_err(|error| fault(chain, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
