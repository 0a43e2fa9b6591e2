//! What becomes of replicas when a site is removed, held, or behind.

use serde_json::{Value, json};

use super::{Mesh, decide};
use crate::common::client::admin;
use crate::common::eventually;
use crate::common::setup::Setup;
use crate::replicas::{at, create, held, in_path, wait_held};

async fn resource(mesh: &Mesh, at: usize, id: &str) -> Value {
    let path = format!("/v1/resources/{id}");
    admin(mesh.site(at).admin, &path).await.json()
}

async fn operation(mesh: &Mesh, at: usize, id: &str) -> Value {
    let path = format!("/v1/operations/{id}");
    admin(mesh.site(at).admin, &path).await.json()
}

async fn describe(mesh: &Mesh, at_site: usize, id: &str, text: &str) -> String {
    let path = format!("/images/{id}");
    let body = json!({ "description": text });
    let changed = at(mesh, at_site, "PATCH", &path, "", body).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    changed.header("x-cheops-operation").to_owned()
}

async fn description(mesh: &Mesh, at: usize, name: &str) -> Value {
    held(mesh, at, name).await[0]["description"].clone()
}

#[tokio::test]
async fn a_removed_site_leaves_every_mapping_and_keeps_what_it_had_as_stranded() {
    let mesh = Setup::of(3).start().await;
    let (meta, _) = create(&mesh, 2, "image").await;
    wait_held(&mesh, 1, "image").await;
    assert_eq!(resource(&mesh, 1, &meta).await["leader"], "site2");
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let unsent = describe(&mesh, 2, &meta, "never sent").await;
    assert_eq!(decide(&mesh, 1, "site2", "remove", json!({})).await, 200);
    eventually("the other leads, and is alone in the mapping", || async {
        let told = resource(&mesh, 1, &meta).await;
        let members: Vec<_> = told["replicas"].as_object()?.keys().collect();
        (told["leader"] == "site1" && members == ["site1"]).then_some(())
    })
    .await;
    describe(&mesh, 1, &meta, "by who is left").await;

    mesh.heal(2);
    let stranded = |told: &Value| {
        let waiting = told["replicas"]["site2"]["waiting"].as_str();
        waiting.is_some_and(|why| why.starts_with("stranded"))
    };
    eventually(
        "the removed site is told, and strands what it has",
        || async { stranded(&resource(&mesh, 2, &meta).await).then_some(()) },
    )
    .await;
    let told = operation(&mesh, 2, &unsent).await;
    assert_eq!(told["sites"]["site1"]["state"], "held", "{told}");
    assert_eq!(description(&mesh, 2, "image").await, "never sent");

    // Attached again it takes part in what is made from then on; what it had stays as it is.
    assert_eq!(decide(&mesh, 1, "site2", "attach", json!({})).await, 200);
    mesh.wait_mark(1, 2, "connected").await;
    mesh.wait_mark(2, 1, "connected").await;
    create(&mesh, 1, "later").await;
    wait_held(&mesh, 2, "later").await;
    assert!(stranded(&resource(&mesh, 2, &meta).await));
    assert_eq!(description(&mesh, 1, "image").await, "by who is left");
    assert_eq!(description(&mesh, 2, "image").await, "never sent");
}

#[tokio::test]
async fn a_held_site_gets_what_others_changed_when_it_is_released() {
    let mesh = Setup::of(2).start().await;
    let (meta, _) = create(&mesh, 1, "image").await;
    wait_held(&mesh, 2, "image").await;
    assert_eq!(decide(&mesh, 2, "site2", "hold", json!({})).await, 200);

    let change = describe(&mesh, 1, &meta, "from elsewhere").await;
    let (_, made) = create(&mesh, 1, "new").await;
    let new = in_path(&made.json()["id"]);
    let waits = eventually("the change waits at the held site", || async {
        let told = operation(&mesh, 1, &change).await["sites"]["site2"].clone();
        (told["state"] == "waiting").then_some(told)
    })
    .await;
    assert!(waits["error"].as_str().unwrap().contains("held"), "{waits}");
    let seen = eventually("it is behind, and shown so", || async {
        let seen = mesh.seen_from(1, 2).await?;
        (seen["mark"] == "synchronizing" && seen["behind"].as_u64() >= Some(2)).then_some(seen)
    })
    .await;
    assert_eq!(seen["held"], true, "{seen}");
    assert_eq!(description(&mesh, 2, "image").await, Value::Null);
    assert!(held(&mesh, 2, "new").await.is_empty());
    let pending = resource(&mesh, 1, &new).await;
    assert_eq!(
        pending["replicas"]["site2"]["state"], "pending",
        "{pending}"
    );

    assert_eq!(decide(&mesh, 2, "site2", "release", json!({})).await, 200);
    wait_held(&mesh, 2, "new").await;
    eventually("the change is there", || async {
        let there = description(&mesh, 2, "image").await == "from elsewhere";
        there.then_some(())
    })
    .await;
    mesh.wait_mark(1, 2, "connected").await;
    assert_eq!(mesh.seen_from(1, 2).await.unwrap()["behind"], 0);
}
