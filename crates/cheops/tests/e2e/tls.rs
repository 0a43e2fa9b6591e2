//! TLS on a service's listener.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use cheops_engine::identity;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::common::agent::run;
use crate::common::client::raw;
use crate::common::setup::Setup;

/// A certificate for a listener, and keys that say where it is. The names are a mesh's, which
/// serve as well as any.
pub(crate) fn certificate(folder: &Path) -> String {
    identity::init("other", folder, &["web".parse().unwrap()]).unwrap();
    let file = |name: &str| folder.join("web").join(name);
    format!(
        "tls = {{ cert = {:?}, key = {:?} }}",
        file("cert.pem"),
        file("key.pem")
    )
}

/// A connection that speaks one of these protocols.
pub(crate) async fn connect(
    address: SocketAddr,
    authority: &Path,
    protocols: &[&[u8]],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = "cheops.mesh".try_into().unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

async fn ask(address: SocketAddr, authority: &Path, protocols: &[&[u8]]) -> (Vec<u8>, String) {
    let mut stream = connect(address, authority, protocols).await;
    let chosen = stream
        .get_ref()
        .1
        .alpn_protocol()
        .unwrap_or_default()
        .to_vec();
    let mut answer = Vec::new();
    if chosen != b"h2" {
        let request = "GET /images HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let _ = stream.read_to_end(&mut answer).await;
    }
    (chosen, String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn a_listener_with_a_certificate_speaks_tls_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = Setup::of(1);
    setup.image = certificate(folder.path());
    let mesh = setup.start().await;
    let authority = folder.path().join("ca.pem");
    let address = mesh.site(1).image;
    let (chosen, answer) = ask(address, &authority, &[b"http/1.1"]).await;
    assert_eq!(chosen, b"http/1.1");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (chosen, _) = ask(address, &authority, &[b"h2", b"http/1.1"]).await;
    assert_eq!(chosen, b"h2");
    let seen = crate::common::mesh::seen(mesh.site(1).image_service, "/images").await;
    let forwarded = seen[0]["forwarded"].as_str().unwrap();
    assert!(forwarded.ends_with(";proto=https"), "{forwarded}");
    let plain =
        tokio::spawn(async move { raw(address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await });
    assert!(plain.await.is_err(), "plain HTTP gets no answer");
}

#[tokio::test]
async fn a_certificate_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("site.toml");
    let text = "site = 'a'\ndata = 'd'\n[mesh]\nidentity = 'i'\n[service.image]\n\
                listen = '127.0.0.1:1'\nbackend = 'http://127.0.0.1:2'\n\
                tls = { cert = 'nowhere.pem', key = 'nowhere.key' }\n";
    std::fs::write(&config, text).unwrap();
    let output = run(&["agent", "--check", "--config", config.to_str().unwrap()]).await;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        told.contains("service.image.tls") && told.contains("nowhere.pem"),
        "{told}"
    );
}
