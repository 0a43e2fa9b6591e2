//! `cheops scope check | fmt | explain`: exit codes, what goes where, and the shapes of the contract.

use std::process::Output;

use serde_json::{Value, json};

use crate::common::agent::{program, run, run_with, text};
use crate::common::setup::Setup;

const WORLD: &str = r#"
here = "site1"
[service.image]
aliases = ["glance"]
[service.compute]
[site.site1]
labels = { region = "west" }
[site.site2]
labels = { region = "west" }
reachable = false
[site."DC 1"]
[[rtt]]
between = ["site1", "site2"]
ms = 12.5
"#;

/// A world file that ends with the value.
fn world() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), WORLD).unwrap();
    file
}

async fn scope(arguments: &[&str]) -> Output {
    run(&[&["scope"], arguments].concat()).await
}

fn json_of(output: &Output) -> Value {
    assert_eq!(text(&output.stderr), "", "JSON goes to stdout alone");
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn explained(world: &tempfile::NamedTempFile, arguments: &[&str]) -> Value {
    let file = world.path().to_str().unwrap();
    let all = [&["explain", "--world", file, "-o", "json"], arguments].concat();
    let output = scope(&all).await;
    assert!(output.status.success());
    json_of(&output)
}

#[tokio::test]
async fn a_valid_scope_is_exit_0_and_silent() {
    for good in ["compute: site1, image: site2", "{}", "a: strong(b & c)"] {
        let output = scope(&["check", good]).await;
        assert_eq!(output.status.code(), Some(0), "{good}");
        assert_eq!((output.stdout.len(), output.stderr.len()), (0, 0), "{good}");
    }
    let output = scope(&["check", "-o", "json", "{ image : site1%site2 , }"]).await;
    assert_eq!(json_of(&output), json!({ "scope": "image: site1 + site2" }));
}

#[tokio::test]
async fn an_invalid_scope_is_exit_2_with_nothing_on_stdout() {
    for bad in [
        "",
        "image",
        "image: site1 &",
        "image: a, Image: b",
        "a: nosuch(b)",
    ] {
        for command in ["check", "fmt", "explain"] {
            let output = scope(&[command, bad]).await;
            assert_eq!(output.status.code(), Some(2), "{command} {bad}");
            assert_eq!(text(&output.stdout), "", "{command} {bad}");
            let said = text(&output.stderr);
            assert!(said.starts_with("error: "), "{command} {bad}: {said}");
            assert!(said.contains('^') && !said.contains('\x1b'), "{said}");
        }
    }
}

#[tokio::test]
async fn an_error_as_json_goes_to_stdout() {
    let world = world();
    let file = world.path().to_str().unwrap();
    for command in ["check", "explain"] {
        let scoped = "compute: site1, image: site4";
        let output = scope(&[command, "--world", file, "-o", "json", scoped]).await;
        assert_eq!(output.status.code(), Some(2));
        let error = &json_of(&output)["error"];
        assert_eq!(error["type"], "unknown-site");
        assert_eq!(error["position"], json!({ "start": 23, "end": 28 }));
        assert_eq!(error["expected"], json!(["DC 1", "site1", "site2"]));
        assert_eq!(error["suggestion"], "site1");
        assert!(
            error["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty())
        );
    }
}

#[tokio::test]
async fn positions_are_of_the_name_at_fault_alone() {
    let world = world();
    let file = world.path().to_str().unwrap();
    for (scoped, kind, start, end) in [
        ("image: a, Image: b", "duplicate-service", 10, 15),
        ("image: nosuch(site1)", "unknown-function", 7, 13),
        ("volume: site1", "unknown-service", 0, 6),
        ("image: around(site1)", "missing-argument", 7, 13),
        ("image: around(site1, far)", "bad-argument", 21, 24),
        ("image: all(region=east)", "no-match", 7, 22),
        ("image: replicas(3, site1 & site2)", "bad-argument", 16, 17),
    ] {
        let output = scope(&["check", "--world", file, "-o", "json", scoped]).await;
        let error = json_of(&output)["error"].clone();
        assert_eq!(error["type"], kind, "{scoped}");
        if kind != "no-match" {
            let position = json!({ "start": start, "end": end });
            assert_eq!(error["position"], position, "{scoped}");
        }
    }
}

#[tokio::test]
async fn a_dash_reads_standard_input() {
    let output = run_with(&["scope", "fmt", "-"], b" image :\n site1||site2 \n").await;
    assert_eq!(text(&output.stdout), "image: site1; site2\n");
    assert!(output.status.success());
    let output = run_with(&["scope", "check", "-"], b"image: site1 &\n").await;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let output = run_with(&["scope", "check", "-o", "json", "-"], &[b'a'; 5000]).await;
    assert_eq!(json_of(&output)["error"]["type"], "too-long");
    let output = run_with(&["scope", "check", "-o", "json", "-"], b"image: \xff\xfe").await;
    assert_eq!(json_of(&output)["error"]["type"], "syntax");
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn explain_names_services_as_registered_and_lists_the_unbound() {
    let world = world();
    let found = explained(&world, &["GLANCE: site2"]).await;
    assert_eq!(found["scope"], "GLANCE: site2");
    assert_eq!(found["at"], "site1");
    let services = json!({
        "image": { "plan": { "at": "site2" } },
        "compute": { "plan": { "at": "site1" } },
    });
    assert_eq!(found["services"], services);
}

#[tokio::test]
async fn explain_at_moves_here() {
    let world = world();
    let found = explained(&world, &["--at", "DC 1", "image: here"]).await;
    assert_eq!(found["at"], "DC 1");
    assert_eq!(found["services"]["image"]["plan"], json!({ "at": "DC 1" }));
    assert_eq!(
        found["services"]["compute"]["plan"],
        json!({ "at": "DC 1" })
    );
}

#[tokio::test]
async fn explain_shows_every_kind_of_plan() {
    let world = world();
    let eventual = json!({ "kind": "eventual" });
    let both = json!([{ "at": "site1" }, { "at": "site2" }]);
    for (scoped, plan) in [
        ("site1", json!({ "at": "site1" })),
        ("site1 & site1", json!({ "at": "site1" })),
        (
            "site1 & site2",
            json!({ "replicate": { "of": both, "guarantee": eventual } }),
        ),
        (
            "site1 + site2",
            json!({ "span": { "of": both, "guarantee": eventual } }),
        ),
        ("site1; site2", json!({ "first_of": both })),
        ("around(site1, 13ms)", json!({ "first_of": both })),
        ("around(site1, 12ms)", json!({ "at": "site1" })),
        (
            "eventual(site2, ttl=24h)",
            json!({ "queue": { "at": "site2", "guarantee": { "kind": "eventual", "ttl_ms": 86_400_000 } } }),
        ),
        (
            "strong(all(region=west), read=local)",
            json!({ "replicate": { "of": both, "guarantee": { "kind": "strong", "read": "local" } } }),
        ),
        (
            "replicas(1, site1 & site2)",
            json!({ "keep": { "count": 1, "of": both, "guarantee": eventual } }),
        ),
    ] {
        let found = explained(&world, &[&format!("image: {scoped}")]).await;
        assert_eq!(found["services"]["image"]["plan"], plan, "{scoped}");
    }
}

#[tokio::test]
async fn a_world_file_is_used_also_where_an_agent_is_named_by_the_environment() {
    let world = world();
    let output = program()
        .args(["scope", "explain", "-o", "json", "--world"])
        .arg(world.path())
        .arg("image: site2")
        .env("CHEOPS_ADMIN", "127.0.0.1:1")
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[tokio::test]
async fn a_running_agent_explains_as_a_world_file_does() {
    let mesh = Setup::of(1).start().await;
    let admin = mesh.site(1).admin.to_string();
    let asked = ["explain", "--admin", &admin, "-o", "json"];
    let output = scope(&[&asked[..], &["glance: site1"]].concat()).await;
    let found = json_of(&output);
    assert_eq!(found["services"]["image"]["plan"], json!({ "at": "site1" }));
    assert_eq!(found["at"], "site1");
    let output = scope(&[&asked[..], &["glance: site9"]].concat()).await;
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json_of(&output)["error"]["type"], "unknown-site");
    let output = scope(&["explain", "--admin", &admin, "glance: site9"]).await;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let output = scope(&["explain", "--admin", "127.0.0.1:1", "image: site1"]).await;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(text(&output.stderr).contains("127.0.0.1:1"));
}
