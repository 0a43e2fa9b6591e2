//! Much of a thing at once: others are served meanwhile, and memory stays within bounds.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, PING, RESET, Raw, SETTINGS, block, frame, plain,
};
use super::{say, start, statuses};
use crate::common::client::get;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;

/// Far more than an agent holds, also built without optimisation, and far less than what is thrown at it could make it hold.
const MEMORY_MAX: u64 = 192 << 20;

async fn assert_well(mesh: &Mesh) {
    let answer = get(mesh.site(1).compute, "/servers", None).await;
    assert_eq!(answer.status, 200, "others are served");
    let peak = mesh.agent(1).memory_peak();
    println!("peak {} KiB", peak / 1024);
    assert!(peak < MEMORY_MAX, "{peak}");
}

#[tokio::test]
async fn streams_that_are_opened_and_given_up_at_once_cost_the_connection() {
    let (mesh, witness) = start().await;
    let mut raw = Raw::open(mesh.site(1).image).await;
    let mut flood = Vec::new();
    for stream in (1..20_000).step_by(2) {
        flood.extend(frame(
            HEADERS,
            END_STREAM | END_HEADERS,
            stream,
            &block(&plain("/flood")),
        ));
        flood.extend(frame(RESET, 0, stream, &8_u32.to_be_bytes()));
    }
    raw.say(&flood).await;
    assert!(raw.is_given_up().await);
    assert!(witness.requests() < 1_000, "{}", witness.requests());
    assert_well(&mesh).await;
}

#[tokio::test]
async fn headers_that_go_on_and_on_cost_the_connection() {
    let (mesh, witness) = start().await;
    let mut raw = Raw::open(mesh.site(1).image).await;
    raw.say(&frame(HEADERS, END_STREAM, 1, &block(&plain("/flood"))))
        .await;
    let piece = block(&[("x-a", &"a".repeat(16_000))]);
    let more = frame(CONTINUATION, 0, 1, &piece);
    for _ in 0..20_000 {
        if !raw.say(&more).await {
            break;
        }
    }
    assert!(raw.is_given_up().await);
    assert_eq!(witness.seen(), "");
    assert_well(&mesh).await;
}

#[tokio::test]
async fn empty_pieces_of_headers_cost_the_connection() {
    let (mesh, witness) = start().await;
    let mut raw = Raw::open(mesh.site(1).image).await;
    raw.say(&frame(HEADERS, END_STREAM, 1, &[])).await;
    let more = frame(CONTINUATION, 0, 1, &[]).repeat(1_000);
    for _ in 0..1_000 {
        if !raw.say(&more).await {
            break;
        }
    }
    assert!(raw.is_given_up().await);
    assert_eq!(witness.seen(), "");
    assert_well(&mesh).await;
}

#[tokio::test]
async fn a_megabyte_of_headers_over_http2_reaches_no_service() {
    let (mesh, witness) = start().await;
    let long = "a".repeat(16_000);
    let mut raw = Raw::open(mesh.site(1).image).await;
    let mut headers = frame(HEADERS, END_STREAM, 1, &block(&plain("/flood")));
    for n in 0..64 {
        let name = format!("x-{n}");
        let last = if n == 63 { END_HEADERS } else { 0 };
        headers.extend(frame(CONTINUATION, last, 1, &block(&[(&name, &long)])));
    }
    raw.say(&headers).await;
    assert_ne!(raw.outcome(1).await, super::frames::Outcome::Status(200));
    assert_eq!(witness.seen(), "");
    assert_well(&mesh).await;
}

#[tokio::test]
async fn questions_whose_answers_are_never_read_are_not_piled_up() {
    let (mesh, _witness) = start().await;
    for kind in [PING, SETTINGS] {
        let payload: &[u8] = if kind == PING { b"12345678" } else { &[] };
        let mut stream = TcpStream::connect(mesh.site(1).image).await.unwrap();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        let flood = frame(kind, 0, 0, payload).repeat(10_000);
        for _ in 0..200 {
            // Never reading: at some point the agent stops reading too, or hangs up.
            let written = stream.write_all(&flood);
            match tokio::time::timeout(Duration::from_millis(300), written).await {
                Ok(Ok(())) => (),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        assert_well(&mesh).await;
    }
}

#[tokio::test]
async fn a_crowd_that_says_nothing_or_little_leaves_room_for_others() {
    let (mesh, witness) = start().await;
    let mut crowd = Vec::new();
    for n in 0..2_000 {
        let mut stream = TcpStream::connect(mesh.site(1).image).await.unwrap();
        if n % 2 == 0 {
            stream
                .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
                .await
                .unwrap();
        }
        crowd.push(stream);
    }
    assert_well(&mesh).await;
    let good = "GET /good HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(
        statuses(&say(mesh.site(1).image, good.as_bytes()).await),
        [200]
    );
    assert_eq!(witness.requests(), 1);
    drop(crowd);
}

#[tokio::test]
async fn a_small_body_that_would_unpack_to_a_large_one_passes_as_it_is() {
    // Whoever unpacks it is the service's client or the service: an agent unpacks nothing.
    let mesh = Setup::of(1).start().await;
    let packed: Vec<u8> = [0x1f, 0x8b]
        .into_iter()
        .chain((0..2_000).map(|n| n as u8))
        .collect();
    let id = mesh.upload(1, "bomb", &packed).await;
    let path = format!("/images/{id}/file");
    let answer = get(mesh.site(1).image, &path, None).await;
    assert_eq!(answer.body, packed);
}
