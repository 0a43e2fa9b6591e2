//! What cannot be replicated as it is asked for: a clear problem, and nothing half done.

use serde_json::{Value, json};

use crate::common::agent::{Agent, run, text};
use crate::common::client::{admin, ask};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::notes::Notes;
use crate::common::setup::Setup;
use crate::replicas::{BOTH, at, create, held, in_path, wait_held};
use crate::resources::{converged, order};

const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn note_mesh(first: &Notes, second: &Notes, deadline: &str) -> Mesh {
    let mut setup = Setup::of(2)
        .image_at(1, first.address())
        .image_at(2, second.address());
    setup.image = format!("deadline = \"{deadline}\"");
    setup.start().await
}

#[tokio::test]
async fn a_body_that_is_not_what_it_says_changes_nothing() {
    let mesh = Setup::of(2).start().await;
    let (meta, _) = create(&mesh, 1, "debian").await;
    converged(&mesh, 1, &meta).await;
    let path = format!("/images/{meta}");
    for body in [&b"{\"description\": "[..], b"\xff\xfe{}", b"no JSON at all"] {
        for (method, path) in [("PATCH", path.as_str()), ("POST", "/images")] {
            let headers = [JSON, ("X-Scope", BOTH)];
            let broken = ask(mesh.site(1).image, method, path, &headers, body).await;
            assert_eq!(
                (broken.status, broken.problem().as_str()),
                (400, "bad-body"),
                "{method}"
            );
        }
    }
    let told = admin(mesh.site(1).admin, &format!("/v1/resources/{meta}"))
        .await
        .json();
    assert_eq!(
        (&told["position"], &told["converged"]),
        (&json!(1), &json!(true))
    );
    for site in [1, 2] {
        assert_eq!(
            held(&mesh, site, "debian").await[0]["description"],
            Value::Null
        );
    }
}

#[tokio::test]
async fn what_a_service_made_without_naming_it_is_found_by_its_looks() {
    let (first, second) = (Notes::start().await, Notes::start().await);
    first.state().names_no_id = true;
    let mesh = note_mesh(&first, &second, "20s").await;
    let made = at(
        &mesh,
        1,
        "POST",
        "/notes",
        BOTH,
        json!({ "text": "unnamed" }),
    )
    .await;
    assert_eq!(made.status, 201, "{made:?}");
    let meta = made.header("x-cheops-resource").to_owned();
    // Only its status was known: how it is now stands in for what nobody said.
    assert_eq!(
        made.json(),
        json!({ "id": made.json()["id"], "text": "unnamed" })
    );
    assert_eq!(in_path(&made.json()["id"]), meta);
    assert_eq!(made.header("location"), format!("/notes/{meta}"));
    converged(&mesh, 1, &meta).await;
    assert_eq!((first.all().len(), second.all().len()), (1, 1));
}

#[tokio::test]
async fn what_a_service_made_and_nobody_can_find_stays_in_doubt_and_is_not_made_again() {
    let (first, second) = (Notes::start().await, Notes::start().await);
    for notes in [&first, &second] {
        notes.state().names_no_id = true;
        notes.state().hides_list = true;
    }
    let mesh = note_mesh(&first, &second, "2s").await;
    let made = at(
        &mesh,
        1,
        "POST",
        "/notes",
        BOTH,
        json!({ "text": "unnamed" }),
    )
    .await;
    assert_eq!(
        (made.status, made.problem().as_str()),
        (504, "outcome-unknown"),
        "{made:?}"
    );
    let all = admin(mesh.site(1).admin, "/v1/operations").await.json();
    let item = &all["items"][0];
    let state = item["sites"]["site1"]["state"].as_str().unwrap();
    assert!(["prepared", "in-doubt"].contains(&state), "{item}");
    assert_eq!(item["sites"]["site2"]["state"], "queued");
    assert_eq!((first.all().len(), second.all().len()), (1, 0));
    // Not while a site was called.
    let id = item["id"].as_str().unwrap();
    let kept = order(&mesh, 1, &format!("/v1/operations/{id}/cancel"), json!({})).await;
    assert_eq!(kept.status, 409);
}

#[tokio::test]
async fn a_profile_with_an_impossible_pattern_is_refused_by_lint_and_by_the_agent() {
    let mut mesh = Setup::of(1).start().await;
    let profile = mesh.path().join("odd.toml");
    let content = "name = \"odd\"\n\n[[collection]]\npath = \"/a/{+}/b/{+}/c\"\n";
    std::fs::write(&profile, content).unwrap();
    let linted = run(&["lint".as_ref(), profile.as_os_str()]).await;
    assert_eq!(linted.status.code(), Some(2));
    let told = text(&linted.stderr);
    assert!(
        told.contains("odd.toml:4: error: key `collection[0].path`"),
        "{told}"
    );

    mesh.take_agent(1).kill().await;
    let config = mesh.site(1).config.clone();
    let before = std::fs::read_to_string(&config).unwrap();
    let with = format!("[service.image]\nprofile = {profile:?}\n");
    std::fs::write(&config, before.replacen("[service.image]\n", &with, 1)).unwrap();
    let log = Agent::start(&config).await.unwrap_err();
    assert!(
        log.contains("key `service.image.profile`") && log.contains("collection[0].path"),
        "{log}"
    );
}

#[tokio::test]
async fn what_one_of_the_sites_does_not_have_cannot_be_named() {
    let mesh = Setup::of(3).start().await;
    let (meta, _) = create(&mesh, 1, "parent").await;
    converged(&mesh, 1, &meta).await;
    let child = json!({ "name": "child", "parent_id": meta });
    let scope = "image: site1 & site3";
    let refused = at(&mesh, 1, "POST", "/images", scope, child.clone()).await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (422, "unknown-replicant")
    );
    assert_eq!(refused.json()["sites"], json!(["site3"]));
    for site in 1..=3 {
        assert!(held(&mesh, site, "child").await.is_empty());
    }
    // Where it is, it may be named: each service hears its own id.
    let made = at(&mesh, 1, "POST", "/images", BOTH, child).await;
    assert_eq!(made.status, 201, "{made:?}");
    for site in [1, 2] {
        let (child, parent) = (
            wait_held(&mesh, site, "child").await,
            wait_held(&mesh, site, "parent").await,
        );
        assert_eq!(child["parent_id"], parent["id"]);
    }
    eventually("everything is the same", || async {
        let late = admin(mesh.site(1).admin, "/v1/resources?converged=false").await;
        late.json()["items"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    })
    .await;
}
