//! Names inside certificates: the mesh, and a site as `spiffe://<mesh>/site/<site>`.

use std::fmt;

use cheops_model::SiteName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::error::{MeshNameFault, PeerFault};

/// Every certificate carries this DNS name, so that the standard verifier is all that is needed;
/// which site it is, the URI says.
pub(super) const DNS_NAME: &str = "cheops.mesh";

/// The longest mesh name: that of a DNS label.
const MESH_NAME_BYTES_MAX: usize = 63;

/// What stays as it is in the site part of the URI.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The name of a mesh: a word like a DNS label, in lower case.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MeshName(String);

impl MeshName {
    /// Parses a name; capitals become small letters.
    pub fn new(text: &str) -> Result<MeshName, MeshNameFault> {
        let word = text.to_ascii_lowercase();
        if word.is_empty() || word.len() > MESH_NAME_BYTES_MAX {
            return Err(MeshNameFault::Length);
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if let Some(c) = word.chars().find(|c| !allowed(*c)) {
            return Err(MeshNameFault::BadCharacter(c));
        }
        let inner = |c: char| !c.is_ascii_alphanumeric();
        if word.starts_with(inner) || word.ends_with(inner) {
            return Err(MeshNameFault::Ends);
        }
        Ok(MeshName(word))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MeshName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for MeshName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The URI of a mesh, in its CA's certificate.
pub(super) fn mesh_uri(mesh: &MeshName) -> String {
    format!("spiffe://{mesh}")
}

/// The URI of a site, in its certificate.
pub(super) fn site_uri(mesh: &MeshName, site: &SiteName) -> String {
    format!(
        "{}/site/{}",
        mesh_uri(mesh),
        utf8_percent_encode(site.as_str(), ENCODED)
    )
}

/// Reads what [`mesh_uri`] wrote.
pub(super) fn parse_mesh_uri(uri: &str) -> Option<MeshName> {
    MeshName::new(uri.strip_prefix("spiffe://")?).ok()
}

/// Reads what [`site_uri`] wrote, and nothing else: one site has one spelling.
pub(super) fn parse_site_uri(uri: &str) -> Result<(MeshName, SiteName), PeerFault> {
    let fault = || PeerFault::NoSite {
        found: uri.to_owned(),
    };
    let path = uri.strip_prefix("spiffe://").ok_or_else(fault)?;
    let (mesh, site) = path.split_once("/site/").ok_or_else(fault)?;
    let mesh = MeshName::new(mesh).map_err(|_| fault())?;
    let site = percent_decode_str(site)
        .decode_utf8()
        .map_err(|_| fault())?;
    let site = SiteName::new(&site).map_err(|_| fault())?;
    if site_uri(&mesh, &site) != uri {
        return Err(fault());
    }
    Ok((mesh, site))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_name_is_like_a_dns_label() {
        let name = |text: &str| MeshName::new(text).map(|n| n.to_string());
        assert_eq!(name("Demo-1").unwrap(), "demo-1");
        assert_eq!(name(""), Err(MeshNameFault::Length));
        assert_eq!(name(&"x".repeat(64)), Err(MeshNameFault::Length));
        assert_eq!(name("a/b"), Err(MeshNameFault::BadCharacter('/')));
        assert_eq!(name("-a"), Err(MeshNameFault::Ends));
    }

    #[test]
    fn a_site_has_one_spelling_in_a_uri() {
        let mesh = MeshName::new("demo").unwrap();
        let site = SiteName::new("DC 1").unwrap();
        let uri = site_uri(&mesh, &site);
        assert_eq!(uri, "spiffe://demo/site/DC%201");
        assert_eq!(parse_site_uri(&uri).unwrap(), (mesh, site));
        for wrong in [
            "spiffe://demo/site/DC 1",
            "spiffe://demo/site/%44C%201",
            "spiffe://demo/site/",
            "spiffe://demo/site/a/b",
            "spiffe://demo",
            "https://demo/site/a",
        ] {
            assert!(parse_site_uri(wrong).is_err(), "{wrong}");
        }
    }
}
