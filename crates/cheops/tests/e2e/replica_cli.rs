//! `cheops resource | op | conflict | wait`: exit codes, what is printed, and how wide.

use std::process::Output;

use cheops_engine::replication::api::Resource;
use serde_json::{Value, json};

use crate::common::agent::{run, text};
use crate::common::client::{admin, ask};
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::replicas::{at, create, in_path, wait_held};

/// Runs a command that asks a site's agent; no line it prints is too wide.
pub(crate) async fn cheops(mesh: &Mesh, site: usize, arguments: &[&str]) -> Output {
    let address = mesh.site(site).admin.to_string();
    let output = run(&[arguments, &["--admin", &address]].concat()).await;
    for line in text(&output.stdout).lines() {
        assert!(
            line.chars().count() <= 100 || line.starts_with(['{', ' ']),
            "{line}"
        );
    }
    output
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[tokio::test]
async fn a_resource_is_listed_shown_compared_and_waited_for() {
    let mesh = Setup::of(2).start().await;
    let none = cheops(&mesh, 1, &["resource", "ls"]).await;
    assert_eq!(
        (code(&none), text(&none.stdout).trim()),
        (0, "ID  SERVICE  KIND  LEADER  STATE  AGE")
    );
    let (meta, made) = create(&mesh, 1, "debian").await;
    let waited = cheops(&mesh, 1, &["wait", "--for=converged", &meta]).await;
    assert_eq!((code(&waited), waited.stdout.len()), (0, 0));
    assert_eq!(
        code(&cheops(&mesh, 1, &["wait", "--for=converged"]).await),
        0
    );
    assert_eq!(
        code(&cheops(&mesh, 1, &["wait", "--for=connected", "site2"]).await),
        0
    );

    let listed = cheops(&mesh, 1, &["resource", "ls", "--service", "image"]).await;
    let table = text(&listed.stdout);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        row[..5],
        [meta.as_str(), "image", "images", "site1", "same"],
        "{table}"
    );
    let shown = cheops(&mesh, 1, &["resource", "show", &meta]).await;
    let page = text(&shown.stdout);
    assert!(page.contains("eventual, led by site1 (epoch 1)"), "{page}");
    for site in [1, 2] {
        let local = in_path(&wait_held(&mesh, site, "debian").await["id"]);
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("site{site}")));
        let row: Vec<&str> = row.unwrap().split_whitespace().collect();
        assert_eq!(
            row[1..],
            [local.as_str(), "live", "1", "of", "1", "-"],
            "{page}"
        );
    }
    let printed = cheops(&mesh, 1, &["resource", "show", &meta, "-o", "json"]).await;
    let told = admin(mesh.site(1).admin, &format!("/v1/resources/{meta}")).await;
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed, told.json());
    serde_json::from_value::<Resource>(printed).unwrap();

    let same = cheops(&mesh, 1, &["resource", "diff", &meta]).await;
    assert_eq!(
        (code(&same), text(&same.stdout).trim()),
        (0, "the same everywhere")
    );
    let operation = made.header("x-cheops-operation");
    let shown = cheops(&mesh, 2, &["op", "show", operation]).await;
    let page = text(&shown.stdout);
    assert_eq!(code(&shown), 0, "{page}");
    assert!(page.contains("create\nPOST /images\n"), "{page}");
    let none = cheops(&mesh, 1, &["conflict", "ls"]).await;
    assert_eq!((code(&none), text(&none.stdout).lines().count()), (0, 1));
}

#[tokio::test]
async fn what_needs_attention_is_exit_1_and_what_fails_exit_2() {
    let mesh = Setup::of(2).start().await;
    let (meta, _) = create(&mesh, 1, "debian").await;
    wait_held(&mesh, 2, "debian").await;
    assert_eq!(
        code(&cheops(&mesh, 1, &["wait", "--for=converged"]).await),
        0
    );
    let local = in_path(&wait_held(&mesh, 2, "debian").await["id"]);
    let json_body = [("Content-Type", "application/json")];
    let path = format!("/images/{local}");
    ask(
        mesh.site(2).image_service,
        "PATCH",
        &path,
        &json_body,
        br#"{"min_disk": 9}"#,
    )
    .await;
    let drift = cheops(&mesh, 1, &["resource", "diff", &meta]).await;
    let told = text(&drift.stdout);
    assert_eq!(code(&drift), 1);
    assert!(
        told.starts_with("not the same everywhere\nmin_disk\n  site1: 7\n  site2: 9\n"),
        "{told}"
    );

    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let path = format!("/images/{meta}");
    let changed = at(&mesh, 1, "PATCH", &path, "", json!({ "description": "x" })).await;
    let operation = changed.header("x-cheops-operation");
    let listed = cheops(&mesh, 1, &["op", "ls", "--state", "queued"]).await;
    let row = text(&listed.stdout).lines().nth(1).unwrap().to_owned();
    let row: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(row[..4], [operation, "update", meta.as_str(), "queued"]);
    for (words, says) in [
        (
            ["wait", "--for=converged", "--timeout=200ms"],
            "cheops resource ls",
        ),
        (
            ["wait", "--for=connected", "--timeout=200ms"],
            "site2 is autonomous",
        ),
    ] {
        let late = cheops(&mesh, 1, &words).await;
        assert_eq!(code(&late), 1, "{words:?}");
        assert!(text(&late.stderr).contains(says), "{}", text(&late.stderr));
    }
    let failing: [&[&str]; 5] = [
        &["resource", "show", "7"],
        &["op", "show", "7"],
        &["op", "cancel", operation],
        &["conflict", "show", "7"],
        &[
            "resource", "repair", &meta, "--site", "site2", "--how", "settle",
        ],
    ];
    for words in failing {
        let failed = cheops(&mesh, 1, words).await;
        assert_eq!(code(&failed), 2, "{words:?}");
        assert!(text(&failed.stderr).starts_with("error: "), "{words:?}");
        assert_eq!(failed.stdout.len(), 0, "{words:?}");
    }
}
