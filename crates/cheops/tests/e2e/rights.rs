//! Whose rights, and which version: credentials that lapse, preconditions that hold or do not.

use serde_json::{Value, json};

use crate::common::agent::{run, text};
use crate::common::client::{Answer, admin, ask};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::notes::Notes;
use crate::common::setup::Setup;
use crate::replicas::BOTH;
use crate::resources::converged;

struct Stage {
    mesh: Mesh,
    notes: [Notes; 2],
    meta: String,
}

async fn at(
    mesh: &Mesh,
    site: usize,
    method: &str,
    path: &str,
    more: &[(&str, &str)],
    body: Value,
) -> Answer {
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(more);
    let text = body.to_string();
    let body = match method {
        "GET" => &b""[..],
        _ => text.as_bytes(),
    };
    ask(mesh.site(site).image, method, path, &headers, body).await
}

/// One note on two sites, whose services want a token.
async fn stage() -> Stage {
    let notes = [Notes::start().await, Notes::start().await];
    for notes in &notes {
        notes.state().token = Some("first-secret".to_owned());
    }
    let setup = Setup::of(2)
        .image_at(1, notes[0].address())
        .image_at(2, notes[1].address());
    let mesh = setup.start().await;
    let rights = [("Authorization", "first-secret"), ("X-Scope", BOTH)];
    let made = at(&mesh, 1, "POST", "/notes", &rights, json!({ "text": "a" })).await;
    assert_eq!(made.status, 201, "{made:?}");
    let meta = made.header("x-cheops-resource").to_owned();
    converged(&mesh, 1, &meta).await;
    Stage { mesh, notes, meta }
}

#[tokio::test]
async fn lapsed_credentials_are_waited_for_and_given_again_by_the_caller() {
    let Stage { mesh, notes, meta } = stage().await;
    notes[1].state().token = Some("second-secret".to_owned());
    let path = format!("/notes/{meta}");
    let rights = [("Authorization", "first-secret")];
    let changed = at(&mesh, 1, "PATCH", &path, &rights, json!({ "text": "b" })).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let operation = changed.header("x-cheops-operation").to_owned();
    let page = format!("/v1/operations/{operation}");
    let step = eventually("it waits for credentials", || async {
        let told = admin(mesh.site(1).admin, &page).await.json();
        let step = told["sites"]["site2"].clone();
        (step["state"] == "waiting").then_some(step)
    })
    .await;
    assert_eq!(step["status"], 401);
    assert!(step["error"].as_str().unwrap().contains("credentials"));
    let resource = admin(mesh.site(2).admin, &format!("/v1/resources/{meta}"))
        .await
        .json();
    assert_eq!(
        resource["replicas"]["site2"]["state"], "live",
        "not diverged"
    );
    assert_eq!(
        resource["replicas"]["site2"]["waiting"],
        "credentials for position 2"
    );
    assert_eq!(notes[1].all()[0]["text"], "a");

    // Asked at the other site, with the credentials in a file.
    let file = mesh.path().join("rights");
    std::fs::write(&file, "Authorization: second-secret\n").unwrap();
    let (address, given) = (
        mesh.site(1).admin.to_string(),
        format!("@{}", file.display()),
    );
    let words = [
        "op", "retry", &operation, "--header", &given, "--admin", &address,
    ];
    let retried = run(&words).await;
    assert_ne!(retried.status.code(), Some(2), "{}", text(&retried.stderr));
    converged(&mesh, 1, &meta).await;
    assert_eq!(notes[1].all()[0]["text"], "b");
    for site in [1, 2] {
        let log = mesh.site(site).agent.as_ref().unwrap().log();
        assert!(!log.contains("secret"), "{log}");
    }

    // Bad credentials at the site that decides are simply refused.
    let rights = [("Authorization", "wrong")];
    let refused = at(&mesh, 1, "PATCH", &path, &rights, json!({ "text": "c" })).await;
    assert_eq!((refused.status, refused.served_by()), (401, "site1"));
    assert_eq!(notes[0].all()[0]["text"], "b");
}

#[tokio::test]
async fn a_precondition_holds_for_the_replica_that_the_client_saw() {
    let Stage { mesh, notes, meta } = stage().await;
    let path = format!("/notes/{meta}");
    let read = async |site| {
        let rights = [("Authorization", "first-secret")];
        let read = at(&mesh, site, "GET", &path, &rights, Value::Null).await;
        assert_eq!(read.status, 200, "{read:?}");
        read.header("etag").to_owned()
    };
    let write = async |site, tag: &str, value: &str| {
        let rights = [("Authorization", "first-secret"), ("If-Match", tag)];
        at(
            &mesh,
            site,
            "PATCH",
            &path,
            &rights,
            json!({ "text": value }),
        )
        .await
    };
    let seen = read(1).await;
    let changed = write(1, &seen, "b").await;
    assert_eq!(
        (changed.status, changed.header("etag") != seen),
        (200, true)
    );
    let late = write(1, &seen, "lost").await;
    assert_eq!(
        (late.status, late.problem().as_str()),
        (412, "precondition-failed")
    );
    // As its leader knows it: the follower may not have heard of the change yet.
    converged(&mesh, 1, &meta).await;

    // At a follower, with the follower's own version; the leader's says nothing there.
    let seen = read(2).await;
    let changed = write(2, &seen, "c").await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!((changed.served_by(), changed.header("etag")), ("site1", ""));
    converged(&mesh, 1, &meta).await;
    assert_eq!(write(2, &seen, "lost").await.status, 412);
    let none = [("Authorization", "first-secret"), ("If-None-Match", "*")];
    let there = at(&mesh, 2, "PATCH", &path, &none, json!({ "text": "lost" })).await;
    assert_eq!(there.status, 412);

    // The follower is behind: what its client saw is not what is there now, and the leader knows.
    notes[1].state().frozen = true;
    assert_eq!(write(1, "*", "d").await.status, 200);
    eventually("the follower waits", || async {
        let told = admin(mesh.site(2).admin, &format!("/v1/resources/{meta}"))
            .await
            .json();
        told["replicas"]["site2"]["waiting"]
            .is_string()
            .then_some(())
    })
    .await;
    let seen = read(2).await;
    let late = write(2, &seen, "lost").await;
    assert_eq!(late.status, 412, "{late:?}");
    assert_eq!(notes[0].all()[0]["text"], "d");
    for notes in &notes {
        let heads = notes.state().heads.concat().to_ascii_lowercase();
        assert!(!heads.contains("if-match") && !heads.contains("if-none-match"));
        assert_ne!(notes.all()[0]["text"], "lost");
    }
}

#[tokio::test]
async fn a_version_in_a_body_is_each_sites_own() {
    let Stage { mesh, notes, meta } = stage().await;
    notes[0].state().revisions = Some("of-site1-");
    notes[1].state().revisions = Some("of-site2-");
    let path = format!("/notes/{meta}");
    let rights = [("Authorization", "first-secret")];
    let read = async |site| {
        let read = at(&mesh, site, "GET", &path, &rights, Value::Null).await;
        read.json()["_rev"].as_str().unwrap().to_owned()
    };
    let write = async |site, revision: &str, value: &str| {
        let body = json!({ "_rev": revision, "text": value });
        at(&mesh, site, "PATCH", &path, &rights, body).await
    };
    let seen = read(1).await;
    let changed = write(1, &seen, "b").await;
    assert_eq!(changed.status, 200, "{changed:?}");
    converged(&mesh, 1, &meta).await;
    let late = write(1, &seen, "lost").await;
    assert_eq!(
        (late.status, late.problem().as_str()),
        (412, "precondition-failed")
    );

    // At a follower its own revision counts, and the leader's service gets the leader's.
    let seen = read(2).await;
    assert!(seen.starts_with("of-site2-"), "{seen}");
    assert_eq!(write(2, &read(1).await, "lost").await.status, 412);
    let changed = write(2, &seen, "c").await;
    assert_eq!(changed.status, 200, "{changed:?}");
    converged(&mesh, 2, &meta).await;
    for notes in &notes {
        assert_eq!(notes.all()[0]["text"], "c");
    }
}

#[tokio::test]
async fn a_delete_is_asked_for_with_the_rights_of_whoever_wants_it() {
    let Stage { mesh, notes, meta } = stage().await;
    let path = format!("/notes/{meta}");
    let delete = async |rights: &str| {
        let rights = [("Authorization", rights)];
        at(&mesh, 1, "DELETE", &path, &rights, Value::Null).await
    };
    let refused = delete("a-stranger").await;
    assert_eq!((refused.status, refused.served_by()), (401, "site1"));
    for notes in &notes {
        assert_eq!(notes.all().len(), 1, "nothing was deleted");
        // What made it is good for nothing by now.
        notes.state().token = Some("second-secret".to_owned());
    }
    assert_eq!(delete("second-secret").await.status, 204);
    eventually("gone at both sites", || async {
        notes
            .iter()
            .all(|notes| notes.all().is_empty())
            .then_some(())
    })
    .await;
}
