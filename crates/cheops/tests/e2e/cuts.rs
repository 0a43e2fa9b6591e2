//! A site is cut off: what is local goes on, what is not is answered truthfully and in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::client::{Answer, Connection, ask, get};
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::common::stub::Stub;
use crate::common::{PATIENCE, eventually};

/// A cut not yet known is answered within 2 s; the rest is for a busy machine.
const CUT_KNOWN_MAX: Duration = Duration::from_millis(3_500);

/// A cut that is known is answered within 0.5 s; the rest is for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Three sites, where the image service of site2 answers only when told to.
async fn with_held_image() -> (Mesh, Stub) {
    let held = Stub::held().await;
    let mesh = Setup::of(3).image_at(2, held.address).start().await;
    (mesh, held)
}

/// Sends a request to site2 by site1, cuts site2 while it is outstanding, and tells the answer
/// and how long it took from the cut on.
async fn cut_while_waiting(mesh: &Mesh, held: &Stub, method: &'static str) -> (Answer, Duration) {
    let address = mesh.site(1).image;
    let scope = [("X-Scope", "image: site2")];
    let asked = tokio::spawn(async move { ask(address, method, "/images", &scope, b"").await });
    eventually("the service has the request", || async {
        (held.seen() == 1).then_some(())
    })
    .await;
    mesh.cut(2);
    let cut_at = Instant::now();
    (asked.await.unwrap(), cut_at.elapsed())
}

#[tokio::test]
async fn a_read_under_way_when_the_site_is_cut_is_503_in_time() {
    let (mesh, held) = with_held_image().await;
    let (answer, took) = cut_while_waiting(&mesh, &held, "GET").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.problem(), "site-unreachable");
    assert_eq!(answer.json()["sites"], serde_json::json!(["site2"]));
    assert_ne!(answer.header("retry-after"), "");
    assert!(took < CUT_KNOWN_MAX, "{took:?}");
    println!("outstanding GET answered {took:?} after the cut");
}

#[tokio::test]
async fn a_write_under_way_when_the_site_is_cut_is_504_in_time() {
    let (mesh, held) = with_held_image().await;
    let (answer, took) = cut_while_waiting(&mesh, &held, "POST").await;
    assert_eq!(answer.status, 504, "{answer:?}");
    assert_eq!(answer.problem(), "outcome-unknown");
    assert_eq!(answer.json()["sites"], serde_json::json!(["site2"]));
    assert!(took < CUT_KNOWN_MAX, "{took:?}");
    println!("outstanding POST answered {took:?} after the cut");
    assert_eq!(held.seen(), 1, "it was not sent again");
}

#[tokio::test]
async fn a_request_right_after_the_cut_is_answered_in_time_and_later_ones_at_once() {
    let mesh = Setup::of(3).start().await;
    let service = mesh.site(1).image;
    assert_eq!(
        get(service, "/images", Some("image: site2")).await.status,
        200
    );
    mesh.cut(2);
    let started = Instant::now();
    let answer = get(service, "/images", Some("image: site2")).await;
    let took = started.elapsed();
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (503, "site-unreachable")
    );
    assert!(took < CUT_KNOWN_MAX, "{took:?}");
    mesh.wait_mark(1, 2, "autonomous").await;
    for method in ["GET", "POST", "DELETE"] {
        let started = Instant::now();
        let answer = ask(
            service,
            method,
            "/images",
            &[("X-Scope", "image: site2")],
            b"",
        )
        .await;
        let took = started.elapsed();
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (503, "site-unreachable")
        );
        assert!(took < AT_ONCE, "{method}: {took:?}");
        println!("{method} to a site known to be cut answered in {took:?}");
    }
}

#[tokio::test]
async fn a_workflow_into_the_cut_fails_and_says_why_and_works_again_when_healed() {
    let mesh = Setup::of(3).start().await;
    let id = mesh.upload(2, "far", b"x").await;
    let scope = [("X-Scope", "compute: site1, image: site2")];
    assert_eq!(mesh.boot(1, &id, &scope).await.status, 201);
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let answer = mesh.boot(1, &id, &scope).await;
    assert_eq!(answer.status, 424);
    assert!(
        answer.json().to_string().contains("site-unreachable"),
        "{answer:?}"
    );
    mesh.heal(2);
    let healed_at = Instant::now();
    eventually("the site is found again", || async {
        (mesh.boot(1, &id, &scope).await.status == 201).then_some(())
    })
    .await;
    let took = healed_at.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    println!("back in use {took:?} after the heal");
}

#[tokio::test]
async fn local_requests_see_no_error_across_a_cut_and_a_heal() {
    let mesh = Setup::of(3).start().await;
    let id = mesh.upload(1, "near", b"x").await;
    let (address, path) = (mesh.site(1).image, format!("/images/{id}/file"));
    let stop = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicUsize::new(0));
    let (stopped, count) = (stop.clone(), served.clone());
    let loop_of_requests = tokio::spawn(async move {
        let mut slowest = Duration::ZERO;
        while !stopped.load(Ordering::Relaxed) {
            for scope in [
                None,
                Some("image: site1"),
                Some("image: here"),
                Some("image: site1; site2"),
            ] {
                let started = Instant::now();
                let answer = get(address, &path, scope).await;
                slowest = slowest.max(started.elapsed());
                assert_eq!(
                    (answer.status, answer.served_by()),
                    (200, "site1"),
                    "{answer:?}"
                );
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        slowest
    });
    let some_more = |wanted: usize| {
        let (served, from) = (served.clone(), served.load(Ordering::Relaxed));
        async move {
            eventually("requests go on", || async {
                (served.load(Ordering::Relaxed) >= from + wanted).then_some(())
            })
            .await;
        }
    };
    some_more(20).await;
    mesh.cut(2);
    // Requests to the site that is cut stand beside them all the while.
    let far = get(address, "/images", Some("image: site2")).await;
    assert_eq!(far.status, 503);
    mesh.wait_mark(1, 2, "autonomous").await;
    some_more(20).await;
    mesh.heal(2);
    mesh.wait_mark(1, 2, "connected").await;
    some_more(20).await;
    stop.store(true, Ordering::Relaxed);
    let slowest = loop_of_requests.await.unwrap();
    assert!(slowest < AT_ONCE, "{slowest:?}");
}

#[tokio::test]
async fn a_download_across_a_cut_breaks_off_and_does_not_hang() {
    let mesh = Setup::of(2).start().await;
    let id = mesh.upload(2, "large", &vec![7; 32 << 20]).await;
    let mut connection = Connection::open(mesh.site(1).image).await;
    let headers = [("Host", "a"), ("X-Scope", "image: site2")];
    connection
        .head(&format!("GET /images/{id}/file HTTP/1.1"), &headers)
        .await;
    let head = connection.answer_head().await.unwrap();
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, "33554432")
    );
    connection.exactly(1 << 20).await.unwrap();
    mesh.cut(2);
    let rest = tokio::time::timeout(PATIENCE, connection.exactly(31 << 20)).await;
    assert!(rest.expect("it ends").is_err(), "half a file is not a file");
}

#[tokio::test]
async fn a_slow_service_is_not_taken_for_a_cut() {
    let (mesh, held) = with_held_image().await;
    let address = mesh.site(1).image;
    let asked = tokio::spawn(async move { get(address, "/", Some("image: site2")).await });
    eventually("the service has the request", || async {
        (held.seen() == 1).then_some(())
    })
    .await;
    // Longer than a cut takes to be seen.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(!asked.is_finished());
    held.release();
    let answer = asked.await.unwrap();
    assert_eq!((answer.status, answer.served_by()), (200, "site2"));
}
