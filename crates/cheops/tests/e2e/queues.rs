//! `eventual(site2)`: a request for one site, kept while that site is away.

use cheops_samples::IdForm;
use serde_json::{Value, json};

use crate::common::agent::text;
use crate::common::client::{Answer, admin, ask};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::replica_cli::{cheops, code};
use crate::replicas::{at, held, wait_held};
use crate::resources::order;

const THERE: &str = "image: eventual(site2)";

async fn operation(mesh: &Mesh, id: &str) -> Value {
    let path = format!("/v1/operations/{id}");
    admin(mesh.site(1).admin, &path).await.json()
}

#[tokio::test]
async fn requests_for_a_site_that_is_away_are_kept_over_a_crash_and_drain_in_order() {
    let mut mesh = Setup::of(2).start().await;
    // In reach, it is as if the scope named the site alone.
    let made = at(
        &mesh,
        1,
        "POST",
        "/images",
        THERE,
        json!({ "name": "direct" }),
    )
    .await;
    assert_eq!((made.status, made.served_by()), (201, "site2"));
    let id = made.json()["id"].as_str().unwrap().to_owned();

    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let taken = at(
        &mesh,
        1,
        "POST",
        "/images",
        THERE,
        json!({ "name": "later" }),
    )
    .await;
    assert_eq!(
        (taken.status, taken.header("x-cheops-pending")),
        (202, "site2"),
        "{taken:?}"
    );
    assert!(
        taken
            .header("location")
            .starts_with("/.cheops/v1/operations/")
    );
    let operation_id = taken.header("x-cheops-operation").to_owned();
    let path = format!("/images/{id}");
    for text in ["first", "second"] {
        let change = json!({ "description": text });
        let taken = at(&mesh, 1, "PATCH", &path, THERE, change).await;
        assert_eq!(taken.status, 202);
    }
    let read = at(&mesh, 1, "GET", &path, THERE, Value::Null).await;
    assert_eq!(
        (read.status, read.problem().as_str()),
        (503, "site-unreachable")
    );
    let told = operation(&mesh, &operation_id).await;
    assert_eq!(
        (&told["kind"], &told["path"]),
        (&json!("create"), &json!("/images"))
    );
    assert_eq!(told["sites"].as_object().unwrap().len(), 1);
    assert_eq!(told["sites"]["site2"]["state"], "queued");
    assert!(
        told["expires"].is_string(),
        "24 hours, unless something says otherwise"
    );

    mesh.take_agent(1).kill().await;
    mesh.heal(2);
    mesh.restart(1).await;
    wait_held(&mesh, 2, "later").await;
    eventually("the changes came in order", || async {
        let held = held(&mesh, 2, "direct").await;
        (held[0]["description"] == "second").then_some(())
    })
    .await;
    assert_eq!(held(&mesh, 2, "later").await.len(), 1);
    assert!(held(&mesh, 1, "later").await.is_empty());
    eventually("it is told to be done", || async {
        let told = operation(&mesh, &operation_id).await;
        (told["sites"]["site2"]["state"] == "applied").then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_waited_too_long_is_shown_as_expired_and_never_runs() {
    let mesh = Setup::of(2).start().await;
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let scope = "image: eventual(site2, ttl=1s)";
    let taken = at(
        &mesh,
        1,
        "POST",
        "/images",
        scope,
        json!({ "name": "too late" }),
    )
    .await;
    assert_eq!(taken.status, 202, "{taken:?}");
    let id = taken.header("x-cheops-operation").to_owned();
    eventually("it has expired", || async {
        let told = operation(&mesh, &id).await;
        (told["sites"]["site2"]["state"] == "expired").then_some(())
    })
    .await;
    mesh.heal(2);
    mesh.wait_mark(1, 2, "connected").await;
    // What comes behind it tells that it was passed.
    let headers = [
        ("Content-Type", "application/json"),
        ("X-Scope", THERE),
        ("Prefer", "respond-async"),
    ];
    let body = br#"{"name": "in time"}"#;
    let taken = ask(mesh.site(1).image, "POST", "/images", &headers, body).await;
    assert_eq!(taken.status, 202);
    wait_held(&mesh, 2, "in time").await;
    assert!(held(&mesh, 2, "too late").await.is_empty());
}

#[tokio::test]
async fn a_key_stands_for_one_request_also_in_a_queue() {
    let mesh = Setup::of(2).start().await;
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let headers = [
        ("Content-Type", "application/json"),
        ("X-Scope", THERE),
        ("Idempotency-Key", "k1"),
    ];
    let mut ids = Vec::new();
    for _ in 0..3 {
        let body = br#"{"name": "once"}"#;
        let taken = ask(mesh.site(1).image, "POST", "/images", &headers, body).await;
        assert_eq!(taken.status, 202);
        ids.push(taken.header("x-cheops-operation").to_owned());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    mesh.heal(2);
    wait_held(&mesh, 2, "once").await;
    at(
        &mesh,
        1,
        "POST",
        "/images",
        THERE,
        json!({ "name": "behind it" }),
    )
    .await;
    wait_held(&mesh, 2, "behind it").await;
    assert_eq!(held(&mesh, 2, "once").await.len(), 1);
}

/// Hands in an image for site2, with its name as its key.
async fn queue(mesh: &Mesh, name: &str) -> Answer {
    let headers = [
        ("Content-Type", "application/json"),
        ("X-Scope", THERE),
        ("Idempotency-Key", name),
    ];
    let body = json!({ "name": name }).to_string();
    let image = mesh.site(1).image;
    ask(image, "POST", "/images", &headers, body.as_bytes()).await
}

async fn queued(mesh: &Mesh, name: &str) -> String {
    let taken = queue(mesh, name).await;
    assert_eq!(taken.status, 202, "{taken:?}");
    taken.header("x-cheops-operation").to_owned()
}

async fn cancel(mesh: &Mesh, id: &str) -> Answer {
    let path = format!("/v1/operations/{id}/cancel");
    order(mesh, 1, &path, json!({})).await
}

#[tokio::test]
async fn what_is_cancelled_before_its_site_is_back_never_runs_and_what_stands_behind_it_does() {
    let mut setup = Setup::of(2);
    setup.ids = IdForm::Integer;
    let mut mesh = setup.start().await;
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    eventually("its queues know that site2 is away", || async {
        let tried = json!({ "name": "tried" });
        let taken = at(&mesh, 1, "POST", "/images", THERE, tried).await;
        let id = taken.header("x-cheops-operation");
        (cancel(&mesh, id).await.status == 200).then_some(())
    })
    .await;
    let first = queued(&mesh, "first").await;
    let second = queued(&mesh, "second").await;
    let third = queued(&mesh, "third").await;
    let told = cancel(&mesh, &second).await;
    assert_eq!(told.status, 200, "{told:?}");
    assert_eq!(told.json()["sites"]["site2"]["state"], "cancelled");
    // Asked again, it is what it is; asked for again, it is not done after all.
    assert_eq!(cancel(&mesh, &second).await.status, 200);
    let again = queue(&mesh, "second").await;
    assert_eq!((again.status, again.problem().as_str()), (409, "conflict"));

    mesh.take_agent(1).kill().await;
    mesh.restart(1).await;
    let told = operation(&mesh, &second).await;
    assert_eq!(told["sites"]["site2"]["state"], "cancelled");
    assert_eq!(queue(&mesh, "second").await.status, 409);
    // What was in no message before the crash is in none after it.
    let fourth = queued(&mesh, "fourth").await;
    for id in [&third, &fourth] {
        let told = operation(&mesh, id).await;
        assert_eq!(told["sites"]["site2"]["state"], "queued");
    }
    let given_up = cheops(&mesh, 1, &["op", "cancel", &fourth]).await;
    assert_eq!(code(&given_up), 0, "{}", text(&given_up.stderr));
    queued(&mesh, "fifth").await;

    mesh.heal(2);
    let mut ids = Vec::new();
    for name in ["first", "third", "fifth"] {
        ids.push(wait_held(&mesh, 2, name).await["id"].as_u64().unwrap());
    }
    // One after the other, and nothing between them.
    assert_eq!(ids, [ids[0], ids[0] + 1, ids[0] + 2]);
    for name in ["second", "fourth"] {
        assert!(held(&mesh, 2, name).await.is_empty());
    }
    eventually("the first is told to be done", || async {
        let told = operation(&mesh, &first).await;
        (told["sites"]["site2"]["state"] == "applied").then_some(())
    })
    .await;
    let late = cancel(&mesh, &first).await;
    assert_eq!((late.status, late.problem().as_str()), (409, "conflict"));
    for id in [&second, &fourth] {
        let told = operation(&mesh, id).await;
        assert_eq!(told["sites"]["site2"]["state"], "cancelled");
    }
}
