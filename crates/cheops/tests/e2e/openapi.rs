//! `/v1/openapi.json`: what it describes answers, and answers as it is described.

use serde_json::{Value, json};

use crate::common::client::{Answer, admin, ask};
use crate::common::setup::Setup;
use crate::replicas::create;
use crate::resources::converged;

/// That a value is as a schema says: its type, and for objects every member, no less and no more.
fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(&reference[1..]).unwrap();
        return check(document, schema, value, place);
    }
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() && types.contains(&"integer") => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(types.contains(&is), "{place} is {is}, not {types:?}");
    for item in value.as_array().into_iter().flatten() {
        check(document, &schema["items"], item, place);
    }
    let Some(members) = value.as_object() else {
        return;
    };
    let known = schema["properties"].as_object();
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        assert!(members.contains_key(name), "{place} has no {name}");
    }
    for (name, value) in members {
        let place = format!("{place}.{name}");
        match (
            known.and_then(|known| known.get(name)),
            &schema["additionalProperties"],
        ) {
            (Some(schema), _) => check(document, schema, value, &place),
            (None, Value::Null) => assert!(known.is_none(), "{place} is not described"),
            (None, schema) => check(document, schema, value, &place),
        }
    }
}

#[tokio::test]
async fn every_described_page_answers_as_it_is_described() {
    let mesh = Setup::of(2).start().await;
    let (meta, made) = create(&mesh, 1, "debian").await;
    converged(&mesh, 1, &meta).await;
    let address = mesh.site(1).admin;
    let document = admin(address, "/v1/openapi.json").await.json();
    let operation = made.header("x-cheops-operation");
    let filled = |path: &str| {
        let id = match path.contains("/operations/") {
            true => operation,
            false => &meta,
        };
        let path = path.replace("{id}", id).replace("{name}", "site2");
        path.replace("{verb}", "attach")
    };
    let call = async |method: &str, path: &str| -> Answer {
        let body: &[u8] = match method {
            "post" => b"{}",
            _ => b"",
        };
        let headers = [("Host", "localhost")];
        ask(address, &method.to_uppercase(), path, &headers, body).await
    };
    for (path, methods) in document["paths"].as_object().unwrap() {
        if path == "/v1/events" {
            // It has no end.
            continue;
        }
        for (method, described) in methods.as_object().unwrap() {
            let mut target = filled(path);
            if path == "/v1/rtt" {
                target.push_str("?from=site1&to=site2");
            }
            let answer = call(method, &target).await;
            let place = format!("{method} {target}");
            let fallback = String::from_utf8_lossy(&answer.body).contains("no page");
            assert!(answer.status != 405 && !fallback, "{place}: {answer:?}");
            if method == "get" && !path.starts_with("/v1/conflicts/{id}") {
                assert_eq!(answer.status, 200, "{place}: {answer:?}");
            }
            let said = match answer.status {
                200 => &described["responses"]["200"]["content"]["application/json"],
                400 if path == "/v1/scope/explain" => continue,
                _ => &described["responses"]["default"]["content"]["application/problem+json"],
            };
            if answer.header("content-type").contains("json") {
                check(&document, &said["schema"], &answer.json(), &place);
            }
        }
    }
}

#[tokio::test]
async fn why_is_told_of_resources_and_of_operations() {
    let mesh = Setup::of(2).start().await;
    let (meta, made) = create(&mesh, 1, "debian").await;
    converged(&mesh, 1, &meta).await;
    let address = mesh.site(1).admin;
    let told = admin(address, &format!("/v1/why/{meta}")).await.json();
    assert_eq!(
        (&told["about"], &told["scope"]),
        (&json!("resource"), &json!("image: site1 & site2"))
    );
    let reasons = told["reasons"].as_array().unwrap();
    assert!(
        reasons
            .iter()
            .any(|reason| reason["site"] == "site2" && reason["state"] == "live")
    );
    let operation = made.header("x-cheops-operation");
    let told = admin(address, &format!("/v1/why/{operation}")).await.json();
    assert_eq!(
        (&told["about"], &told["scope"]),
        (&json!("operation"), &json!("image: site1 & site2"))
    );
    assert_eq!(admin(address, "/v1/why/7").await.status, 404);
    let words = ["why", operation, "--admin", &address.to_string()];
    let shown = crate::common::agent::run(&words).await;
    let page = crate::common::agent::text(&shown.stdout);
    assert_eq!(shown.status.code(), Some(0), "{page}");
    assert!(
        page.contains("asked: somebody asked for POST /images"),
        "{page}"
    );
}
