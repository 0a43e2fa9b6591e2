//! Streams over a link, between real sockets.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use cheops_relay::{Direction, Relay, Shape};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

const MINUTE: Duration = Duration::from_secs(60);
const DELAY: Duration = Duration::from_millis(25);

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A link with a listener at its end.
async fn start(shape: Shape) -> (Relay, TcpListener) {
    let (listener, target) = listen().await;
    (Relay::start(target, shape).unwrap(), listener)
}

/// A stream over a link, both ends of it.
async fn connect(relay: &Relay, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(relay.address()).await.unwrap();
    let (target, _) = listener.accept().await.unwrap();
    (client, target)
}

#[tokio::test]
async fn an_echo_takes_a_round_trip() {
    let (relay, listener) = start(Shape::with_delay(DELAY)).await;
    let begun_at = Instant::now();
    let (mut client, mut target) = connect(&relay, &listener).await;
    assert!(
        begun_at.elapsed() >= 2 * DELAY,
        "a handshake is a round trip"
    );
    let begun_at = Instant::now();
    client.write_u8(1).await.unwrap();
    let heard = target.read_u8().await.unwrap();
    assert!(begun_at.elapsed() >= DELAY);
    target.write_u8(heard).await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), 1);
    assert!(begun_at.elapsed() >= 2 * DELAY);
}

#[tokio::test]
async fn cut_and_healed_a_stream_loses_nothing() {
    let (relay, listener) = start(Shape::with_delay(Duration::from_millis(2))).await;
    let (mut client, mut target) = connect(&relay, &listener).await;
    let content: Vec<u8> = (0..24u32 << 20).map(|n| (n % 251) as u8).collect();
    let expected = content.clone();
    let sending = tokio::spawn(async move {
        client.write_all(&content).await.unwrap();
        client.shutdown().await.unwrap();
        client
    });
    let mut received = vec![0; 1 << 20];
    for _ in 0..5 {
        // Whatever is on its way at this moment meets the cut.
        target.read_exact(&mut received[..1 << 20]).await.unwrap();
        relay.cut();
        tokio::task::yield_now().await;
        relay.heal().unwrap();
    }
    let mut rest = Vec::new();
    target.read_to_end(&mut rest).await.unwrap();
    assert!(rest == expected[5 << 20..]);
    sending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cut_is_silent() {
    let (relay, listener) = start(Shape::with_delay(DELAY)).await;
    let (mut client, mut target) = connect(&relay, &listener).await;
    relay.cut();
    client.write_u8(1).await.unwrap();
    target.write_u8(2).await.unwrap();
    assert!(timeout(MINUTE, client.read_u8()).await.is_err());
    assert!(timeout(MINUTE, target.read_u8()).await.is_err());
    // A new stream is accepted by the kernel, and gets no further.
    let mut late = TcpStream::connect(relay.address()).await.unwrap();
    late.write_u8(3).await.unwrap();
    assert!(timeout(MINUTE, listener.accept()).await.is_err());
    assert!(timeout(MINUTE, late.read_u8()).await.is_err());

    relay.heal().unwrap();
    assert_eq!(target.read_u8().await.unwrap(), 1);
    assert_eq!(client.read_u8().await.unwrap(), 2);
    let (mut accepted, _) = listener.accept().await.unwrap();
    assert_eq!(accepted.read_u8().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn who_gave_up_over_a_cut_never_connected() {
    let (relay, listener) = start(Shape::with_delay(DELAY)).await;
    relay.cut();
    let mut gone = TcpStream::connect(relay.address()).await.unwrap();
    gone.write_u8(1).await.unwrap();
    drop(gone);
    assert!(timeout(MINUTE, listener.accept()).await.is_err());
    relay.heal().unwrap();
    assert!(timeout(MINUTE, listener.accept()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_end_over_a_cut_arrives_when_it_healed() {
    let (relay, listener) = start(Shape::with_delay(DELAY)).await;
    let (mut client, mut target) = connect(&relay, &listener).await;
    relay.cut();
    client.write_u8(1).await.unwrap();
    drop(client);
    assert!(timeout(MINUTE, target.read_u8()).await.is_err());
    relay.heal().unwrap();
    let mut received = Vec::new();
    target.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, [1]);
}

#[tokio::test(start_paused = true)]
async fn one_way_can_be_cut_alone() {
    let (relay, listener) = start(Shape::with_delay(DELAY)).await;
    let (mut client, mut target) = connect(&relay, &listener).await;
    relay.cut_one_way(Direction::FromTarget);
    client.write_u8(1).await.unwrap();
    assert_eq!(target.read_u8().await.unwrap(), 1);
    target.write_u8(2).await.unwrap();
    assert!(timeout(MINUTE, client.read_u8()).await.is_err());
    relay.heal().unwrap();
    assert_eq!(client.read_u8().await.unwrap(), 2);
}

#[tokio::test]
async fn refusing_resets_streams_and_healing_accepts_again() {
    let (relay, listener) = start(Shape::default()).await;
    let (mut client, mut target) = connect(&relay, &listener).await;
    relay.refuse();
    assert_eq!(
        client.read_u8().await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    assert_eq!(
        target.read_u8().await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    for _ in 0..3 {
        let refused = TcpStream::connect(relay.address()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
    relay.heal().unwrap();
    let (mut client, mut target) = connect(&relay, &listener).await;
    client.write_u8(1).await.unwrap();
    assert_eq!(target.read_u8().await.unwrap(), 1);
}

#[tokio::test]
async fn refusing_for_an_instant_resets_all_the_same() {
    let (relay, listener) = start(Shape::default()).await;
    let (mut client, mut target) = connect(&relay, &listener).await;
    relay.refuse();
    relay.heal().unwrap();
    assert_eq!(
        client.read_u8().await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    assert_eq!(
        target.read_u8().await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn a_half_close_is_passed_on() {
    let (relay, listener) = start(Shape::with_delay(Duration::from_millis(2))).await;
    let (mut client, mut target) = connect(&relay, &listener).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut question = Vec::new();
    target.read_to_end(&mut question).await.unwrap();
    assert_eq!(question, b"question");
    target.write_all(b"answer").await.unwrap();
    drop(target);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
}

#[tokio::test]
async fn a_reset_is_passed_on() {
    let (relay, listener) = start(Shape::with_delay(Duration::from_millis(2))).await;
    let (mut client, target) = connect(&relay, &listener).await;
    target.set_zero_linger().unwrap();
    drop(target);
    assert_eq!(
        client.read_u8().await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn a_target_that_refuses_shows_as_a_reset() {
    let (listener, target) = listen().await;
    drop(listener);
    let relay = Relay::start(target, Shape::default()).unwrap();
    let mut client = TcpStream::connect(relay.address()).await.unwrap();
    assert_eq!(
        client.read_u8().await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn much_crosses_in_both_directions_at_once() {
    let (relay, listener) = start(Shape::with_delay(DELAY)).await;
    let (mut client, mut target) = connect(&relay, &listener).await;
    let echo = tokio::spawn(async move {
        let (mut reads, mut writes) = target.split();
        tokio::io::copy(&mut reads, &mut writes).await.unwrap()
    });
    let bytes = 50 << 20;
    let (mut reads, mut writes) = client.split();
    let sending = async {
        let chunk = vec![7; 1 << 20];
        for _ in 0..bytes / chunk.len() {
            writes.write_all(&chunk).await.unwrap();
        }
        writes.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, read) = tokio::join!(sending, reads.read_to_end(&mut received));
    assert_eq!(read.unwrap(), bytes);
    assert!(received.iter().all(|byte| *byte == 7));
    assert_eq!(echo.await.unwrap(), bytes as u64);
}

#[tokio::test]
async fn a_taken_address_is_an_error_and_dropping_ends_the_streams() {
    let (relay, listener) = start(Shape::default()).await;
    let (mut client, _target) = connect(&relay, &listener).await;
    let (address, target) = (relay.address(), relay.target());
    assert!(Relay::start_at(address, target, Shape::default()).is_err());
    drop(relay);
    assert!(client.read_u8().await.is_err());
}
