//! What operators decide about where resources live and about conflicts: adopt, rescope, resolve.

use serde_json::{Value, json};

use crate::common::agent::{run, text};
use crate::common::client::{admin, ask};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::replicas::{at, create, held, in_path, wait_held};
use crate::resources::{converged, order};

const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn wait_gone(mesh: &Mesh, site: usize, name: &str) {
    eventually(&format!("site{site} has dropped {name}"), || async {
        held(mesh, site, name).await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_ordinary_resource_is_adopted_and_lives_on_both_sites() {
    let mesh = Setup::of(3).start().await;
    let local = mesh.upload(1, "ordinary", b"content").await;
    let by_service = format!("/images/{local}");
    let service = mesh.site(1).image_service;
    let change = br#"{"min_disk": 7}"#;
    assert_eq!(
        ask(service, "PATCH", &by_service, &[JSON], change)
            .await
            .status,
        200
    );

    let both = "image: site1 & site2";
    let mut body = json!({
        "service": "image", "local_id": local, "scope": both, "plan": true,
        "without": ["size", "checksum"],
    });
    let plan = order(&mesh, 1, "/v1/resources/adopt", body.clone()).await;
    assert_eq!(plan.status, 200, "{plan:?}");
    let plan = plan.json();
    assert_eq!(
        (&plan["path"], &plan["leader"], &plan["joining"]),
        (&json!(by_service), &json!("site1"), &json!(["site2"]))
    );
    assert!(
        plan["fields"]
            .as_array()
            .unwrap()
            .contains(&json!("min_disk")),
        "{plan}"
    );
    assert!(
        held(&mesh, 2, "ordinary").await.is_empty(),
        "a plan does nothing"
    );

    body["plan"] = json!(false);
    let adopted = order(&mesh, 1, "/v1/resources/adopt", body.clone()).await;
    assert_eq!(adopted.status, 200, "{adopted:?}");
    let meta = in_path(&adopted.json()["id"]);
    assert_eq!(
        adopted.json()["replicas"]["site1"]["local_id"],
        json!(local)
    );
    let other = wait_held(&mesh, 2, "ordinary").await;
    assert_eq!(other["min_disk"], 7);
    assert_ne!(in_path(&other["id"]), local);
    converged(&mesh, 2, &meta).await;

    // From now on it is one resource, by either name.
    let changed = at(
        &mesh,
        1,
        "PATCH",
        &by_service,
        "",
        json!({ "description": "one" }),
    )
    .await;
    assert_eq!(
        (changed.status, in_path(&changed.json()["id"])),
        (200, meta.clone())
    );
    converged(&mesh, 1, &meta).await;
    assert_eq!(wait_held(&mesh, 2, "ordinary").await["description"], "one");
    assert_eq!(held(&mesh, 1, "ordinary").await.len(), 1);

    let again = order(&mesh, 1, "/v1/resources/adopt", body).await;
    assert_eq!((again.status, again.problem().as_str()), (409, "conflict"));
    for (local_id, service, scope, status) in [
        ("nothing", "image", both, 409),
        ("../x", "image", both, 409),
        (&*local, "fridge", both, 400),
        (&*local, "image", "image: site2 & site3", 409),
        (&*local, "image", "image: site1 & site9", 400),
        (&*local, "image", "compute: site1 & site2", 400),
        (&*local, "image", "image: strong(site1 & site2)", 400),
    ] {
        let body = json!({ "service": service, "local_id": local_id, "scope": scope });
        let refused = order(&mesh, 1, "/v1/resources/adopt", body.clone()).await;
        assert_eq!(refused.status, status, "{body}: {refused:?}");
    }
}

#[tokio::test]
async fn a_resource_moves_to_another_site_and_is_covered_before_it_leaves() {
    let mesh = Setup::of(3).start().await;
    let (meta, _) = create(&mesh, 1, "debian").await;
    converged(&mesh, 1, &meta).await;
    let path = format!("/images/{meta}");
    let change = json!({ "description": "written before" });
    assert_eq!(at(&mesh, 1, "PATCH", &path, "", change).await.status, 200);

    let page = format!("/v1/resources/{meta}/rescope");
    let to = json!({ "scope": "image: site1 & site3", "plan": true });
    // At a follower: the leader orders it.
    let plan = order(&mesh, 2, &page, to).await.json();
    assert_eq!(
        (&plan["joining"], &plan["leaving"], &plan["blocked"]),
        (&json!(["site3"]), &json!(["site2"]), &Value::Null)
    );
    assert_eq!(plan["steps"].as_array().unwrap().len(), 2);
    assert!(
        held(&mesh, 3, "debian").await.is_empty(),
        "a plan does nothing"
    );

    let moved = order(&mesh, 2, &page, json!({ "scope": "image: site1 & site3" })).await;
    assert_eq!(moved.status, 200, "{moved:?}");
    let there = wait_held(&mesh, 3, "debian").await;
    assert_eq!(there["description"], "written before");
    wait_gone(&mesh, 2, "debian").await;
    let told = eventually("site2 has left", || async {
        let told = admin(mesh.site(1).admin, &format!("/v1/resources/{meta}"))
            .await
            .json();
        let sites: Vec<String> = told["replicas"].as_object()?.keys().cloned().collect();
        (sites == ["site1", "site3"] && told["converged"] == true).then_some(told)
    })
    .await;
    assert_eq!(told["scope"], "image: site1 & site3");
    let changed = at(
        &mesh,
        3,
        "PATCH",
        &path,
        "",
        json!({ "description": "after" }),
    )
    .await;
    assert_eq!(changed.status, 200, "{changed:?}");
    converged(&mesh, 3, &meta).await;
    for site in [1, 3] {
        assert_eq!(
            wait_held(&mesh, site, "debian").await["description"],
            "after"
        );
    }

    // Whoever leads does not leave.
    let blocked = order(&mesh, 1, &page, json!({ "scope": "image: site2 & site3" })).await;
    assert_eq!(
        (blocked.status, blocked.problem().as_str()),
        (409, "conflict")
    );
    let admin_of = mesh.site(1).admin.to_string();
    let words = |scope| {
        [
            "resource", "rescope", &meta, "--scope", scope, "--admin", &admin_of,
        ]
    };
    let shown = run(&[&words("image: site2 & site3")[..], &["--plan"]].concat()).await;
    assert_eq!(shown.status.code(), Some(1));
    assert!(
        text(&shown.stdout).contains("promote"),
        "{}",
        text(&shown.stdout)
    );
    let back = run(&words("image: site1 & site2 & site3")).await;
    assert_eq!(back.status.code(), Some(0), "{}", text(&back.stderr));
    assert!(text(&back.stderr).contains("site2 makes it"));
    wait_held(&mesh, 2, "debian").await;
    converged(&mesh, 2, &meta).await;
    assert_eq!(held(&mesh, 2, "debian").await.len(), 1);
}

/// Two leaders, one after the other, have accepted something about the same field.
async fn conflict(mesh: &Mesh) -> (String, String) {
    let (meta, _) = create(mesh, 1, "debian").await;
    converged(mesh, 2, &meta).await;
    mesh.cut(2);
    mesh.wait_mark(2, 1, "autonomous").await;
    mesh.wait_mark(1, 2, "autonomous").await;
    let path = format!("/images/{meta}");
    let old = json!({ "description": "by the first" });
    let accepted = at(mesh, 1, "PATCH", &path, "", old).await;
    assert_eq!(accepted.status, 200);
    let operation = accepted.header("x-cheops-operation").to_owned();
    let promote = format!("/v1/resources/{meta}/promote");
    let told = order(mesh, 2, &promote, json!({ "site": "site2" })).await;
    assert_eq!(told.status, 200);
    eventually("site2 leads and writes", || async {
        let new = json!({ "description": "by the second" });
        let written = at(mesh, 2, "PATCH", &path, "", new).await;
        (written.status == 200).then_some(())
    })
    .await;
    mesh.heal(2);
    for site in [1, 2] {
        eventually("the conflict is shown", || async {
            let all = admin(mesh.site(site).admin, "/v1/conflicts").await.json();
            let items = all["items"].as_array().unwrap();
            items
                .iter()
                .any(|item| item["id"] == operation)
                .then_some(())
        })
        .await;
    }
    (meta, operation)
}

async fn description(mesh: &Mesh, is: &str) {
    for site in [1, 2] {
        eventually(&format!("site{site} has it {is}"), || async {
            let held = held(mesh, site, "debian").await;
            (held.len() == 1 && held[0]["description"] == is).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_conflict_is_shown_with_its_versions_and_either_may_be_taken() {
    let mesh = Setup::of(2).start().await;
    let (meta, operation) = conflict(&mesh).await;
    let page = format!("/v1/conflicts/{operation}");
    let told = admin(mesh.site(1).admin, &page).await.json();
    assert_eq!(told["resource"], json!(meta));
    assert_eq!(
        told["versions"],
        json!([
            { "version": "current", "site": "site2", "values": { "description": "by the second" } },
            { "version": operation, "site": "site1", "values": { "description": "by the first" } },
        ])
    );
    description(&mesh, "by the second").await;
    let resolve = format!("{page}/resolve");
    let wrong = order(&mesh, 1, &resolve, json!({ "take": "neither" })).await;
    assert_eq!((wrong.status, wrong.problem().as_str()), (409, "conflict"));

    // Asked at the site that does not lead.
    let taken = order(&mesh, 1, &resolve, json!({ "take": operation })).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    description(&mesh, "by the first").await;
    for site in [1, 2] {
        let told = eventually("no conflict is left", || async {
            let told = converged(&mesh, site, &meta).await;
            (told["conflicts"] == 0).then_some(told)
        })
        .await;
        assert_eq!(told["leader"], "site2");
        let none = admin(mesh.site(site).admin, "/v1/conflicts").await.json();
        assert_eq!(none["items"], json!([]));
    }
    assert_eq!(
        order(&mesh, 1, &resolve, json!({ "take": "current" }))
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn a_conflict_is_dropped_by_a_command() {
    let mesh = Setup::of(2).start().await;
    let (meta, operation) = conflict(&mesh).await;
    let address = mesh.site(2).admin.to_string();
    let shown = run(&["conflict", "show", &operation, "--admin", &address]).await;
    let page = text(&shown.stdout);
    assert_eq!(shown.status.code(), Some(1));
    assert!(
        page.contains("current by site2\n  description: \"by the second\""),
        "{page}"
    );
    let words = [
        "conflict", "resolve", &operation, "--take", "current", "--admin", &address,
    ];
    let resolved = run(&words).await;
    assert_eq!(
        resolved.status.code(),
        Some(0),
        "{}",
        text(&resolved.stderr)
    );
    let none = run(&["conflict", "ls", "--admin", &address]).await;
    assert_eq!(none.status.code(), Some(0));
    converged(&mesh, 1, &meta).await;
    description(&mesh, "by the second").await;
}
