//! Scope on replay: what a service calls while it carries out a replicated operation goes where the scope of that
//! operation says, on every site that runs it and however late.

use crate::common::client::{Answer, get};
use crate::common::eventually;
use crate::common::mesh::{Mesh, assert_untouched, seen};
use crate::common::setup::Setup;
use crate::replicas;

/// Servers at two sites, of an image that only the third has.
const SCOPE: &str = "compute: site1 & site2, image: site3";

async fn boot(mesh: &Mesh, image: &str) -> Answer {
    let headers = [("X-Scope", SCOPE), ("Content-Type", "application/json")];
    let made = mesh.boot(1, image, &headers).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["image_name"], "far", "{made:?}");
    made
}

/// The servers that a site's service has itself.
async fn booted(mesh: &Mesh, site: usize) -> usize {
    let all = get(mesh.site(site).compute_service, "/servers", None).await;
    all.json()["servers"].as_array().unwrap().len()
}

async fn becomes_booted(mesh: &Mesh, site: usize) {
    eventually(&format!("a server at site{site}"), || async {
        (booted(mesh, site).await == 1).then_some(())
    })
    .await;
}

async fn check(setup: Setup, carrier: &str) {
    let mesh = setup.start().await;
    let image = mesh.upload(3, "far", b"x").await;
    boot(&mesh, &image).await;
    becomes_booted(&mesh, 2).await;
    let path = format!("/images/{image}");
    let fetches = seen(mesh.site(3).image_service, &path).await;
    assert_eq!(fetches.len(), 2, "{carrier}: once for each server");
    fetches.iter().for_each(assert_untouched);
    for site in [1, 2] {
        let calls = seen(mesh.site(site).compute_service, "/servers").await;
        let posted = |headers: &&serde_json::Value| headers[carrier].is_string();
        assert_eq!(calls.iter().filter(posted).count(), 1, "{carrier}");
        let told = |name: &str| calls.iter().any(|headers| headers[name].is_string());
        assert!(!told("x-cheops-entry"), "agents' own business");
        assert_eq!(told("x-scope"), carrier == "x-scope");
        assert_eq!(booted(&mesh, site).await, 1);
    }
}

#[tokio::test]
async fn every_site_fetches_the_image_where_the_scope_says() {
    check(Setup::of(3), "x-request-id").await;
}

#[tokio::test]
async fn every_site_does_where_the_service_passes_the_scope_on() {
    let mut setup = Setup::of(3);
    setup.passed_on = "x-scope";
    setup.compute = "propagate = [\"header\"]".to_owned();
    check(setup, "x-scope").await;
}

#[tokio::test]
async fn every_site_does_where_the_service_passes_baggage_on() {
    let mut setup = Setup::of(3);
    setup.passed_on = "baggage";
    setup.compute = "propagate = [\"baggage\"]".to_owned();
    check(setup, "baggage").await;
}

#[tokio::test]
async fn what_a_service_repeats_of_a_request_is_what_its_client_sent() {
    let mesh = Setup::of(2).start().await;
    let (image, _) = replicas::create(&mesh, 1, "on both").await;
    let scope = ("X-Scope", "compute: site1 & site2");
    let json = ("Content-Type", "application/json");
    let own = ("X-Request-Id", "mine");
    let made = mesh.boot(1, &image, &[scope, json, own]).await;
    assert_eq!((made.status, made.header("x-request-id")), (201, "mine"));
    let made = mesh.boot(1, &image, &[scope, json]).await;
    assert_eq!((made.status, made.all("x-request-id").len()), (201, 0));
}

#[tokio::test]
async fn a_site_that_was_away_fetches_it_when_it_is_back() {
    let mut mesh = Setup::of(3).start().await;
    let image = mesh.upload(3, "far", b"x").await;
    mesh.take_agent(2).kill().await;
    boot(&mesh, &image).await;
    assert_eq!(booted(&mesh, 2).await, 0);
    mesh.restart(2).await;
    becomes_booted(&mesh, 2).await;
    let fetches = seen(mesh.site(3).image_service, &format!("/images/{image}")).await;
    assert_eq!(fetches.len(), 2);
}

#[tokio::test]
async fn what_another_service_has_is_named_as_clients_name_it() {
    let mesh = Setup::of(2).start().await;
    let (image, _) = replicas::create(&mesh, 1, "on both").await;
    let headers = [
        ("X-Scope", "compute: site1 & site2"),
        ("Content-Type", "application/json"),
    ];
    let made = mesh.boot(1, &image, &headers).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["image_id"], image.as_str());
    becomes_booted(&mesh, 2).await;
    let of_each = [1, 2].map(|site| get(mesh.site(site).compute_service, "/servers", None));
    for all in of_each {
        let all = all.await.json();
        assert_eq!(all["servers"][0]["image_id"], image.as_str(), "{all}");
        assert_eq!(all["servers"][0]["image_name"], "on both", "{all}");
    }
}
