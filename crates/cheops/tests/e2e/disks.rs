//! Disks that are full, and disks that are new.

use serde_json::{Value, json};

use crate::common::agent::Agent;
use crate::common::client::admin;
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::replicas::{BOTH, at, create, held, in_path, wait_held};
use crate::resources::converged;

#[tokio::test]
async fn a_full_disk_acknowledges_nothing_and_recovers_when_there_is_room() {
    let mut mesh = Setup::of(2).start().await;
    mesh.take_agent(1).kill().await;
    let disk = mesh.path().join("data-site1").join("store");
    let config = mesh.site(1).config.clone();
    // On top of what was there: nothing yet.
    let agent = Agent::start_on_disk(&config, &disk, "8m").await.unwrap();
    for (from, to) in [(1, 2), (2, 1)] {
        mesh.wait_mark(from, to, "connected").await;
    }
    let meta = eventually("site1 replicates", || async {
        let made = at(
            &mesh,
            1,
            "POST",
            "/images",
            BOTH,
            json!({ "name": "before" }),
        )
        .await;
        (made.status == 201).then(|| in_path(&made.json()["id"]))
    })
    .await;
    converged(&mesh, 1, &meta).await;
    agent.fill_disk(&disk);

    let path = format!("/images/{meta}");
    for round in 0..3 {
        let body = json!({ "name": format!("never {round}") });
        let refused = at(&mesh, 1, "POST", "/images", BOTH, body).await;
        assert_eq!(
            (refused.status, refused.problem().as_str()),
            (507, "no-room")
        );
        let change = json!({ "description": "never" });
        let refused = at(&mesh, 1, "PATCH", &path, "", change).await;
        assert_eq!(
            (refused.status, refused.problem().as_str()),
            (507, "no-room")
        );
    }
    // What does not need the disk goes on.
    let read = at(&mesh, 1, "GET", &path, "", Value::Null).await;
    assert_eq!(
        (read.status, in_path(&read.json()["id"])),
        (200, meta.clone())
    );
    let own = at(&mesh, 1, "POST", "/images", "", json!({ "name": "local" })).await;
    assert_eq!(own.status, 201);

    agent.clear_disk(&disk);
    eventually("the disk takes writes again", || async {
        let change = json!({ "description": "after" });
        let changed = at(&mesh, 1, "PATCH", &path, "", change).await;
        (changed.status == 200).then_some(())
    })
    .await;
    create(&mesh, 1, "after").await;
    wait_held(&mesh, 2, "after").await;
    converged(&mesh, 1, &meta).await;
    for site in [1, 2] {
        assert_eq!(held(&mesh, site, "before").await[0]["description"], "after");
        assert_eq!(held(&mesh, site, "after").await.len(), 1);
        for round in 0..3 {
            assert!(
                held(&mesh, site, &format!("never {round}"))
                    .await
                    .is_empty()
            );
        }
    }
}

/// Writes it at site1, as soon as that can be done, and waits until both services have it, once.
async fn change_everywhere(mesh: &Mesh, image: &str, description: &str) {
    eventually("it can be changed", || async {
        let change = json!({ "description": description });
        let changed = at(mesh, 1, "PATCH", image, "", change).await;
        (changed.status == 200).then_some(())
    })
    .await;
    for site in [1, 2] {
        eventually("the change is there", || async {
            let held = held(mesh, site, "debian").await;
            assert_eq!(held.len(), 1, "site{site} made it twice");
            (held[0]["description"] == description).then_some(())
        })
        .await;
    }
}

/// A site whose folder is lost entirely learns from the others what it had, and makes nothing twice.
async fn check_wiped(wiped: usize) {
    let mut mesh = Setup::of(2).start().await;
    let (meta, _) = create(&mesh, 1, "debian").await;
    converged(&mesh, 1, &meta).await;
    let local = in_path(&held(&mesh, wiped, "debian").await[0]["id"]);
    // A second run of every agent, so that the disk has something to forget.
    for site in [1, 2] {
        mesh.take_agent(site).kill().await;
        mesh.restart(site).await;
    }
    mesh.wait_mark(1, 2, "connected").await;
    mesh.wait_mark(2, 1, "connected").await;
    // Each has heard of the other's second run: that is what a new disk is known by.
    let image = format!("/images/{meta}");
    change_everywhere(&mesh, &image, "before the loss").await;
    converged(&mesh, 1, &meta).await;

    mesh.take_agent(wiped).kill().await;
    let data = mesh.path().join(format!("data-site{wiped}"));
    std::fs::remove_dir_all(&data).unwrap();
    mesh.restart(wiped).await;
    let path = format!("/v1/resources/{meta}");
    let told = eventually("the new disk knows what the old one had", || async {
        let told = admin(mesh.site(wiped).admin, &path).await;
        let replica = |told: &Value| told["replicas"][format!("site{wiped}")].clone();
        let known = told.status == 200 && replica(&told.json())["state"] == "live";
        known.then(|| told.json())
    })
    .await;
    assert_eq!(
        told["replicas"][format!("site{wiped}")]["local_id"],
        json!(local)
    );
    change_everywhere(&mesh, &image, "after the loss").await;
    converged(&mesh, wiped, &meta).await;
}

#[tokio::test]
async fn a_follower_with_a_new_disk_is_told_what_it_had() {
    check_wiped(2).await;
}

#[tokio::test]
async fn a_leader_with_a_new_disk_is_told_what_it_had() {
    check_wiped(1).await;
}
