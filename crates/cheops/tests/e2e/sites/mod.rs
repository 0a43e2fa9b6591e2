//! Marks, round trips and what operators decide, with real agents and delays between them.

mod clock;
mod decided;
mod replicas;
mod strange;
mod told;
mod tree;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::common::agent::{run, text};
use crate::common::client::{admin, ask};
use crate::common::eventually;
use crate::common::mesh::{Link, Mesh};
use crate::common::setup::Setup;

/// The admin API answers to this name alone.
const HOST: [(&str, &str); 1] = [("Host", "localhost")];

async fn rtt(mesh: &Mesh, at: usize, from: &str, to: &str) -> Value {
    let path = format!("/v1/rtt?from={from}&to={to}");
    admin(mesh.site(at).admin, &path).await.json()
}

async fn decide(mesh: &Mesh, at: usize, site: &str, verb: &str, body: Value) -> u16 {
    let path = format!("/v1/sites/{site}/{verb}");
    let body = body.to_string();
    let address = mesh.site(at).admin;
    ask(address, "POST", &path, &HOST, body.as_bytes())
        .await
        .status
}

async fn signal(mesh: &Mesh, number: usize, name: &str) {
    let id = mesh.agent(number).id().to_string();
    let sent = Command::new("kill").args([name, &id]).status().await;
    assert!(sent.unwrap().success());
}

#[tokio::test]
async fn round_trips_are_measured_and_those_of_others_are_estimated() {
    let mut setup = Setup::of(3);
    setup.delay = Duration::from_millis(75);
    let mesh = setup.start().await;
    let near = |found: &Value, within: f64| {
        found["ms"]
            .as_f64()
            .filter(|ms| (ms - 150.0).abs() <= within)
    };
    let measured = eventually("150 ms are measured within 10 %", || async {
        let found = rtt(&mesh, 1, "site1", "site2").await;
        near(&found, 15.0).map(|_| found)
    })
    .await;
    assert_eq!(measured["measured"], true, "{measured}");
    let estimated = eventually("a pair of others is known within 30 %", || async {
        let found = rtt(&mesh, 1, "site2", "site3").await;
        near(&found, 45.0).map(|_| found)
    })
    .await;
    assert!(estimated["error_ms"].is_number(), "{estimated}");
    let told = eventually("what others measured is told, within 10 %", || async {
        let found = rtt(&mesh, 1, "site2", "site3").await;
        near(&found, 15.0).filter(|_| found["measured"] == true)
    })
    .await;
    println!("measured {measured}, a pair of others {estimated}, then {told}");
    let address = mesh.site(1).admin.to_string();
    let output = run(&["rtt", "site2", "site3", "--admin", &address]).await;
    assert!(output.status.success());
    assert!(text(&output.stdout).ends_with("measured\n"), "{output:?}");
    // From another site's point of view, the third is within reach of `around`.
    let scope = json!({ "scope": "image: around(site2, 250ms)", "at": "site1" }).to_string();
    let explained = ask(
        mesh.site(1).admin,
        "POST",
        "/v1/scope/explain",
        &HOST,
        scope.as_bytes(),
    );
    let plan = explained.await.json()["services"]["image"]["plan"].clone();
    let sites = plan["first_of"].as_array().map(Vec::len);
    assert_eq!(sites, Some(3), "{plan}");
}

/// Both ways between two sites take that long, from now on.
fn set_delay(mesh: &Mesh, a: usize, b: usize, one_way_ms: u64) {
    let ends = [(a, b), (b, a)];
    let between = |link: &&Link| ends.contains(&(link.from, link.to));
    let delay = Duration::from_millis(one_way_ms);
    for link in mesh.links.iter().filter(between) {
        link.relay.set_delay(delay);
    }
}

#[tokio::test]
async fn round_trips_of_any_length_are_measured_and_followed_when_they_change() {
    let mesh = Setup::of(4).start().await;
    // From site1; then the nearest and the farthest change places.
    for one_way in [[40, 75, 150], [150, 75, 40]] {
        for (to, one_way_ms) in (2..).zip(one_way) {
            set_delay(&mesh, 1, to, one_way_ms);
        }
        for (to, one_way_ms) in (2..).zip(one_way) {
            let (name, true_ms) = (format!("site{to}"), 2.0 * one_way_ms as f64);
            let found = eventually("the round trip is measured within 10 %", || async {
                let found = rtt(&mesh, 1, "site1", &name).await;
                let ms = found["ms"].as_f64().filter(|_| found["measured"] == true)?;
                ((ms - true_ms).abs() <= true_ms / 10.0).then_some(ms)
            })
            .await;
            println!("{true_ms} ms to {name}: measured {found} ms");
        }
    }
}

#[tokio::test]
async fn an_agent_that_stands_still_is_autonomous_and_connected_again_afterwards() {
    let mesh = Setup::of(3).start().await;
    signal(&mesh, 2, "-STOP").await;
    let started = std::time::Instant::now();
    mesh.wait_mark(1, 2, "autonomous").await;
    mesh.wait_mark(3, 2, "autonomous").await;
    let took = started.elapsed();
    println!("autonomous elsewhere after {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    signal(&mesh, 2, "-CONT").await;
    mesh.wait_mark(1, 2, "connected").await;
    mesh.wait_mark(2, 3, "connected").await;
    let listed = admin(mesh.site(1).admin, "/v1/sites").await.json();
    assert_eq!(listed["items"][1]["reach"], "direct", "{listed}");
}

#[tokio::test]
async fn where_no_datagram_gets_through_links_carry_them() {
    let mut setup = Setup::of(3);
    setup.loss_ppm = 1_000_000;
    let mesh = setup.start().await;
    // Where sites lie, and what others measured, is told in datagrams alone.
    for (at, from, to) in [(1, "site2", "site3"), (3, "site1", "site2")] {
        eventually("a pair of others is known", || async {
            rtt(&mesh, at, from, to).await["ms"].as_f64()
        })
        .await;
    }
    let reach = |seen: Value| (seen["mark"].clone(), seen["reach"].clone());
    let seen = mesh.seen_from(1, 2).await.unwrap();
    assert_eq!(reach(seen), (json!("connected"), json!("direct")));
    signal(&mesh, 3, "-STOP").await;
    mesh.wait_mark(1, 3, "autonomous").await;
    signal(&mesh, 3, "-CONT").await;
    mesh.wait_mark(1, 3, "connected").await;
}
