//! An agent that ends in any way starts again from what it left; one that starts alone serves.

use std::time::{Duration, Instant};

use crate::common::client::{ask, get};
use crate::common::eventually;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

#[tokio::test]
async fn an_agent_killed_and_started_again_is_found_again() {
    let mut mesh = Setup::of(2).start().await;
    let service = mesh.site(1).image;
    assert_eq!(
        get(service, "/images", Some("image: site2")).await.status,
        200
    );
    mesh.take_agent(2).kill().await;
    let answer = get(service, "/images", Some("image: site2")).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (503, "site-unreachable")
    );
    mesh.wait_mark(1, 2, "autonomous").await;
    mesh.restart(2).await;
    eventually("the site is found again", || async {
        let answer = get(service, "/images", Some("image: site2")).await;
        (answer.status == 200).then_some(())
    })
    .await;
    mesh.wait_mark(2, 1, "connected").await;
    let answer = get(mesh.site(2).image, "/images", Some("image: site1")).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site1"));
}

#[tokio::test]
async fn a_write_under_way_when_the_other_agent_is_killed_is_504() {
    let held = Stub::held().await;
    let mut mesh = Setup::of(2).image_at(2, held.address).start().await;
    let address = mesh.site(1).image;
    let scope = [("X-Scope", "image: site2")];
    let asked = tokio::spawn(async move { ask(address, "POST", "/", &scope, b"x").await });
    eventually("the service has the request", || async {
        (held.seen() == 1).then_some(())
    })
    .await;
    mesh.take_agent(2).kill().await;
    let answer = asked.await.unwrap();
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (504, "outcome-unknown")
    );
}

#[tokio::test]
async fn an_agent_started_again_with_no_peer_in_reach_still_knows_the_sites() {
    let mut mesh = Setup::of(3).start().await;
    // What sites say is saved beside what is going on, not before.
    let saved = mesh.path().join("data-site1").join("sites.json");
    eventually("both are saved", async || {
        let text = std::fs::read_to_string(&saved).unwrap_or_default();
        (text.matches("\"number\"").count() >= 2).then_some(())
    })
    .await;
    for site in [1, 2, 3] {
        mesh.take_agent(site).kill().await;
    }
    let started = Instant::now();
    mesh.restart(1).await;
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "ready with no peer"
    );
    let admin = mesh.site(1).admin;
    assert_eq!(
        mesh.agent(1).ready,
        format!("ready site=site1 admin={admin}")
    );
    for site in [2, 3] {
        let seen = mesh.seen_from(1, site).await.expect("it is known");
        assert_eq!(seen["mark"], "autonomous");
        assert_eq!(seen["last_heard_ms"], serde_json::Value::Null);
        assert_eq!(seen["labels"]["number"], site.to_string());
    }
    let service = mesh.site(1).image;
    let answer = get(service, "/images", Some("image: site2")).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (503, "site-unreachable")
    );
    let answer = get(service, "/images", Some("image: site2; site1")).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    let answer = get(service, "/images", None).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    let answer = get(service, "/images", Some("image: site4")).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (400, "unknown-site")
    );
}

#[tokio::test]
async fn an_agent_that_never_met_anybody_is_ready_and_serves() {
    let mut mesh = Setup::of(2).start_agents().await;
    mesh.take_agent(2).kill().await;
    mesh.take_agent(1).kill().await;
    std::fs::remove_dir_all(mesh.path().join("data-site1")).unwrap();
    let started = Instant::now();
    mesh.restart(1).await;
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "ready with no peer"
    );
    let answer = get(mesh.site(1).image, "/images", None).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    let answer = get(mesh.site(1).image, "/images", Some("image: here")).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    let answer = get(mesh.site(1).image, "/images", Some("image: site2")).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (400, "unknown-site")
    );
}

#[tokio::test]
async fn what_was_left_half_written_is_moved_aside() {
    let mut mesh = Setup::of(2).start().await;
    mesh.take_agent(1).kill().await;
    let file = mesh.path().join("data-site1/sites.json");
    let text = std::fs::read(&file).unwrap();
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    mesh.restart(1).await;
    mesh.wait_mark(1, 2, "connected").await;
    assert!(mesh.path().join("data-site1/sites.json.corrupt-1").exists());
}
