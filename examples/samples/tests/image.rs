//! The image service over real sockets.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use cheops_samples::IdForm;
use cheops_samples::image::Config;
use serde_json::json;
use support::start_image;

#[tokio::test]
async fn a_created_image_has_the_clients_fields_and_the_services() {
    let image = start_image(Config::new("west")).await;
    let created = image
        .json(
            "POST",
            "/images",
            json!({ "name": "debian", "os": { "arch": "arm" } }),
        )
        .await;
    assert_eq!(created.status, 201);
    assert_eq!(created.header("x-sample-site"), "west");
    let object = created.json();
    let id = object["id"].as_str().unwrap();
    assert_eq!(id.len(), 36);
    assert_eq!(created.header("location"), format!("/images/{id}"));
    let expected = json!({
        "id": id, "name": "debian", "os": { "arch": "arm" }, "status": "queued", "size": 0,
        "checksum": null, "self": format!("/images/{id}"),
    });
    assert_eq!(object, expected);
    assert_eq!(image.get(created.header("location")).await.json(), expected);
}

#[tokio::test]
async fn integer_ids_count_from_one() {
    let config = Config {
        ids: IdForm::Integer,
        ..Config::new("west")
    };
    let image = start_image(config).await;
    assert_eq!(image.create_image("a").await, "/images/1");
    assert_eq!(image.create_image("b").await, "/images/2");
    assert_eq!(image.get("/images/2").await.json()["id"], 2);
}

#[tokio::test]
async fn a_patch_merges_and_a_put_replaces() {
    let image = start_image(Config::new("west")).await;
    let created = image
        .json("POST", "/images", json!({ "name": "a", "x": 1, "y": 2 }))
        .await;
    let path = created.header("location");
    let patched = image
        .json("PATCH", path, json!({ "x": 3, "y": null, "z": 4 }))
        .await
        .json();
    assert_eq!((&patched["x"], &patched["z"]), (&json!(3), &json!(4)));
    assert!(patched.get("y").is_none());
    let replaced = image
        .json("PUT", path, json!({ "name": "b", "w": 5 }))
        .await
        .json();
    assert_eq!(
        (&replaced["name"], &replaced["w"]),
        (&json!("b"), &json!(5))
    );
    assert!(replaced.get("x").is_none());
    assert_eq!(
        image.json("PUT", path, replaced.clone()).await.json(),
        replaced
    );
}

#[tokio::test]
async fn a_deleted_image_is_gone() {
    let image = start_image(Config::new("west")).await;
    let path = image.create_image("a").await;
    assert_eq!(image.ask("DELETE", &path, &[], "").await.status, 204);
    assert_eq!(image.get(&path).await.status, 404);
    assert_eq!(image.ask("DELETE", &path, &[], "").await.status, 404);
}

#[tokio::test]
async fn pages_lead_to_each_other_and_keep_the_filter() {
    let image = start_image(Config::new("west")).await;
    let (first, _) = (
        image.create_image("a b").await,
        image.create_image("other").await,
    );
    let (second, third) = (
        image.create_image("a b").await,
        image.create_image("a b").await,
    );
    let page = image.get("/images?name=a+b&limit=2").await.json();
    let paths: Vec<_> = page["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| &i["self"])
        .collect();
    assert_eq!(paths, [&json!(first), &json!(second)]);
    let page = image.get(page["next"].as_str().unwrap()).await.json();
    assert_eq!(page["images"].as_array().unwrap().len(), 1);
    assert_eq!(page["images"][0]["self"], third);
    assert!(page.get("next").is_none());
    assert_eq!(
        image.get("/images").await.json()["images"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
}

#[tokio::test]
async fn wrong_requests_are_refused_with_a_reason() {
    let image = start_image(Config::new("west")).await;
    let path = image.create_image("a").await;
    let json_type = ("content-type", "application/json");
    let huge = format!("{{\"name\":\"{}\"}}", "x".repeat(2 << 20));
    let cases = [
        ("POST", "/images", json_type, "{", 400),
        ("POST", "/images", json_type, "[]", 400),
        ("POST", "/images", json_type, "{}", 400),
        (
            "POST",
            "/images",
            json_type,
            r#"{"name":"a","id":"mine"}"#,
            400,
        ),
        ("POST", "/images", json_type, &huge, 413),
        ("POST", "/images", ("content-type", "text/plain"), "{}", 415),
        ("PATCH", &path, json_type, r#"{"id":"mine"}"#, 400),
        ("PATCH", &path, json_type, r#"{"name":null}"#, 400),
        ("PUT", &path, json_type, r#"{"name":"a","id":"mine"}"#, 400),
        ("PUT", "/images/none", json_type, r#"{"name":"a"}"#, 404),
        ("PUT", "/images/none/file", json_type, "", 404),
        ("GET", "/images?limit=0", json_type, "", 400),
        ("GET", "/images?marker=none", json_type, "", 400),
        ("GET", "/elsewhere", json_type, "", 404),
        ("DELETE", "/images", json_type, "", 405),
        ("POST", &path, json_type, "{}", 405),
    ];
    for (method, path, header, body, status) in cases {
        let answer = image.ask(method, path, &[header], body.to_owned()).await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(answer.json()["error"].is_string(), "{method} {path}");
        assert_eq!(answer.header("x-sample-site"), "west");
    }
}

#[tokio::test]
async fn health_is_told_and_what_was_seen_is_remembered() {
    let image = start_image(Config::new("west")).await;
    assert_eq!(image.get("/healthz").await.status, 200);
    image
        .ask(
            "GET",
            "/images?limit=1",
            &[("x-odd", "1"), ("x-odd", "2")],
            "",
        )
        .await;
    let seen = image.get("/debug/seen").await.json();
    assert_eq!(seen["seen"].as_array().unwrap().len(), 1);
    assert_eq!(seen["seen"][0]["method"], "GET");
    assert_eq!(seen["seen"][0]["path"], "/images?limit=1");
    assert_eq!(seen["seen"][0]["headers"]["x-odd"], "1, 2");
}

#[tokio::test]
async fn it_ends_with_its_future() {
    let image = start_image(Config::new("west")).await;
    image.create_image("a").await;
    let address = image.address;
    drop(image);
    // The task ends when the runtime comes round to it: the loop waits for just that.
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
