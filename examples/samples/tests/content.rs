//! Contents of images, up and down.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use cheops_samples::image::Config;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::{Body, Frame};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use support::start_image;

fn checksum(content: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(content).to_hex())
}

#[tokio::test]
async fn a_content_comes_back_as_it_went() {
    let image = start_image(Config::new("west")).await;
    let path = image.create_image("a").await;
    let file = format!("{path}/file");
    assert_eq!(image.get(&file).await.status, 204);
    let content: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    assert_eq!(
        image.ask("PUT", &file, &[], content.clone()).await.status,
        204
    );
    let shown = image.get(&path).await.json();
    assert_eq!(shown["status"], "active");
    assert_eq!(shown["size"], 300_000);
    assert_eq!(shown["checksum"], checksum(&content));
    let read = image.get(&file).await;
    assert_eq!(read.header("content-length"), "300000");
    assert_eq!(read.body, content);
}

#[tokio::test]
async fn a_range_is_a_part_of_the_content() {
    let image = start_image(Config::new("west")).await;
    let file = format!("{}/file", image.create_image("a").await);
    image.ask("PUT", &file, &[], "0123456789").await;
    let part = image.ask("GET", &file, &[("range", "bytes=2-4")], "").await;
    assert_eq!(
        (part.status.as_u16(), part.header("content-range")),
        (206, "bytes 2-4/10")
    );
    assert_eq!(part.body, "234");
    let beyond = image.ask("GET", &file, &[("range", "bytes=10-")], "").await;
    assert_eq!(
        (beyond.status.as_u16(), beyond.header("content-range")),
        (416, "bytes */10")
    );
    let head = image.ask("HEAD", &file, &[], "").await;
    assert_eq!((head.header("content-length"), head.body.len()), ("10", 0));
}

#[tokio::test]
async fn a_content_too_large_to_keep_is_hashed_and_reads_as_zeros() {
    let image = start_image(Config {
        kept_bytes_max: 9,
        ..Config::new("west")
    })
    .await;
    let path = image.create_image("a").await;
    let file = format!("{path}/file");
    image.ask("PUT", &file, &[], "0123456789").await;
    let shown = image.get(&path).await.json();
    assert_eq!(shown["checksum"], checksum(b"0123456789"));
    assert_eq!(image.get(&file).await.body, [0u8; 10].as_slice());
    image.ask("PUT", &file, &[], "012345678").await;
    assert_eq!(image.get(&file).await.body, "012345678");
}

/// Pieces of unknown number: they go out chunked.
struct Pieces(u32);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0 == 0 {
            return Poll::Ready(None);
        }
        self.0 -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[7; 1 << 16])))))
    }
}

#[tokio::test]
async fn a_chunked_upload_larger_than_memory_allows_streams_through() {
    let image = start_image(Config {
        kept_bytes_max: 0,
        ..Config::new("west")
    })
    .await;
    let path = image.create_image("a").await;
    let pieces = 4 << 10;
    let request = Request::put(format!("{}{path}/file", image.url()))
        .body(Pieces(pieces))
        .unwrap();
    let answer = Client::builder(TokioExecutor::new())
        .build_http()
        .request(request)
        .await
        .unwrap();
    assert_eq!(answer.status(), 204);
    assert_eq!(
        image.get(&path).await.json()["size"],
        u64::from(pieces) << 16
    );
    let request = Request::get(format!("{}{path}/file", image.url()))
        .body(Pieces(0))
        .unwrap();
    let mut body = Client::builder(TokioExecutor::new())
        .build_http()
        .request(request)
        .await
        .unwrap()
        .into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.unwrap().into_data().unwrap().len() as u64;
    }
    assert_eq!(bytes, u64::from(pieces) << 16);
}
