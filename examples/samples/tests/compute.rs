//! The compute service over real sockets, with a real image service behind it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use cheops_samples::compute::Config;
use cheops_samples::image;
use serde_json::{Value, json};
use support::{Running, deserted, start_compute, start_image};

async fn start_pair() -> (Running, Running) {
    let image = start_image(image::Config::new("west")).await;
    let compute = start_compute(Config::new("east", image.url().parse().unwrap())).await;
    (image, compute)
}

async fn upload_image(image: &Running) -> Value {
    let path = image.create_image("debian").await;
    image
        .ask("PUT", &format!("{path}/file"), &[], "kernel")
        .await;
    image.get(&path).await.json()
}

#[tokio::test]
async fn a_server_boots_from_the_image() {
    let (image, compute) = start_pair().await;
    let debian = upload_image(&image).await;
    let order = json!({ "name": "vm", "image_id": debian["id"] });
    let answer = compute.json("POST", "/servers", order).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("x-sample-site"), "east");
    let server = answer.json();
    let expected = json!({
        "id": server["id"], "name": "vm", "image_id": debian["id"], "image_name": "debian",
        "image_checksum": debian["checksum"], "booted_at": "east", "status": "ACTIVE",
    });
    assert_eq!(server, expected);
    let path = answer.header("location");
    assert_eq!(compute.get(path).await.json(), server);
    assert_eq!(
        compute.get("/servers").await.json(),
        json!({ "servers": [server] })
    );
    assert_eq!(compute.ask("DELETE", path, &[], "").await.status, 204);
    assert_eq!(compute.get(path).await.status, 404);
}

#[tokio::test]
async fn only_the_request_id_goes_along_and_comes_back() {
    let (image, compute) = start_pair().await;
    let id = upload_image(&image).await["id"].clone();
    let headers = [
        ("x-request-id", "req-1"),
        ("x-scope", "a"),
        ("baggage", "b=c"),
    ];
    let body = json!({ "name": "vm", "image_id": id }).to_string();
    let answer = compute.ask("POST", "/servers", &headers, body).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("x-request-id")),
        (201, "req-1")
    );
    let seen = image.get("/debug/seen").await.json()["seen"]
        .as_array()
        .unwrap()
        .clone();
    let [.., description, content] = seen.as_slice() else {
        panic!("two requests at least")
    };
    assert_eq!(
        content["path"],
        format!("/images/{}/file", id.as_str().unwrap())
    );
    for request in [description, content] {
        let mut names: Vec<_> = request["headers"].as_object().unwrap().keys().collect();
        names.sort();
        assert_eq!(names, ["host", "x-request-id"]);
        assert_eq!(request["headers"]["x-request-id"], "req-1");
    }
}

#[tokio::test]
async fn a_refusal_of_the_image_service_is_a_failed_dependency() {
    let (_image, compute) = start_pair().await;
    let order = json!({ "name": "vm", "image_id": "none" });
    let answer = compute.json("POST", "/servers", order).await;
    assert_eq!(answer.status, 424);
    let error = r#"image service answered 404: {"error":"no image none"}"#;
    assert_eq!(answer.json()["error"], error);
    assert_eq!(
        compute.get("/servers").await.json(),
        json!({ "servers": [] })
    );
}

#[tokio::test]
async fn an_absent_image_service_is_a_failed_dependency() {
    let url = format!("http://{}", deserted().await).parse().unwrap();
    let compute = start_compute(Config::new("east", url)).await;
    let answer = compute
        .json("POST", "/servers", json!({ "name": "vm", "image_id": 1 }))
        .await;
    assert_eq!(answer.status, 424);
    assert!(
        answer.json()["error"]
            .as_str()
            .unwrap()
            .starts_with("image service unreachable")
    );
}

#[tokio::test]
async fn an_id_cannot_lead_to_another_path() {
    let (image, compute) = start_pair().await;
    let order = json!({ "name": "vm", "image_id": "../debug/seen?x=" });
    assert_eq!(compute.json("POST", "/servers", order).await.status, 424);
    let seen = image.get("/debug/seen").await.json();
    assert_eq!(seen["seen"][0]["path"], "/images/..%2Fdebug%2Fseen%3Fx%3D");
}

/// Asks until the server is no longer being built.
async fn built(compute: &Running, path: &str) -> Value {
    loop {
        let server = compute.get(path).await.json();
        if server["status"] != "BUILD" {
            return server;
        }
    }
}

#[tokio::test]
async fn an_async_server_is_built_after_the_answer() {
    let (image, compute) = start_pair().await;
    let debian = upload_image(&image).await;
    let body = json!({ "name": "vm", "image_id": debian["id"] }).to_string();
    let headers = [("x-request-id", "req-2")];
    let answer = compute
        .ask("POST", "/servers?async=true", &headers, body)
        .await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["status"]),
        (202, &json!("BUILD"))
    );
    let server = built(&compute, answer.header("location")).await;
    assert_eq!(server["status"], "ACTIVE");
    assert_eq!(server["image_checksum"], debian["checksum"]);
    let seen = image.get("/debug/seen").await.json();
    let last = seen["seen"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["headers"]["x-request-id"], "req-2");
}

#[tokio::test]
async fn an_async_server_without_image_ends_in_error() {
    let (_image, compute) = start_pair().await;
    let order = json!({ "name": "vm", "image_id": "none" });
    let answer = compute.json("POST", "/servers?async=true", order).await;
    let server = built(&compute, answer.header("location")).await;
    assert_eq!(server["status"], "ERROR");
    assert!(server["error"].as_str().unwrap().contains("404"));
}

#[tokio::test]
async fn wrong_orders_are_refused() {
    let (_image, compute) = start_pair().await;
    for order in [
        json!({}),
        json!({ "name": "vm" }),
        json!({ "name": 1, "image_id": 1 }),
    ] {
        assert_eq!(compute.json("POST", "/servers", order).await.status, 400);
    }
    assert_eq!(
        compute.json("PUT", "/servers/1", json!({})).await.status,
        405
    );
    assert_eq!(
        compute.json("PATCH", "/servers", json!({})).await.status,
        405
    );
}
