//! Reading names out of certificates.

use cheops_model::SiteName;
use rustls_pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::MeshName;
use super::error::PeerFault;
use super::names::{parse_mesh_uri, parse_site_uri};

/// The mesh and site that a certificate names.
pub(super) fn site_of(certificate: &CertificateDer<'_>) -> Result<(MeshName, SiteName), PeerFault> {
    match uris(certificate)?.as_slice() {
        [uri] => parse_site_uri(uri),
        several => Err(PeerFault::NoSite {
            found: several.join(" "),
        }),
    }
}

/// The mesh that a CA's certificate names.
pub(super) fn mesh_of(certificate: &CertificateDer<'_>) -> Option<MeshName> {
    match uris(certificate).ok()?.as_slice() {
        [uri] => parse_mesh_uri(uri),
        _ => None,
    }
}

fn uris(certificate: &CertificateDer<'_>) -> Result<Vec<String>, PeerFault> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| PeerFault::Malformed)?;
    let names = parsed
        .subject_alternative_name()
        .map_err(|_| PeerFault::Malformed)?;
    let names = names.map(|extension| extension.value.general_names.as_slice());
    let uri = |name: &GeneralName<'_>| match name {
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        _ => None,
    };
    Ok(names.unwrap_or_default().iter().filter_map(uri).collect())
}
