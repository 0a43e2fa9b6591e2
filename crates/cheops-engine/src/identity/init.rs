//! Making a mesh: a CA and, per site, a folder with its identity.
//!
//! Running again adds what is missing. Nothing that exists is ever overwritten: a site's folder
//! appears whole, by one rename, or not at all.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cheops_model::SiteName;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::OffsetDateTime;

use super::error::IdentityError;
use super::names::{DNS_NAME, mesh_uri, site_uri};
use super::{CA_FILE, CERTIFICATE_FILE, KEY_FILE, MESH_KEY_FILE, MeshName, MeshSecret, peer};
use crate::files::{self, Access};

const CA_KEY_FILE: &str = "ca-key.pem";
const DAY: Duration = Duration::from_secs(86_400);
/// Ten years: sites at the edge may not be visited for long.
const VALIDITY: Duration = Duration::from_secs(86_400 * 3_652);

/// What [`init`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitReport {
    /// The mesh.
    pub mesh: MeshName,
    /// True if the CA was there before.
    pub ca_kept: bool,
    /// Sites whose folder was made now.
    pub added: Vec<SiteName>,
    /// Sites whose folder was there before, left alone.
    pub kept: Vec<SiteName>,
}

/// Makes `out`, the mesh's CA in it and a folder per site, each unless it is there already.
pub fn init(mesh: &str, out: &Path, sites: &[SiteName]) -> Result<InitReport, IdentityError> {
    let mesh = MeshName::new(mesh).map_err(|fault| IdentityError::BadMeshName {
        name: mesh.to_owned(),
        fault,
    })?;
    sites.iter().try_for_each(check_folder_name)?;
    make_folder(out)?;
    let (ca, ca_kept) = match load_ca(&mesh, out)? {
        Some(ca) => (ca, true),
        None => (make_ca(&mesh, out)?, false),
    };
    let secret = mesh_key(out)?;
    let mut report = InitReport {
        mesh,
        ca_kept,
        added: Vec::new(),
        kept: Vec::new(),
    };
    for site in sites {
        if out.join(site.as_str()).symlink_metadata().is_ok() {
            add_mesh_key(&out.join(site.as_str()), &secret)?;
            report.kept.push(site.clone());
        } else {
            add_site(&report.mesh, (&ca, &secret), out, site)?;
            report.added.push(site.clone());
        }
    }
    report.kept.retain(|site| !report.added.contains(site));
    Ok(report)
}

struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Site names are fine words, but some mean something else to a file system.
fn check_folder_name(site: &SiteName) -> Result<(), IdentityError> {
    match site.as_str() {
        "." | ".." | CA_FILE | CA_KEY_FILE | MESH_KEY_FILE => Err(IdentityError::NotAFolder {
            site: site.to_string(),
        }),
        _ => Ok(()),
    }
}

fn make_folder(path: &Path) -> Result<(), IdentityError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(at(path))
}

fn load_ca(mesh: &MeshName, out: &Path) -> Result<Option<Ca>, IdentityError> {
    let path = out.join(CA_FILE);
    let Some(pem) = read_if_there(&path)? else {
        return Ok(None);
    };
    let unusable = |why: &str| IdentityError::Unusable {
        path: path.clone(),
        why: why.into(),
    };
    let der = CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| unusable("this is not a certificate"))?;
    let found = peer::mesh_of(&der).ok_or_else(|| unusable("this is not the CA of a mesh"))?;
    if found != *mesh {
        return Err(IdentityError::OtherMesh {
            dir: out.into(),
            found,
            asked: mesh.clone(),
        });
    }
    let key_path = out.join(CA_KEY_FILE);
    let key = load_key(&key_path)?.ok_or(IdentityError::CaKeyMissing { path: key_path })?;
    let issuer = Issuer::from_ca_cert_der(&der, key)?;
    Ok(Some(Ca { pem, issuer }))
}

/// The key is written first: an `init` that was cut short goes on with the key it left.
fn make_ca(mesh: &MeshName, out: &Path) -> Result<Ca, IdentityError> {
    let key_path = out.join(CA_KEY_FILE);
    let key = match load_key(&key_path)? {
        Some(key) => key,
        None => {
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
            create(&key_path, Access::Private, &key.serialize_pem())?;
            key
        }
    };
    let params = ca_params(mesh)?;
    let pem = params.self_signed(&key)?.pem();
    create(&out.join(CA_FILE), Access::Public, &pem)?;
    Ok(Ca {
        pem,
        issuer: Issuer::new(params, key),
    })
}

/// The secret of the mesh, as text; made if there is none yet.
fn mesh_key(out: &Path) -> Result<String, IdentityError> {
    let path = out.join(MESH_KEY_FILE);
    if let Some(text) = read_if_there(&path)? {
        return Ok(text);
    }
    let text = MeshSecret::generate().to_text();
    create(&path, Access::Private, &text)?;
    Ok(text)
}

/// Folders made before there was a secret get it later.
fn add_mesh_key(folder: &Path, secret: &str) -> Result<(), IdentityError> {
    let path = folder.join(MESH_KEY_FILE);
    if !folder.is_dir() || path.symlink_metadata().is_ok() {
        return Ok(());
    }
    create(&path, Access::Private, secret)
}

fn add_site(
    mesh: &MeshName,
    (ca, secret): (&Ca, &str),
    out: &Path,
    site: &SiteName,
) -> Result<(), IdentityError> {
    let folder = out.join(site.as_str());
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = site_params(mesh, site)?.signed_by(&key, &ca.issuer)?;
    let aside = files::name_aside(&folder);
    make_folder(&aside)?;
    create(&aside.join(CA_FILE), Access::Public, &ca.pem)?;
    create(
        &aside.join(CERTIFICATE_FILE),
        Access::Public,
        &certificate.pem(),
    )?;
    create(&aside.join(KEY_FILE), Access::Private, &key.serialize_pem())?;
    create(&aside.join(MESH_KEY_FILE), Access::Private, secret)?;
    // Refused by the system if a folder with anything in it has come up meanwhile.
    fs::rename(&aside, &folder).map_err(at(&folder))?;
    files::sync_folder(out).map_err(at(out))
}

fn ca_params(mesh: &MeshName) -> Result<CertificateParams, IdentityError> {
    let mut params = params(&format!("Cheops mesh {mesh}"), &mesh_uri(mesh))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn site_params(mesh: &MeshName, site: &SiteName) -> Result<CertificateParams, IdentityError> {
    let mut params = params(site.as_str(), &site_uri(mesh, site))?;
    params
        .subject_alt_names
        .push(SanType::DnsName(Ia5String::try_from(DNS_NAME)?));
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}

fn params(name: &str, uri: &str) -> Result<CertificateParams, IdentityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.subject_alt_names = vec![SanType::URI(Ia5String::try_from(uri)?)];
    // A day back: clocks of sites differ.
    let now = SystemTime::now();
    params.not_before = OffsetDateTime::from(now - DAY);
    params.not_after = OffsetDateTime::from(now + VALIDITY);
    Ok(params)
}

fn create(path: &Path, access: Access, content: &str) -> Result<(), IdentityError> {
    files::create(path, access, content.as_bytes()).map_err(at(path))
}

fn load_key(path: &Path) -> Result<Option<KeyPair>, IdentityError> {
    let Some(pem) = read_if_there(path)? else {
        return Ok(None);
    };
    let key = KeyPair::from_pem(&pem).map_err(|_| IdentityError::Unusable {
        path: path.into(),
        why: "this is not a private key".into(),
    })?;
    Ok(Some(key))
}

fn read_if_there(path: &Path) -> Result<Option<String>, IdentityError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(IdentityError::Io {
            path: path.into(),
            source,
        }),
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> IdentityError + use<> {
    let path: PathBuf = path.into();
    move |source| IdentityError::Io {
        path: path.clone(),
        source,
    }
}
