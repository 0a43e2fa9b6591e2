//! A body of any length costs an agent a bounded amount of memory.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::client::get;
use crate::common::setup::Setup;

/// How much passes, unless `CHEOPS_TEST_BODY_MIB` says otherwise.
const BODY_MIB: u64 = 256;

const MEMORY_MAX: u64 = 64 << 20;

fn body_bytes() -> u64 {
    let asked = std::env::var("CHEOPS_TEST_BODY_MIB").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(BODY_MIB) << 20
}

async fn upload(address: SocketAddr, path: &str, bytes: u64) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: a\r\nX-Scope: image: site2\r\nContent-Length: {bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![0; 1 << 20];
    for _ in 0..bytes >> 20 {
        stream.write_all(&piece).await.unwrap();
    }
    let mut said = [0; 12];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 204");
}

async fn download(address: SocketAddr, path: &str, bytes: u64) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nX-Scope: image: site2\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut piece = vec![0; 1 << 20];
    let mut read = 0;
    loop {
        match stream.read(&mut piece).await.unwrap() {
            0 => break,
            more => read += more as u64,
        }
    }
    assert!(read > bytes && read < bytes + 4096, "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_upload_and_download_through_two_agents_take_little_memory() {
    let mut setup = Setup::of(2);
    setup.kept_bytes_max = 0;
    let mesh = setup.start().await;
    let id = mesh.upload(2, "huge", b"").await;
    let (address, path) = (mesh.site(1).image, format!("/images/{id}/file"));
    let bytes = body_bytes();
    upload(address, &path, bytes).await;
    let shown = get(mesh.site(2).image_service, &format!("/images/{id}"), None)
        .await
        .json();
    assert_eq!(shown["size"], bytes, "{shown}");
    download(address, &path, bytes).await;
    for site in [1, 2] {
        let peak = mesh.agent(site).memory_peak();
        println!(
            "site{site}: {} KiB at most, for {} MiB each way",
            peak >> 10,
            bytes >> 20
        );
        assert!(peak < MEMORY_MAX, "site{site}: {} MiB", peak >> 20);
    }
}
