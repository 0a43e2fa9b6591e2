//! World files: each fault is exit 2, says which key, and prints nothing on stdout.

use crate::common::agent::{run, text};

const GOOD: &str = r#"
here = "site1"
[service.image]
aliases = ["glance"]
[site.site1]
[site.site2]
[[rtt]]
between = ["site1", "site2"]
ms = 12.5
"#;

/// Replaces a part of the good file and asserts that `check` and `explain` name the key.
async fn check(from: &str, to: &str, key: &str) {
    assert!(GOOD.contains(from), "{from} is in the example");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), GOOD.replace(from, to)).unwrap();
    for command in ["check", "explain"] {
        let path = file.path().to_str().unwrap();
        let output = run(&["scope", command, "--world", path, "image: site1"]).await;
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command} {to}: {said}");
        assert_eq!(text(&output.stdout), "", "{command} {to}");
        assert!(said.contains(key), "{command} {to}: {said}");
    }
}

#[tokio::test]
async fn the_good_file_is_good() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), GOOD).unwrap();
    let path = file.path().to_str().unwrap();
    let output = run(&["scope", "check", "--world", path, "glance: site2"]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[tokio::test]
async fn unknown_keys_are_named() {
    check("here =", "where = 1\nhere =", "where").await;
    check("aliases", "alias", "alias").await;
    check("[site.site2]", "[site.site2]\nrechable = false", "rechable").await;
    check("ms =", "us = 1\nms =", "us").await;
}

#[tokio::test]
async fn here_is_there_and_known() {
    check("here = \"site1\"", "", "`here`").await;
    check("here = \"site1\"", "here = \"site9\"", "here").await;
    check("here = \"site1\"", "here = \"site9\"", "site9").await;
    check("here = \"site1\"", "here = 7", "here").await;
}

#[tokio::test]
async fn names_stand_once() {
    check("[site.site2]", "[site.site1]", "[site.site1]").await;
    check("[\"glance\"]", "[\"IMAGE\"]", "service.image.aliases").await;
    check(
        "[site.site2]",
        "[service.Image]\n[site.site2]",
        "key `service`",
    )
    .await;
    let twice = "[[rtt]]\nbetween = [\"site2\", \"site1\"]\nms = 1\n[[rtt]]";
    check("[[rtt]]", twice, "rtt[1].between").await;
}

#[tokio::test]
async fn round_trips_are_numbers_between_two_known_sites() {
    for bad in ["-0.5", "nan", "inf", "1e300"] {
        check("12.5", bad, "rtt[0].ms").await;
    }
    check("12.5", "\"soon\"", "ms").await;
    check(
        "[\"site1\", \"site2\"]",
        "[\"site1\", \"site9\"]",
        "rtt[0].between",
    )
    .await;
    check(
        "[\"site1\", \"site2\"]",
        "[\"site1\", \"site1\"]",
        "rtt[0].between",
    )
    .await;
    check("[\"site1\", \"site2\"]", "[\"site1\"]", "between").await;
}

#[tokio::test]
async fn names_have_the_form_of_names() {
    check("[site.site2]", "[site.\"a/b\"]\n[site.site2]", "a/b").await;
    check("[\"glance\"]", "[\"\"]", "service.image.aliases").await;
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named() {
    let output = run(&["scope", "check", "--world", "no-such-file", "image: a"]).await;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(text(&output.stderr).contains("no-such-file"));
}
