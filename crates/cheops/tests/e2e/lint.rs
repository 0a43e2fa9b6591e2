//! `cheops lint`: exit codes, what is said and where.

use serde_json::Value;

use crate::common::agent::{run, text};

fn file(folder: &tempfile::TempDir, name: &str, content: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn good_files_are_passed_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let profile = file(
        &folder,
        "shop.toml",
        "name = \"shop\"\n[[collection]]\npath = \"/orders\"\n",
    );
    let output = run(&["lint", &profile]).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[tokio::test]
async fn faults_are_told_with_file_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let odd = file(&folder, "odd.toml", "name = \"even\"\n");
    let output = run(&["lint", &odd]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("odd.toml:1: attention: key `name`"),
        "{}",
        text(&output.stderr)
    );
    let bad = file(
        &folder,
        "bad.toml",
        "name = \"bad\"\n\n[[collection]]\npath = \"/a/{name}\"\n",
    );
    let site = file(
        &folder,
        "site.toml",
        "site = \"site1\"\ndata = \"d\"\n[admin]\nlisten = \"nowhere\"\n[mesh]\nidentity = \"i\"\n",
    );
    let output = run(&["lint", &odd, &bad, &site]).await;
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(
        told.contains("bad.toml:4: error: key `collection[0].path`"),
        "{told}"
    );
    assert!(
        told.contains("site.toml:4: error: key `admin.listen`"),
        "{told}"
    );
    let output = run(&["lint", "-o", "json", &bad]).await;
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings[0]["line"], 4);
    assert_eq!(findings[0]["level"], "failed");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_an_error() {
    let output = run(&["lint", "/nowhere/x.toml"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot read /nowhere/x.toml"));
}
