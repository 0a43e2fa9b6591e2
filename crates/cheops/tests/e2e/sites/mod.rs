//! Marks, round trips and what operators decide, with real agents and delays between them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::process::Command;

use crate::common::agent::{run, text};
use crate::common::client::{admin, ask, get};
use crate::common::eventually;
use crate::common::mesh::Mesh;
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
    setup.delay = Duration::from_millis(40);
    let mesh = setup.start().await;
    let near = |found: &Value, within: f64| {
        found["ms"]
            .as_f64()
            .filter(|ms| (ms - 80.0).abs() <= within)
    };
    let measured = eventually("80 ms are measured within 10 %", || async {
        let found = rtt(&mesh, 1, "site1", "site2").await;
        near(&found, 8.0).map(|_| found)
    })
    .await;
    assert_eq!(measured["measured"], true, "{measured}");
    let estimated = eventually("a pair of others is estimated", || async {
        let found = rtt(&mesh, 1, "site2", "site3").await;
        near(&found, 24.0).map(|_| found)
    })
    .await;
    assert_eq!(estimated["measured"], false, "{estimated}");
    assert!(estimated["error_ms"].is_number(), "{estimated}");
    println!("measured {measured}, estimated {estimated}");
    let address = mesh.site(1).admin.to_string();
    let output = run(&["rtt", "site2", "site3", "--admin", &address]).await;
    assert!(output.status.success());
    assert!(text(&output.stdout).ends_with("estimated\n"));
    // From another site's point of view, the third is within reach of `around`.
    let scope = json!({ "scope": "image: around(site2, 150ms)", "at": "site1" }).to_string();
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

#[tokio::test]
async fn an_agent_that_stands_still_is_autonomous_and_connected_again_afterwards() {
    let mesh = Setup::of(3).start().await;
    signal(&mesh, 2, "-STOP").await;
    let started = std::time::Instant::now();
    mesh.wait_mark(1, 2, "autonomous").await;
    mesh.wait_mark(3, 2, "autonomous").await;
    let took = started.elapsed();
    println!("autonomous elsewhere after {took:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    signal(&mesh, 2, "-CONT").await;
    mesh.wait_mark(1, 2, "connected").await;
    mesh.wait_mark(2, 3, "connected").await;
    let listed = admin(mesh.site(1).admin, "/v1/sites").await.json();
    assert_eq!(listed["items"][1]["reach"], "direct", "{listed}");
}

#[tokio::test]
async fn a_fenced_site_stays_out_everywhere_until_it_is_attached() {
    let mut mesh = Setup::of(3).start().await;
    assert_eq!(decide(&mesh, 1, "site3", "fence", json!({})).await, 200);
    mesh.wait_mark(1, 3, "fenced").await;
    mesh.wait_mark(2, 3, "fenced").await;
    let refused = get(mesh.site(2).image, "/images", Some("image: site3")).await;
    assert_eq!(refused.problem(), "site-unreachable");
    eventually("the fenced site reaches nobody", || async {
        let answer = get(mesh.site(3).image, "/images", Some("image: site1")).await;
        (answer.status != 200).then_some(())
    })
    .await;
    assert_eq!(get(mesh.site(3).image, "/images", None).await.status, 200);
    // It is remembered, and the site that comes back is told so.
    mesh.take_agent(1).kill().await;
    mesh.restart(1).await;
    mesh.take_agent(3).kill().await;
    mesh.restart(3).await;
    mesh.wait_mark(1, 3, "fenced").await;
    eventually("the site is told that it is fenced", || async {
        mesh.agent(3)
            .log()
            .contains("this site was fenced")
            .then_some(())
    })
    .await;
    assert_eq!(decide(&mesh, 2, "site3", "attach", json!({})).await, 200);
    mesh.wait_mark(1, 3, "connected").await;
    mesh.wait_mark(2, 3, "connected").await;
    mesh.wait_mark(3, 1, "connected").await;
}

#[tokio::test]
async fn removing_takes_a_majority_and_takes_the_name_away() {
    let mesh = Setup::of(3).start().await;
    mesh.cut(1);
    mesh.wait_mark(1, 2, "autonomous").await;
    mesh.wait_mark(1, 3, "autonomous").await;
    assert_eq!(decide(&mesh, 1, "site3", "remove", json!({})).await, 409);
    mesh.heal(1);
    mesh.wait_mark(1, 2, "connected").await;
    assert_eq!(decide(&mesh, 1, "site3", "remove", json!({})).await, 200);
    eventually("it is gone everywhere", || async {
        let gone = mesh.seen_from(2, 3).await.is_none() && mesh.seen_from(1, 3).await.is_none();
        gone.then_some(())
    })
    .await;
    let refused = get(mesh.site(1).image, "/images", Some("image: site3")).await;
    assert_eq!(refused.problem(), "unknown-site");
    assert_eq!(decide(&mesh, 1, "site3", "attach", json!({})).await, 200);
    mesh.wait_mark(1, 3, "connected").await;
}

#[tokio::test]
async fn a_held_site_takes_no_changes_from_elsewhere() {
    let mesh = Setup::of(2).start().await;
    assert_eq!(
        decide(&mesh, 1, "site2", "hold", json!({})).await,
        409,
        "not its own agent"
    );
    let address = mesh.site(2).admin.to_string();
    let output = run(&["site", "hold", "site2", "--admin", &address]).await;
    assert!(output.status.success(), "{output:?}");
    let scope = [("X-Scope", "image: site2")];
    let body = br#"{"name":"x"}"#;
    let far = ask(mesh.site(1).image, "POST", "/images", &scope, body).await;
    assert_eq!(
        (far.status, far.problem().as_str()),
        (403, "forbidden-by-policy")
    );
    let read = get(mesh.site(1).image, "/images", Some("image: site2")).await;
    assert_eq!(read.status, 200);
    let own = ask(mesh.site(2).image, "POST", "/images", &[], body).await;
    assert_eq!(own.status, 201);
    assert_eq!(decide(&mesh, 2, "site2", "release", json!({})).await, 200);
    let far = ask(mesh.site(1).image, "POST", "/images", &scope, body).await;
    assert_eq!(far.status, 201);
}

#[tokio::test]
async fn what_nobody_of_the_mesh_sent_is_refused_and_said_once() {
    let mesh = Setup::of(2).start().await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = mesh.site(1).mesh;
    for _ in 0..50 {
        for length in [0, 1, 16, 32, 33, 200, 1400, 1500, 9000] {
            socket.send_to(&vec![7; length], to).await.unwrap();
        }
    }
    eventually("the refusals are in the log", || async {
        let log = mesh.agent(1).log();
        let said = |why: &str| log.matches(why).count() == 1;
        (said("not sealed with this mesh's key") && said("too short to be a datagram"))
            .then_some(())
    })
    .await;
    let log = mesh.agent(1).log();
    assert!(log.matches("a datagram was refused").count() <= 4, "{log}");
    assert_eq!(mesh.seen_from(1, 2).await.unwrap()["mark"], "connected");
    assert_eq!(mesh.seen_from(2, 1).await.unwrap()["mark"], "connected");
}

#[tokio::test]
async fn in_a_tree_operations_go_down_hop_by_hop_and_reports_go_up() {
    let mut setup = Setup::of(7);
    setup.parents = vec![(2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)];
    let mesh = setup.start().await;
    let image = |site: usize| mesh.site(site).image;
    let list = |from: usize, to: &'static str| get(image(from), "/images", Some(to));
    for (from, to) in [
        (1, "image: site2"),
        (1, "image: site7"),
        (2, "image: site4"),
    ] {
        assert_eq!(list(from, to).await.status, 200, "site{from} to {to}");
    }
    for (from, to) in [
        (2, "image: site1"),
        (4, "image: site1"),
        (2, "image: site3"),
        (4, "image: site5"),
        (2, "image: site6"),
    ] {
        let refused = list(from, to).await;
        let found = (refused.status, refused.problem());
        assert_eq!(
            found,
            (403, "forbidden-by-topology".to_owned()),
            "site{from} to {to}"
        );
    }
    // No path of its own from the top to a leaf: its parent carries the request.
    let between =
        |link: &&crate::common::mesh::Link| [(1, 4), (4, 1)].contains(&(link.from, link.to));
    mesh.links
        .iter()
        .filter(between)
        .for_each(|link| link.relay.cut());
    let carried = eventually("the request goes by the parent", || async {
        let answer = list(1, "image: site4").await;
        let hops = answer.all("via").join(",").matches("site2").count();
        (answer.status == 200 && hops > 0).then_some(answer)
    })
    .await;
    assert_eq!(carried.served_by(), "site4");
    eventually("the top holds a report of every site", || async {
        let sites = admin(mesh.site(1).admin, "/v1/sites").await.json();
        let items = sites["items"].as_array()?;
        let told = |item: &&Value| item["report"]["age_ms"].is_u64();
        (items.iter().filter(told).count() == 7).then_some(())
    })
    .await;
    let address = mesh.site(1).admin.to_string();
    let output = run(&["site", "ls", "--tree", "--admin", &address]).await;
    let tree = text(&output.stdout);
    assert!(tree.contains("\n    site4  "), "{tree}");
}
