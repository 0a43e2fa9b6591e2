//! What is told of replicas: `/v1/resources`, `/v1/operations`, `/v1/conflicts`, `/.cheops/v1`.

use serde_json::{Value, json};

use crate::common::client::{Answer, admin, ask, get};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::replicas::{at, create, held, in_path, wait_held};

const LOCAL: (&str, &str) = ("Host", "localhost");

/// `POST` to a site's admin API.
pub(crate) async fn order(mesh: &Mesh, site: usize, path: &str, body: Value) -> Answer {
    let text = body.to_string();
    ask(
        mesh.site(site).admin,
        "POST",
        path,
        &[LOCAL],
        text.as_bytes(),
    )
    .await
}

/// A resource as a site tells it, once it is the same everywhere.
pub(crate) async fn converged(mesh: &Mesh, site: usize, id: &str) -> Value {
    let path = format!("/v1/resources/{id}");
    eventually("it is the same everywhere", || async {
        let told = admin(mesh.site(site).admin, &path).await;
        (told.status == 200 && told.json()["converged"] == true).then(|| told.json())
    })
    .await
}

#[tokio::test]
async fn a_resource_is_told_by_either_id_with_what_each_site_has() {
    let mesh = Setup::of(3).start().await;
    let (meta, _) = create(&mesh, 1, "debian").await;
    for site in [1, 2] {
        let local = in_path(&wait_held(&mesh, site, "debian").await["id"]);
        let told = converged(&mesh, site, &meta).await;
        assert_eq!(told, converged(&mesh, site, &local).await);
        assert_eq!(
            (&told["id"], &told["service"], &told["kind"], &told["form"]),
            (
                &json!(meta),
                &json!("image"),
                &json!("images"),
                &json!("replica")
            )
        );
        assert_eq!(told["guarantee"], json!({ "kind": "eventual" }));
        assert_eq!(
            (&told["leader"], &told["epoch"]),
            (&json!("site1"), &json!(1))
        );
        assert_eq!(told["scope"], "image: site1 & site2");
        assert!(told["created"].as_str().unwrap().ends_with('Z'));
        let replica = &told["replicas"][format!("site{site}")];
        assert_eq!(
            *replica,
            json!({ "local_id": local, "state": "live", "position": 1, "waiting": null })
        );
        assert_eq!(told["replicas"].as_object().unwrap().len(), 2);
    }

    let page = admin(mesh.site(1).admin, &format!("/v1/resources/{meta}")).await;
    let tag = page.header("etag").to_owned();
    let headers = [LOCAL, ("If-None-Match", tag.as_str())];
    let path = format!("/v1/resources/{meta}");
    let same = ask(mesh.site(1).admin, "GET", &path, &headers, b"").await;
    assert_eq!((same.status, same.body.len()), (304, 0));

    for path in [&*path, "/v1/resources/7", "/v1/resources/7/diff"] {
        let unknown = admin(mesh.site(3).admin, path).await;
        assert_eq!(
            (unknown.status, unknown.problem().as_str()),
            (404, "not-found")
        );
    }
    let none = admin(mesh.site(3).admin, "/v1/resources").await.json();
    assert_eq!(none, json!({ "items": [], "next": null }));
}

#[tokio::test]
async fn lists_come_in_pages_and_are_filtered() {
    let mesh = Setup::of(2).start().await;
    let mut made = Vec::new();
    for number in 0..5 {
        made.push(create(&mesh, 1, &format!("image {number}")).await.0);
    }
    for id in &made {
        converged(&mesh, 1, id).await;
    }
    made.sort();
    let (mut seen, mut path) = (Vec::new(), "/v1/resources?limit=2".to_owned());
    for _ in 0..3 {
        let page = admin(mesh.site(1).admin, &path).await.json();
        let items = page["items"].as_array().unwrap().iter();
        seen.extend(items.map(|item| in_path(&item["id"])));
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/resources?limit=2&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, made);
    for (filter, count) in [
        ("service=image", 5),
        ("service=compute", 0),
        ("state=live", 5),
        ("state=diverged", 0),
        ("converged=true", 5),
    ] {
        let page = admin(mesh.site(1).admin, &format!("/v1/resources?{filter}")).await;
        assert_eq!(
            page.json()["items"].as_array().unwrap().len(),
            count,
            "{filter}"
        );
    }
    for bad in ["cursor=x", "limit=x", "colour=red"] {
        let refused = admin(mesh.site(1).admin, &format!("/v1/resources?{bad}")).await;
        assert_eq!(refused.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn the_backlog_of_a_site_that_is_cut_off_is_told_and_drains() {
    let mesh = Setup::of(2).start().await;
    let (meta, _) = create(&mesh, 1, "debian").await;
    converged(&mesh, 1, &meta).await;
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let path = format!("/images/{meta}");
    let changed = at(
        &mesh,
        1,
        "PATCH",
        &path,
        "",
        json!({ "description": "new" }),
    )
    .await;
    let operation = changed.header("x-cheops-operation").to_owned();
    let page = format!("/v1/operations/{operation}");
    let told = admin(mesh.site(1).admin, &page).await.json();
    assert_eq!(
        (
            &told["id"],
            &told["resource"],
            &told["kind"],
            &told["method"],
            &told["path"]
        ),
        (
            &json!(operation),
            &json!(meta),
            &json!("update"),
            &json!("PATCH"),
            &json!(path)
        )
    );
    assert_eq!(told["sites"]["site1"]["state"], "applied");
    assert_eq!(told["sites"]["site1"]["status"], 200);
    assert_eq!(told["sites"]["site2"]["state"], "queued");
    assert!(told["created"].is_string() && told["expires"].is_null());
    let seen = mesh.seen_from(1, 2).await.unwrap();
    assert_eq!((&seen["behind"], &seen["queued"]), (&json!(1), &json!(1)));
    let late = admin(mesh.site(1).admin, "/v1/resources?converged=false")
        .await
        .json();
    assert_eq!(late["items"][0]["replicas"]["site2"]["position"], 1);
    let listed = admin(mesh.site(1).admin, "/v1/operations?state=queued")
        .await
        .json();
    assert_eq!(listed["items"][0]["id"], json!(operation));
    let too_late = order(&mesh, 1, &format!("{page}/cancel"), json!({})).await;
    assert_eq!(
        (too_late.status, too_late.problem().as_str()),
        (409, "conflict")
    );
    let text = admin(mesh.site(1).admin, "/metrics").await.body;
    let text = String::from_utf8(text).unwrap();
    for line in [
        "cheops_operations_total{answer=\"answered\"} 2",
        "cheops_replicants{service=\"image\",state=\"live\"} 1",
        "cheops_behind{site=\"site2\"} 1",
        "cheops_queued{site=\"site2\"} 1",
        "cheops_outbox 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }

    mesh.heal(2);
    converged(&mesh, 1, &meta).await;
    let seen = mesh.seen_from(1, 2).await.unwrap();
    assert_eq!((&seen["behind"], &seen["queued"]), (&json!(0), &json!(0)));
    assert_eq!(seen["mark"], "connected");
}

#[tokio::test]
async fn what_was_taken_for_a_leader_out_of_reach_can_be_followed_and_cancelled() {
    let mesh = Setup::of(2).start().await;
    let (meta, _) = create(&mesh, 1, "debian").await;
    converged(&mesh, 2, &meta).await;
    mesh.cut(2);
    mesh.wait_mark(2, 1, "autonomous").await;
    let path = format!("/images/{meta}");
    let headers = [
        ("Content-Type", "application/json"),
        ("Prefer", "respond-async"),
    ];
    let body = br#"{"description": "kept"}"#;
    let taken = ask(mesh.site(2).image, "PATCH", &path, &headers, body).await;
    assert_eq!(taken.status, 202);
    let url = taken.header("location");
    assert_eq!(url, taken.header("x-cheops-operation-url"));
    let told = get(mesh.site(2).image, url, None).await;
    assert_eq!(told.status, 200, "{told:?}");
    assert_eq!(told.json()["sites"]["site1"]["state"], "queued");
    let seen = mesh.seen_from(2, 1).await.unwrap();
    assert_eq!(seen["queued"], 1);

    // The leader may have been told: only it can take it back.
    let id = taken.header("x-cheops-operation");
    let kept = order(&mesh, 2, &format!("/v1/operations/{id}/cancel"), json!({})).await;
    assert_eq!(kept.status, 409, "{kept:?}");
    mesh.heal(2);
    eventually("the leader has done it", || async {
        let held = held(&mesh, 1, "debian").await;
        (held[0]["description"] == "kept").then_some(())
    })
    .await;
}

#[tokio::test]
async fn differences_made_behind_the_agents_backs_are_shown_and_a_site_is_told_to_settle() {
    let mesh = Setup::of(3).start().await;
    let (meta, _) = create(&mesh, 1, "debian").await;
    converged(&mesh, 1, &meta).await;
    let page = format!("/v1/resources/{meta}/diff");
    let same = admin(mesh.site(1).admin, &page).await.json();
    assert_eq!(
        (&same["same"], &same["differences"]),
        (&json!(true), &json!([]))
    );
    for site in ["site1", "site2"] {
        assert_eq!(same["sites"][site]["status"], 200);
        assert_eq!(in_path(&same["sites"][site]["body"]["id"]), meta);
    }

    let local = in_path(&wait_held(&mesh, 2, "debian").await["id"]);
    let service = mesh.site(2).image_service;
    let path = format!("/images/{local}");
    let json_body = [("Content-Type", "application/json")];
    let changed = ask(service, "PATCH", &path, &json_body, br#"{"min_disk": 9}"#).await;
    assert_eq!(changed.status, 200);
    let drift = admin(mesh.site(1).admin, &page).await.json();
    assert_eq!(drift["same"], false);
    assert_eq!(
        drift["differences"],
        json!([{ "field": "min_disk", "values": { "site1": 7, "site2": 9 } }])
    );

    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let alone = admin(mesh.site(1).admin, &page).await.json();
    assert_eq!(alone["same"], Value::Null);
    assert!(
        alone["sites"]["site2"]["error"]
            .as_str()
            .unwrap()
            .contains("reached")
    );
    let mend = json!({ "site": "site2", "how": "settle" });
    let repair = format!("/v1/resources/{meta}/repair");
    let away = order(&mesh, 1, &repair, mend.clone()).await;
    assert_eq!(
        (away.status, away.problem().as_str()),
        (503, "site-unreachable")
    );
    assert_eq!(away.json()["sites"], json!(["site2"]));
    mesh.heal(2);
    mesh.wait_mark(1, 2, "connected").await;

    for bad in [
        json!({ "site": "site3", "how": "settle" }),
        json!({ "site": "site2", "how": "pray" }),
        json!({}),
    ] {
        assert_eq!(order(&mesh, 1, &repair, bad).await.status, 400);
    }
    let mended = order(&mesh, 1, &repair, mend.clone()).await;
    assert_eq!((mended.status, &mended.json()["id"]), (200, &json!(meta)));
    eventually("the drift is mended", || async {
        let now = admin(mesh.site(1).admin, &page).await.json();
        (now["same"] == true).then_some(())
    })
    .await;
    assert_eq!(wait_held(&mesh, 2, "debian").await["min_disk"], 7);

    // Removed behind the agents' backs: shown, and made again when somebody says so.
    assert_eq!(ask(service, "DELETE", &path, &[], b"").await.status, 204);
    let drift = admin(mesh.site(1).admin, &page).await.json();
    assert_eq!(
        (&drift["same"], &drift["sites"]["site2"]["status"]),
        (&json!(false), &json!(404))
    );
    assert_eq!(order(&mesh, 1, &repair, mend).await.status, 200);
    wait_held(&mesh, 2, "debian").await;
    eventually("it is there again", || async {
        let now = admin(mesh.site(1).admin, &page).await.json();
        (now["same"] == true).then_some(())
    })
    .await;
}

#[tokio::test]
async fn another_site_is_promoted_and_leads() {
    let mesh = Setup::of(2).start().await;
    let (meta, _) = create(&mesh, 1, "debian").await;
    converged(&mesh, 1, &meta).await;
    let page = format!("/v1/resources/{meta}/promote");
    let told = order(&mesh, 1, &page, json!({ "site": "site2" })).await;
    assert_eq!(told.status, 200, "{told:?}");
    for site in [1, 2] {
        eventually("site2 leads", || async {
            let path = format!("/v1/resources/{meta}");
            let told = admin(mesh.site(site).admin, &path).await.json();
            (told["leader"] == "site2").then_some(())
        })
        .await;
    }
    mesh.cut(2);
    mesh.wait_mark(2, 1, "autonomous").await;
    let path = format!("/images/{meta}");
    let changed = at(&mesh, 2, "PATCH", &path, "", json!({ "description": "x" })).await;
    assert_eq!(changed.status, 200, "{changed:?}");
}

#[tokio::test]
async fn whoever_has_the_id_may_ask_at_any_site() {
    let mesh = Setup::of(3).start().await;
    let (meta, made) = create(&mesh, 1, "debian").await;
    converged(&mesh, 2, &meta).await;
    let operation = made.header("x-cheops-operation");
    for site in 1..=3 {
        let address = mesh.site(site).image;
        let told = get(
            address,
            &format!("/.cheops/v1/operations/{operation}"),
            None,
        )
        .await;
        assert_eq!(
            (told.status, told.served_by()),
            (200, ""),
            "site{site} {told:?}"
        );
        assert_eq!(told.json()["resource"], json!(meta));
        let told = get(address, &format!("/.cheops/v1/resources/{meta}"), None).await;
        assert_eq!(
            (told.status, &told.json()["id"]),
            (200, &json!(meta)),
            "site{site}"
        );
        for none in [
            "operations/7",
            "resources/7",
            "operations/00000000000000000000000000000007",
        ] {
            let unknown = get(address, &format!("/.cheops/v1/{none}"), None).await;
            assert_eq!(
                (unknown.status, unknown.problem().as_str()),
                (404, "not-found")
            );
        }
    }
    // What may be decided is decided elsewhere, and a local id is no key.
    let local = in_path(&wait_held(&mesh, 1, "debian").await["id"]);
    let hidden = get(
        mesh.site(1).image,
        &format!("/.cheops/v1/resources/{local}"),
        None,
    )
    .await;
    assert_eq!(hidden.status, 404);
    let verb = format!("/.cheops/v1/resources/{meta}/promote");
    let refused = ask(mesh.site(2).image, "POST", &verb, &[], b"{}").await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (404, "not-found")
    );
}

#[tokio::test]
async fn no_conflict_is_an_empty_list() {
    let mesh = Setup::of(1).start().await;
    let none = admin(mesh.site(1).admin, "/v1/conflicts").await.json();
    assert_eq!(none, json!({ "items": [], "next": null }));
    let unknown = admin(mesh.site(1).admin, "/v1/conflicts/7").await;
    assert_eq!(
        (unknown.status, unknown.problem().as_str()),
        (404, "not-found")
    );
}
