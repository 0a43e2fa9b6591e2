//! Bounds of calls, per service and site: refused at once, with a word, and never at the cost of
//! what is local.

use crate::common::client::{Connection, get, raw, try_ask};
use crate::common::eventually;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

#[tokio::test]
async fn as_many_calls_as_allowed_and_the_next_is_told_to_wait() {
    let held = Stub::held().await;
    let mut setup = Setup::of(1).image_at(1, held.address);
    setup.image = "local = { concurrency = 2 }".to_owned();
    let mesh = setup.start().await;
    let address = mesh.site(1).image;
    let asked: Vec<_> = (0..2)
        .map(|_| tokio::spawn(async move { get(address, "/", None).await }))
        .collect();
    eventually("the service has both", || async {
        (held.seen() == 2).then_some(())
    })
    .await;
    let refused = get(address, "/", None).await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (503, "overloaded")
    );
    assert_eq!(refused.header("retry-after"), "1");
    let other = get(mesh.site(1).compute, "/servers", None).await;
    assert_eq!(other.status, 200, "another service has its own bound");
    held.release();
    held.release();
    for asked in asked {
        assert_eq!(asked.await.unwrap().status, 200);
    }
    held.release();
    assert_eq!(
        get(address, "/", None).await.status,
        200,
        "there is room again"
    );
}

#[tokio::test]
async fn a_service_that_gives_no_answer_is_left_alone_and_tried_again() {
    let dead = Stub::hanging_up().await;
    let mut setup = Setup::of(1).image_at(1, dead.address);
    setup.image = "local = { failures = 3, pause = \"1h\" }".to_owned();
    let mesh = setup.start().await;
    for _ in 0..3 {
        let answer = get(mesh.site(1).image, "/", None).await;
        assert_eq!(answer.problem(), "service-failed");
    }
    let answer = get(mesh.site(1).image, "/", None).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (503, "circuit-open")
    );
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((3500..=3600).contains(&wait), "{wait}");
    assert_eq!(dead.seen(), 3);
}

#[tokio::test]
async fn a_breaker_of_another_site_does_not_touch_what_is_local() {
    let dead = Stub::hanging_up().await;
    let mut setup = Setup::of(2).image_at(2, dead.address);
    setup.image = "remote = { failures = 3, pause = \"300ms\" }".to_owned();
    let mesh = setup.start().await;
    let address = mesh.site(1).image;
    let there = || get(address, "/images", Some("image: site2"));
    for _ in 0..3 {
        assert_eq!(there().await.problem(), "service-failed");
    }
    let refused = there().await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (503, "circuit-open")
    );
    assert_eq!(refused.json()["sites"][0], "site2");
    for scope in ["image: site1", "image: site2; site1"] {
        let answer = get(address, "/images", Some(scope)).await;
        assert_eq!(
            (answer.status, answer.served_by()),
            (200, "site1"),
            "{scope}"
        );
    }
    // After the pause one is let through, and meets what is there.
    eventually("the other site is tried again", || async {
        (there().await.problem() == "service-failed").then_some(())
    })
    .await;
    assert!(dead.seen() >= 4);
}

#[tokio::test]
async fn connecting_has_a_time_of_its_own() {
    // A listener whose queue is full takes no connection and says nothing.
    let full = tokio::net::TcpSocket::new_v4().unwrap();
    full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = full.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(tokio::spawn(tokio::net::TcpStream::connect(address)));
    }
    let mut setup = Setup::of(1).image_at(1, address);
    setup.image = "connect = \"200ms\"".to_owned();
    let mesh = setup.start().await;
    let answer = get(mesh.site(1).image, "/", None).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (502, "service-failed")
    );
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains("200ms") && detail.contains("`connect`"),
        "{detail}"
    );
}

#[tokio::test]
async fn so_many_clients_and_no_more_and_then_again() {
    let mut setup = Setup::of(1);
    setup.more = "[clients]\nconnections = 20\n".to_owned();
    let mesh = setup.start().await;
    let address = mesh.site(1).image;
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut connection = Connection::open(address).await;
        connection
            .head("GET /images HTTP/1.1", &[("Host", "a")])
            .await;
        assert_eq!(connection.answer("GET").await.unwrap().status, 200);
        held.push(connection);
    }
    let mut refused = Connection::open(address).await;
    assert_eq!(refused.answer_head().await.unwrap().status, 503);
    drop(held);
    eventually("there is room again", || async {
        let answer = try_ask(address, "GET", "/images", &[], b"").await;
        answer.ok().filter(|answer| answer.status == 200)
    })
    .await;
}

#[tokio::test]
async fn a_slow_head_and_an_idle_client_cost_their_connections() {
    let mut setup = Setup::of(1);
    setup.more = "[clients]\nidle = \"300ms\"\n".to_owned();
    let mesh = setup.start().await;
    for first in [
        &b"GET /images HTT"[..],
        b"GET /images HTTP/1.1\r\nHost: a\r\nX-Slow",
        b"",
        b"PRI * HTTP/2",
    ] {
        let mut slow = Connection::open(mesh.site(1).image).await;
        slow.write(first).await;
        assert!(
            slow.line().await.is_err(),
            "{}",
            String::from_utf8_lossy(first)
        );
    }
    let mut idle = Connection::open(mesh.site(1).image).await;
    idle.head("GET /images HTTP/1.1", &[("Host", "a")]).await;
    assert_eq!(idle.answer("GET").await.unwrap().status, 200);
    assert!(idle.line().await.is_err(), "nothing was asked for too long");
    assert_eq!(
        raw(
            mesh.site(1).image,
            b"GET /images HTTP/1.1\r\nHost: a\r\n\r\n"
        )
        .await
        .status,
        200
    );
}
