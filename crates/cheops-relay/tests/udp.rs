//! Datagrams over a link, between real sockets.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::net::SocketAddr;
use std::time::Duration;

use cheops_relay::{Direction, Relay, Shape};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

const DELAY: Duration = Duration::from_millis(25);
const WHILE: Duration = Duration::from_secs(10);

/// A link, a socket that sends over it, and the target.
async fn start(shape: Shape) -> (Relay, UdpSocket, UdpSocket) {
    let target = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let relay = Relay::start(target.local_addr().unwrap(), shape).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(relay.address()).await.unwrap();
    (relay, client, target)
}

async fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2048];
    let (bytes, sender) = socket.recv_from(&mut buffer).await.unwrap();
    (buffer[..bytes].to_vec(), sender)
}

#[tokio::test]
async fn an_echo_takes_a_round_trip() {
    let (_relay, client, target) = start(Shape::with_delay(DELAY)).await;
    let begun_at = Instant::now();
    client.send(b"question").await.unwrap();
    let (question, sender) = receive(&target).await;
    assert_eq!(question, b"question");
    assert!(begun_at.elapsed() >= DELAY);
    target.send_to(b"answer", sender).await.unwrap();
    assert_eq!(receive(&client).await.0, b"answer");
    assert!(begun_at.elapsed() >= 2 * DELAY);
}

#[tokio::test]
async fn answers_find_back_to_their_sender() {
    let (relay, first, target) = start(Shape::default()).await;
    let second = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    second.connect(relay.address()).await.unwrap();
    for (client, text) in [(&first, b"1"), (&second, b"2")] {
        client.send(text).await.unwrap();
    }
    for _ in 0..2 {
        let (text, sender) = receive(&target).await;
        target.send_to(&text, sender).await.unwrap();
    }
    assert_eq!(receive(&first).await.0, b"1");
    assert_eq!(receive(&second).await.0, b"2");
}

#[tokio::test(start_paused = true)]
async fn a_cut_loses_datagrams_and_healing_brings_none_back() {
    let (relay, client, target) = start(Shape::with_delay(DELAY)).await;
    relay.cut();
    client.send(b"lost").await.unwrap();
    assert!(timeout(WHILE, receive(&target)).await.is_err());
    relay.heal().unwrap();
    client.send(b"kept").await.unwrap();
    assert_eq!(receive(&target).await.0, b"kept");
}

#[tokio::test(start_paused = true)]
async fn one_way_can_be_cut_alone() {
    let (relay, client, target) = start(Shape::with_delay(DELAY)).await;
    relay.cut_one_way(Direction::FromTarget);
    client.send(b"question").await.unwrap();
    let (_, sender) = receive(&target).await;
    target.send_to(b"lost", sender).await.unwrap();
    assert!(timeout(WHILE, receive(&client)).await.is_err());
    relay.heal().unwrap();
    target.send_to(b"kept", sender).await.unwrap();
    assert_eq!(receive(&client).await.0, b"kept");
}

#[tokio::test(start_paused = true)]
async fn a_link_may_lose_everything() {
    let shape = Shape {
        loss_ppm: 1_000_000,
        ..Shape::default()
    };
    let (_relay, client, target) = start(shape).await;
    for _ in 0..20 {
        client.send(b"lost").await.unwrap();
    }
    assert!(timeout(WHILE, receive(&target)).await.is_err());
}

#[tokio::test]
async fn an_absent_target_does_not_end_the_conversation() {
    let (mut relay, mut client, mut target) = start(Shape::default()).await;
    let target = loop {
        drop(target);
        client.send(b"lost").await.unwrap();
        match UdpSocket::bind(relay.target()).await {
            Ok(target) => break target,
            // Another test was quicker to take the port.
            Err(_) => (relay, client, target) = start(Shape::default()).await,
        }
    };
    // How many are lost before the target is there again is open; one comes through in the end.
    loop {
        client.send(b"again").await.unwrap();
        if timeout(DELAY, receive(&target)).await.is_ok() {
            return;
        }
    }
}
