//! Making a mesh's certificates and loading those of a site.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cheops_engine::identity::{Identity, IdentityError, PeerFault, init};
use cheops_model::SiteName;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

fn sites(names: &[&str]) -> Vec<SiteName> {
    names
        .iter()
        .map(|name| SiteName::new(name).unwrap())
        .collect()
}

fn made(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    init("demo", folder.path(), &sites(names)).unwrap();
    folder
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn fault(dir: &Path) -> String {
    Identity::load(dir).unwrap_err().to_string()
}

#[test]
fn what_init_makes_can_be_loaded() {
    let folder = made(&["site1", "DC 1"]);
    let identity = Identity::load(&folder.path().join("DC 1")).unwrap();
    assert_eq!(identity.site().as_str(), "DC 1");
    assert_eq!(identity.mesh().as_str(), "demo");
    assert_eq!(mode(&folder.path().join("DC 1/key.pem")), 0o600);
    assert_eq!(mode(&folder.path().join("ca-key.pem")), 0o600);
    assert_eq!(
        format!("{identity:?}"),
        "Identity { mesh: demo, site: DC 1, .. }"
    );
    identity.server_config(&[b"a"]);
    identity.client_config(&[b"a"]);
}

#[test]
fn running_again_adds_sites_and_overwrites_nothing() {
    let folder = made(&["site1"]);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let before = (read("ca.pem"), read("ca-key.pem"), read("site1/key.pem"));
    let report = init("demo", folder.path(), &sites(&["site1", "site2", "site2"])).unwrap();
    assert!(report.ca_kept);
    assert_eq!(report.added, sites(&["site2"]));
    assert_eq!(report.kept, sites(&["site1"]));
    assert_eq!(
        before,
        (read("ca.pem"), read("ca-key.pem"), read("site1/key.pem"))
    );
    let one = Identity::load(&folder.path().join("site1")).unwrap();
    let two = CertificateDer::from_pem_slice(&read("site2/cert.pem")).unwrap();
    assert_eq!(one.peer_site(&[two]).unwrap().as_str(), "site2");
}

#[test]
fn an_init_that_was_cut_short_goes_on() {
    let folder = made(&[]);
    let key = fs::read(folder.path().join("ca-key.pem")).unwrap();
    fs::remove_file(folder.path().join("ca.pem")).unwrap();
    init("demo", folder.path(), &sites(&["site1"])).unwrap();
    assert_eq!(fs::read(folder.path().join("ca-key.pem")).unwrap(), key);
    Identity::load(&folder.path().join("site1")).unwrap();
}

#[test]
fn a_folder_belongs_to_one_mesh() {
    let folder = made(&["site1"]);
    let fault = init("other", folder.path(), &[]).unwrap_err();
    assert!(matches!(fault, IdentityError::OtherMesh { .. }));
    assert!(
        fault
            .to_string()
            .contains("belongs to mesh `demo`, not `other`"),
        "{fault}"
    );
}

#[test]
fn names_that_are_no_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in [".", "..", "ca.pem", "ca-key.pem", "mesh.key"] {
        let fault = init("demo", folder.path(), &sites(&[name])).unwrap_err();
        assert!(matches!(fault, IdentityError::NotAFolder { .. }), "{name}");
    }
    let fault = init("a b", folder.path(), &[]).unwrap_err();
    assert!(matches!(fault, IdentityError::BadMeshName { .. }));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_lost_ca_key_is_named() {
    let folder = made(&["site1"]);
    fs::remove_file(folder.path().join("ca-key.pem")).unwrap();
    let fault = init("demo", folder.path(), &sites(&["site2"])).unwrap_err();
    assert!(
        matches!(fault, IdentityError::CaKeyMissing { .. }),
        "{fault}"
    );
}

#[test]
fn a_missing_file_says_how_to_make_it() {
    for name in ["ca.pem", "cert.pem", "key.pem"] {
        let folder = made(&["site1"]);
        let dir = folder.path().join("site1");
        fs::remove_file(dir.join(name)).unwrap();
        let fault = fault(&dir);
        assert!(
            fault.contains(name) && fault.contains("cheops init --mesh"),
            "{fault}"
        );
    }
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let folder = made(&["site1"]);
    let dir = folder.path().join("site1");
    fs::set_permissions(dir.join("key.pem"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(fault(&dir).contains("chmod 600"), "{}", fault(&dir));
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let (folder, other) = (made(&["site1", "site2"]), made(&["site1"]));
    let dir = folder.path().join("site1");
    let check = |from: &Path, name: &str, expected: &str| {
        let kept = fs::read(dir.join(name)).unwrap();
        fs::write(dir.join(name), fs::read(from).unwrap()).unwrap();
        assert!(fault(&dir).contains(expected), "{}", fault(&dir));
        fs::write(dir.join(name), kept).unwrap();
    };
    check(
        &folder.path().join("site2/key.pem"),
        "key.pem",
        "not the key of cert.pem",
    );
    check(&other.path().join("ca.pem"), "ca.pem", "did not sign it");
    check(&dir.join("key.pem"), "cert.pem", "not a certificate");
    check(&dir.join("cert.pem"), "key.pem", "not a private key");
    Identity::load(&dir).unwrap();
}

#[test]
fn a_peer_of_another_mesh_has_no_site_here() {
    let (folder, other) = (made(&["site1"]), tempfile::tempdir().unwrap());
    init("other", other.path(), &sites(&["site2"])).unwrap();
    let identity = Identity::load(&folder.path().join("site1")).unwrap();
    let pem = fs::read(other.path().join("site2/cert.pem")).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    assert!(matches!(
        identity.peer_site(&[certificate]),
        Err(PeerFault::OtherMesh { .. })
    ));
    assert_eq!(identity.peer_site(&[]), Err(PeerFault::NoCertificate));
    let ca = CertificateDer::from_pem_slice(&fs::read(folder.path().join("ca.pem")).unwrap());
    assert!(matches!(
        identity.peer_site(&[ca.unwrap()]),
        Err(PeerFault::NoSite { .. })
    ));
}

#[test]
fn every_site_has_the_secret_of_the_mesh() {
    let folder = tempfile::tempdir().unwrap();
    init("demo", folder.path(), &sites(&["site1", "site2"])).unwrap();
    let key_of = |name: &str| {
        let identity = Identity::load(&folder.path().join(name)).unwrap();
        identity.secret().key_for("a test")
    };
    assert_eq!(key_of("site1"), key_of("site2"));
    assert_eq!(mode(&folder.path().join("site1/mesh.key")), 0o600);

    // A folder from before there was a secret works, and gets it when `init` is run again.
    let ours = key_of("site1");
    fs::remove_file(folder.path().join("site1/mesh.key")).unwrap();
    assert_ne!(key_of("site1"), ours);
    init("demo", folder.path(), &sites(&["site1"])).unwrap();
    assert_eq!(key_of("site1"), ours);
}
