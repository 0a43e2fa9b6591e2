//! The admin API, and the pages on every service's listener.

use serde_json::{Value, json};

use crate::common::client::{Answer, admin, ask, get};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;

async fn explain(mesh: &Mesh, question: &str) -> Answer {
    let headers = [("Host", "localhost"), ("Content-Type", "application/json")];
    let address = mesh.site(1).admin;
    ask(
        address,
        "POST",
        "/v1/scope/explain",
        &headers,
        question.as_bytes(),
    )
    .await
}

#[tokio::test]
async fn health_and_sites_have_the_members_of_the_contract() {
    let mesh = Setup::of(2).start().await;
    let health = admin(mesh.site(1).admin, "/v1/health").await;
    assert_eq!(
        (health.status, &health.json()["site"]),
        (200, &json!("site1"))
    );
    assert_eq!(health.json()["ready"], true);
    assert!(health.json()["version"].is_string());
    let here = mesh.seen_from(1, 1).await.unwrap();
    let there = eventually("a round trip is measured", || async {
        let seen = mesh.seen_from(1, 2).await?;
        seen["rtt_ms"].is_f64().then_some(seen)
    })
    .await;
    let members = [
        "name",
        "mark",
        "since",
        "last_heard_ms",
        "rtt_ms",
        "rtt_error_ms",
        "behind",
        "queued",
        "labels",
        "services",
        "parent",
    ];
    for item in [&here, &there] {
        for member in members {
            assert!(item.as_object().unwrap().contains_key(member), "{member}");
        }
        assert_eq!(item["mark"], "connected");
        assert_eq!(item["services"], json!(["compute", "image"]));
    }
    assert_eq!(here["last_heard_ms"], Value::Null);
    assert_eq!(there["labels"], json!({ "number": "2" }));
    assert!(there["last_heard_ms"].is_u64());
    assert!(
        there["rtt_ms"].as_f64().is_some_and(|ms| ms >= 2.0),
        "{there}"
    );
    assert!(there["since"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn round_trips_are_told() {
    let mesh = Setup::of(2).start().await;
    let address = mesh.site(1).admin;
    let told = eventually("a round trip is measured", || async {
        let told = admin(address, "/v1/rtt?from=site1&to=site2").await.json();
        (told["measured"] == true).then_some(told)
    })
    .await;
    assert!(told["ms"].as_f64().is_some_and(|ms| ms >= 2.0), "{told}");
    let unknown = admin(address, "/v1/rtt?from=site1&to=site9").await;
    assert_eq!(
        (unknown.status, unknown.problem().as_str()),
        (404, "not-found")
    );
    assert_eq!(admin(address, "/v1/rtt").await.status, 400);
}

#[tokio::test]
async fn metrics_count_what_was_answered() {
    let mesh = Setup::of(2).start().await;
    let service = mesh.site(1).image;
    for scope in [
        None,
        Some("image: site2"),
        Some("image: site9"),
        Some("image: site2"),
    ] {
        get(service, "/images", scope).await;
    }
    let text = admin(mesh.site(1).admin, "/metrics").await;
    let text = String::from_utf8(text.body).unwrap();
    for line in [
        "cheops_requests_total{service=\"image\",class=\"2xx\"} 3",
        "cheops_requests_total{service=\"image\",class=\"4xx\"} 1",
        "cheops_requests_total{service=\"compute\",class=\"2xx\"} 0",
        "cheops_forwarded_total{service=\"image\"} 2",
        "cheops_request_seconds_count{service=\"image\"} 4",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn a_scope_is_explained_or_refused() {
    let mesh = Setup::of(2).start().await;
    let answer = explain(&mesh, "{\"scope\": \"GLANCE: site2; site1\"}").await;
    let told = answer.json();
    assert_eq!(answer.status, 200);
    assert_eq!(
        (&told["scope"], &told["at"]),
        (&json!("GLANCE: site2; site1"), &json!("site1"))
    );
    let plan = json!({ "first_of": [{ "at": "site2" }, { "at": "site1" }] });
    assert_eq!(told["services"]["image"]["plan"], plan);
    assert_eq!(
        told["services"]["compute"]["plan"],
        json!({ "at": "site1" })
    );
    let answer = explain(&mesh, "{\"scope\": \"image: here\", \"at\": \"site2\"}").await;
    assert_eq!(
        answer.json()["services"]["image"]["plan"],
        json!({ "at": "site2" })
    );
    let answer = explain(&mesh, "{\"scope\": \"image: site3\"}").await;
    let error = answer.json()["error"].clone();
    assert_eq!(
        (answer.status, &error["type"]),
        (400, &json!("unknown-site"))
    );
    assert_eq!(error["position"], json!({ "start": 7, "end": 12 }));
    for bad in [
        "",
        "{}",
        "{\"scope\": 7}",
        "{\"scope\": \"\", \"more\": 1}",
        "[]",
    ] {
        let answer = explain(&mesh, bad).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (400, "bad-request"),
            "{bad}"
        );
    }
    let answer = explain(&mesh, "{\"scope\": \"image: here\", \"at\": \"moon\"}").await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn pages_of_a_web_browser_elsewhere_are_refused() {
    let mesh = Setup::of(1).start().await;
    let address = mesh.site(1).admin;
    let port = address.port().to_string();
    let here = format!("127.0.0.1:{port}");
    let page = format!("http://{here}");
    for (headers, status) in [
        (vec![("Host", "127.0.0.1")], 200),
        (vec![("Host", "localhost:1")], 200),
        (vec![("Host", &*here), ("Origin", &*page)], 200),
        (
            vec![("Host", "localhost"), ("Origin", "http://localhost:3000")],
            200,
        ),
        (vec![("Host", "evil.example")], 403),
        (vec![("Host", "localhost.evil.example")], 403),
        (
            vec![("Host", "localhost"), ("Origin", "http://evil.example")],
            403,
        ),
        (
            vec![("Host", "localhost"), ("Origin", "http://203.0.113.9")],
            403,
        ),
        (vec![("Host", "localhost"), ("Origin", "null")], 403),
    ] {
        let answer = ask(address, "GET", "/v1/sites", &headers, b"").await;
        assert_eq!(answer.status, status, "{headers:?}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_404() {
    let mesh = Setup::of(1).start().await;
    let address = mesh.site(1).admin;
    let answer = admin(address, "/v1/nothing").await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (404, "not-found")
    );
}

#[tokio::test]
async fn whoever_made_a_request_may_ask_of_sites_at_the_service() {
    let mesh = Setup::of(2).start().await;
    let service = mesh.site(1).image;
    let answer = get(service, "/.cheops/v1/sites", None).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, "application/json")
    );
    let names: Vec<_> = answer.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["name"].clone())
        .collect();
    assert_eq!(names, ["site1", "site2"]);
    assert_eq!(answer.served_by(), "", "no service answered");
    let answer = get(service, "/.cheops/v1/operations/7", None).await;
    assert_eq!(answer.status, 404);
    assert_eq!(
        get(service, "/.cheops/v1/nothing", None).await.problem(),
        "not-found"
    );
    let seen = get(mesh.site(1).image_service, "/debug/seen", None)
        .await
        .json();
    assert_eq!(seen["seen"], json!([]), "the service was not asked");
}
