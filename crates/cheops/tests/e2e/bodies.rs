//! Bodies pass as they are: long ones, chunks, ranges, and many on one connection.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::client::{Connection, ask, get};
use crate::common::setup::Setup;

const PIECE: usize = 64 << 10;

/// The n-th piece of a body that repeats nothing.
fn piece(n: usize) -> Vec<u8> {
    let mut reader = blake3::Hasher::new()
        .update(&n.to_le_bytes())
        .finalize_xof();
    let mut piece = vec![0; PIECE];
    reader.fill(&mut piece);
    piece
}

/// Uploads pieces in chunks and tells the status and their hash.
async fn upload_chunked(address: SocketAddr, path: &str, scope: &str, pieces: usize) -> String {
    let mut connection = Connection::open(address).await;
    let headers = [
        ("Host", "a"),
        ("X-Scope", scope),
        ("Transfer-Encoding", "chunked"),
    ];
    connection
        .head(&format!("PUT {path} HTTP/1.1"), &headers)
        .await;
    let mut hasher = blake3::Hasher::new();
    for n in 0..pieces {
        let piece = piece(n);
        hasher.update(&piece);
        connection
            .write(format!("{:x}\r\n", piece.len()).as_bytes())
            .await;
        connection.write(&piece).await;
        connection.write(b"\r\n").await;
    }
    connection.write(b"0\r\n\r\n").await;
    let answer = connection.answer("PUT").await.unwrap();
    assert_eq!(answer.status, 204, "{answer:?}");
    format!("blake3:{}", hasher.finalize().to_hex())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_upload_and_download_through_two_agents_are_the_same_bytes() {
    let mesh = Setup::of(2).start().await;
    let id = mesh.upload(2, "long", b"").await;
    let path = format!("/images/{id}/file");
    let service = mesh.site(1).image;
    let sent = upload_chunked(service, &path, "image: site2", 1024).await;
    let shown = get(service, &format!("/images/{id}"), Some("image: site2"))
        .await
        .json();
    assert_eq!(shown["checksum"], sent.as_str(), "{shown}");
    let back = get(service, &path, Some("image: site2")).await;
    assert_eq!(back.body.len(), 64 << 20);
    assert_eq!(
        format!("blake3:{}", blake3::hash(&back.body).to_hex()),
        sent
    );
}

#[tokio::test]
async fn ranges_pass() {
    let mesh = Setup::of(2).start().await;
    let id = mesh.upload(2, "a", b"0123456789").await;
    let path = format!("/images/{id}/file");
    let headers = [("X-Scope", "image: site2"), ("Range", "bytes=2-4")];
    let answer = ask(mesh.site(1).image, "GET", &path, &headers, b"").await;
    assert_eq!((answer.status, answer.body.as_slice()), (206, &b"234"[..]));
    assert_eq!(answer.header("content-range"), "bytes 2-4/10");
    let headers = [("X-Scope", "image: site2"), ("Range", "bytes=99-")];
    let answer = ask(mesh.site(1).image, "GET", &path, &headers, b"").await;
    assert_eq!(
        (answer.status, answer.header("content-range")),
        (416, "bytes */10")
    );
}

#[tokio::test]
async fn one_connection_carries_request_after_request() {
    let mesh = Setup::of(2).start().await;
    let mut connection = Connection::open(mesh.site(1).image).await;
    for turn in 0..6 {
        let scope = ["image: site1", "image: site2", "image: site9"][turn % 3];
        let headers = [("Host", "a"), ("X-Scope", scope), ("Content-Length", "12")];
        connection.head("POST /images HTTP/1.1", &headers).await;
        connection.write(b"{\"name\":\"a\"}").await;
        let answer = connection.answer("POST").await.unwrap();
        assert_eq!(
            answer.status,
            [201, 201, 400][turn % 3],
            "{turn}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_asked() {
    let mesh = Setup::of(2).start().await;
    let id = mesh.upload(2, "a", b"").await;
    let mut connection = Connection::open(mesh.site(1).image).await;
    let headers = [
        ("Host", "a"),
        ("X-Scope", "image: site2"),
        ("Content-Length", "3"),
        ("Expect", "100-continue"),
    ];
    connection
        .head(&format!("PUT /images/{id}/file HTTP/1.1"), &headers)
        .await;
    assert_eq!(connection.answer_head().await.unwrap().status, 100);
    connection.write(b"abc").await;
    assert_eq!(connection.answer("PUT").await.unwrap().status, 204);
}

/// A service may answer before it has read a long body, and then hang up.
#[tokio::test]
async fn an_answer_that_comes_before_the_end_of_the_body_is_the_answer() {
    let mesh = Setup::of(2).start().await;
    for turn in 0..10 {
        for scope in ["image: site1", "image: site2"] {
            let stream = TcpStream::connect(mesh.site(1).image).await.unwrap();
            let (mut reads, mut writes) = stream.into_split();
            let head = format!(
                "PUT /images/none/file HTTP/1.1\r\nHost: a\r\nX-Scope: {scope}\r\nContent-Length: 8388608\r\n\r\n"
            );
            let sending = tokio::spawn(async move {
                let _ = writes.write_all(head.as_bytes()).await;
                let _ = writes.write_all(&vec![1; 8 << 20]).await;
                writes
            });
            let mut said = [0; 12];
            reads.read_exact(&mut said).await.unwrap();
            let status = String::from_utf8_lossy(&said).into_owned();
            assert_eq!(status, "HTTP/1.1 404", "{scope}, turn {turn}");
            sending.abort();
        }
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_no_upload() {
    let mesh = Setup::of(2).start().await;
    let id = mesh.upload(2, "a", b"before").await;
    let path = format!("/images/{id}/file");
    let mut stream = TcpStream::connect(mesh.site(1).image).await.unwrap();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: a\r\nX-Scope: image: site2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nafter\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = Vec::new();
    // It may say something or hang up; what counts is what the service kept.
    let _ = stream.read_to_end(&mut said).await;
    let kept = get(mesh.site(2).image_service, &path, None).await;
    assert_eq!(
        kept.body, b"before",
        "half an upload was taken for a whole one"
    );
}
