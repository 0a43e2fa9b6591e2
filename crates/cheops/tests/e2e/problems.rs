//! Answers of the agent itself: every problem that can be met now has its word and its status.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::client::{Connection, ask, get, raw};
use crate::common::ports;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

#[tokio::test]
async fn a_bad_scope_is_400_and_nothing_is_forwarded() {
    let mesh = Setup::of(2).start().await;
    let service = mesh.site(1).image;
    let deep = format!("image: {}site1{}", "(".repeat(33), ")".repeat(33));
    let bindings: Vec<_> = (0..65).map(|n| format!("s{n}: site1")).collect();
    let long = format!("image: {}", "site1; ".repeat(700));
    for (scope, code) in [
        ("image", "syntax"),
        ("", "syntax"),
        ("image: site1 &", "syntax"),
        ("image: site9", "unknown-site"),
        ("compute: site9", "unknown-site"),
        ("volume: site1", "unknown-service"),
        ("image: near(site1)", "unknown-function"),
        ("image: site1, glance: site2", "duplicate-service"),
        ("image: around(site1, 10)", "bad-argument"),
        ("image: around(site1)", "missing-argument"),
        ("image: all(region=east)", "no-match"),
        (&long, "too-long"),
        (&deep, "too-deep"),
        (&bindings.join(","), "too-many-bindings"),
    ] {
        let answer = get(service, "/images", Some(scope)).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (400, code),
            "{scope}"
        );
        let body = answer.json();
        assert!(body["position"]["start"].is_u64() && body["position"]["end"].is_u64());
        assert!(body["expected"].is_array());
        assert!(body.as_object().unwrap().contains_key("suggestion"));
    }
    let seen = get(mesh.site(1).image_service, "/debug/seen", None)
        .await
        .json();
    assert_eq!(seen, json!({ "seen": [] }), "nothing was forwarded");
}

#[tokio::test]
async fn a_bad_scope_is_told_with_place_choice_and_suggestion() {
    let mesh = Setup::of(2).start().await;
    let scope = Some("compute: site1, image: site4");
    let body = get(mesh.site(1).image, "/images", scope).await.json();
    assert_eq!(body["position"], json!({ "start": 23, "end": 28 }));
    assert_eq!(body["expected"], json!(["site1", "site2"]));
    assert_eq!(body["suggestion"], "site1");
}

#[tokio::test]
async fn a_scope_that_is_no_text_or_given_twice_is_400() {
    let mesh = Setup::of(1).start().await;
    let service = mesh.site(1).image;
    let head = b"GET /images HTTP/1.1\r\nHost: a\r\nX-Scope: image: \xff\xfe\r\n\r\n";
    let answer = raw(service, head).await;
    assert_eq!((answer.status, answer.problem().as_str()), (400, "syntax"));
    for other in ["image: site1", "compute: site1"] {
        let headers = [("X-Scope", "image: site1"), ("x-scope", other)];
        let answer = ask(service, "GET", "/images", &headers, b"").await;
        assert_eq!((answer.status, answer.problem().as_str()), (400, "syntax"));
    }
}

#[tokio::test]
async fn plans_that_are_not_built_yet_are_501() {
    let mesh = Setup::of(2).start().await;
    for plan in [
        "site1 + site2",
        "none(site2)",
        "strong(site1 & site2)",
        "replicas(1, site1 & site2)",
        "(site1 & site2); site1",
    ] {
        let scope = format!("image: {plan}");
        let answer = get(mesh.site(1).image, "/images", Some(&scope)).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (501, "not-implemented"),
            "{plan}"
        );
    }
}

#[tokio::test]
async fn a_service_that_a_site_does_not_run_is_400() {
    let mut setup = Setup::of(2);
    setup.no_image_at = vec![2];
    let mesh = setup.start().await;
    let answer = get(mesh.site(1).image, "/images", Some("image: site2")).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (400, "service-not-at-site")
    );
    assert_eq!(answer.json()["sites"], json!(["site2"]));
}

#[tokio::test]
async fn a_service_that_is_down_or_hangs_up_is_502_and_a_lost_write_is_504() {
    let (down, rude) = (ports::free(), Stub::hanging_up().await);
    let mesh = Setup::of(2)
        .image_at(1, down)
        .image_at(2, rude.address)
        .start()
        .await;
    for entry in [1, 2] {
        for (scope, method, status, code) in [
            ("image: site1", "GET", 502, "service-failed"),
            ("image: site1", "POST", 502, "service-failed"),
            ("image: site2", "GET", 502, "service-failed"),
            ("image: site2", "POST", 504, "outcome-unknown"),
        ] {
            let headers = [("X-Scope", scope)];
            let answer = ask(mesh.site(entry).image, method, "/images", &headers, b"").await;
            let told = format!("{method} {scope} at site{entry}: {answer:?}");
            assert_eq!(
                (answer.status, answer.problem().as_str()),
                (status, code),
                "{told}"
            );
            assert_eq!(answer.json()["sites"], json!([&scope[7..]]));
        }
    }
}

#[tokio::test]
async fn a_service_that_never_answers_is_504_at_its_deadline() {
    let silent = Stub::silent().await;
    let mut setup = Setup::of(2).image_at(2, silent.address);
    setup.image = "deadline = \"1s\"".to_owned();
    let mesh = setup.start().await;
    for entry in [1, 2] {
        let started = Instant::now();
        let answer = get(mesh.site(entry).image, "/images", Some("image: site2")).await;
        let took = started.elapsed();
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (504, "outcome-unknown")
        );
        assert!(
            took > Duration::from_millis(900) && took < Duration::from_secs(5),
            "{took:?}"
        );
    }
}

#[tokio::test]
async fn the_clock_of_the_service_does_not_run_while_the_client_is_slow() {
    let mut setup = Setup::of(2);
    setup.image = "deadline = \"1s\"".to_owned();
    let mesh = setup.start().await;
    let id = mesh.upload(2, "slow", b"").await;
    let mut connection = Connection::open(mesh.site(1).image).await;
    let headers = [
        ("Host", "a"),
        ("X-Scope", "image: site2"),
        ("Content-Length", "8"),
    ];
    connection
        .head(&format!("PUT /images/{id}/file HTTP/1.1"), &headers)
        .await;
    for _ in 0..8 {
        connection.write(b"x").await;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let answer = connection.answer("PUT").await.unwrap();
    assert_eq!(answer.status, 204, "{answer:?}");
}
