//! Before an agent runs: files, ports, folders, and what is said when one of them is wrong.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::agent::{Agent, program, run, text};
use crate::common::client::get;
use crate::common::mesh::Mesh;
use crate::common::ports;
use crate::common::setup::Setup;

/// A site whose agent does not run, and its configuration.
async fn stopped() -> (Mesh, String) {
    let mut mesh = Setup::of(1).start().await;
    mesh.take_agent(1).kill().await;
    let text = std::fs::read_to_string(&mesh.site(1).config).unwrap();
    (mesh, text)
}

/// Changes the file, asserts that both `--check` and a start name the fault.
async fn check(mesh: &Mesh, good: &str, from: &str, to: &str, said: &str) {
    assert!(good.contains(from), "{from} is in the file");
    let path = mesh.site(1).config.clone();
    std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
    let file = path.to_str().unwrap();
    for arguments in [
        &["agent", "--check", "--config", file][..],
        &["agent", "--config", file],
    ] {
        let output = run(arguments).await;
        let found = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {found}");
        assert_eq!(text(&output.stdout), "", "{to}");
        assert!(found.contains(said), "{said} is not in {found}");
    }
}

#[tokio::test]
async fn a_good_file_is_checked_and_nothing_is_started() {
    let (mesh, _) = stopped().await;
    std::fs::remove_dir_all(mesh.path().join("data-site1")).unwrap();
    let file = mesh.site(1).config.to_str().unwrap();
    let output = run(&["agent", "--check", "--config", file]).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        !mesh.path().join("data-site1").exists(),
        "it started something"
    );
}

#[tokio::test]
async fn every_fault_of_a_file_is_named_by_its_key() {
    let (mesh, good) = stopped().await;
    for (from, to, said) in [
        ("data = ", "date = ", "date"),
        ("site = \"site1\"", "site = \"a/b\"", "site"),
        ("[admin]\nlisten", "[admin]\nlist", "list"),
        ("[service.compute]", "[service.compute]\nport = 1", "port"),
        (
            "backend = \"http",
            "backend = \"ftp",
            "service.image.backend",
        ),
        ("threads = 2", "threads = 0", "threads"),
        ("join = []", "join = [\"nowhere\"]", "mesh.join"),
        (
            "[mesh.routes]",
            "[mesh.routes]\nsite2 = \"nowhere\"",
            "mesh.routes",
        ),
    ] {
        check(&mesh, &good, from, to, said).await;
    }
    let missing = run(&["agent", "--config", "no-such-file"]).await;
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("no-such-file"));
}

#[tokio::test]
async fn an_identity_that_is_missing_or_of_another_site_is_named() {
    let (mesh, good) = stopped().await;
    check(
        &mesh,
        &good,
        "site = \"site1\"",
        "site = \"site2\"",
        "mesh.identity",
    )
    .await;
    check(&mesh, &good, "/mesh/site1", "/mesh/moon", "mesh.identity").await;
    let key = mesh.path().join("mesh/site1/key.pem");
    std::fs::remove_file(&key).unwrap();
    check(&mesh, &good, "", "", "key.pem").await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_by_its_key() {
    let (mesh, good) = stopped().await;
    let site = mesh.site(1);
    for (key, address) in [
        ("service.image.listen", site.image),
        ("service.compute.listen", site.compute),
        ("mesh.listen", site.mesh),
        ("admin.listen", site.admin),
    ] {
        let _taken = std::net::TcpListener::bind(address).unwrap();
        let log = Agent::start(&site.config)
            .await
            .expect_err("the port is taken");
        assert!(log.contains(&format!("key `{key}`")), "{key}: {log}");
        std::fs::write(site.config.with_extension("log"), "").unwrap();
    }
    assert!(!good.is_empty());
}

#[tokio::test]
async fn a_folder_of_another_agent_is_not_touched() {
    let mesh = Setup::of(1).start().await;
    let site = mesh.site(1);
    let mut other = std::fs::read_to_string(&site.config).unwrap();
    for address in [site.image, site.compute, site.admin, site.mesh] {
        other = other.replace(&address.to_string(), &ports::free().to_string());
    }
    let file = mesh.path().join("other.toml");
    std::fs::write(&file, other).unwrap();
    let log = Agent::start(&file).await.expect_err("the folder is in use");
    assert!(log.contains("key `data`"), "{log}");
    assert_eq!(
        get(site.image, "/images", None).await.status,
        200,
        "the first goes on"
    );
}

#[tokio::test]
async fn an_agent_is_ready_in_time_though_no_service_has_an_address() {
    let (mesh, good) = stopped().await;
    let mut text = good;
    for name in ["a", "b", "c", "d"] {
        let listen = ports::free();
        text.push_str(&format!(
            "[service.{name}]\nlisten = \"{listen}\"\nbackend = \"http://{name}.invalid:1\"\n"
        ));
    }
    let site = mesh.site(1);
    std::fs::write(&site.config, text).unwrap();
    let started = Instant::now();
    let agent = Agent::start(&site.config).await.expect("it starts");
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}: {}", agent.log());
    assert_eq!(get(site.image, "/images", None).await.status, 200);
}

#[tokio::test]
async fn the_environment_stands_over_the_file_and_may_hold_anything() {
    use std::os::unix::ffi::OsStrExt;
    let (mesh, _) = stopped().await;
    let output = program()
        .args(["agent", "--check", "--config"])
        .arg(&mesh.site(1).config)
        .env("UNRELATED", std::ffi::OsStr::from_bytes(b"\xff\xfe"))
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = program()
        .args(["agent", "--check", "--config"])
        .arg(&mesh.site(1).config)
        .env("CHEOPS__SERVICE__IMAGE__DEADLINE", "soon")
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("service.image.deadline"));
}

#[tokio::test]
async fn init_keeps_what_is_there_and_adds_sites() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mesh");
    let init = async |mesh: &str, sites: &[&str]| {
        let mut all = vec!["init", "--mesh", mesh, "--out", out.to_str().unwrap()];
        all.extend(sites.iter().flat_map(|site| ["--site", site]));
        run(&all).await
    };
    assert!(init("m", &["site1"]).await.status.success());
    let read = |name: &str| std::fs::read(out.join(name)).unwrap();
    let before = (
        read("site1/ca.pem"),
        read("site1/cert.pem"),
        read("site1/key.pem"),
    );
    assert!(
        init("m", &["site1", "site2", "DC 1"])
            .await
            .status
            .success()
    );
    let after = (
        read("site1/ca.pem"),
        read("site1/cert.pem"),
        read("site1/key.pem"),
    );
    assert!(before == after, "nothing is overwritten");
    for site in ["site1", "site2", "DC 1"] {
        assert_eq!(read(&format!("{site}/ca.pem")), before.0, "one authority");
        let key = out.join(site).join("key.pem");
        let mode = std::fs::metadata(key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let other = init("other", &["site3"]).await;
    assert_eq!(other.status.code(), Some(2), "another mesh lives there");
    assert!(!out.join("site3").exists());
    assert_eq!(init("m", &["a/b"]).await.status.code(), Some(2));
    assert_eq!(init("m", &[]).await.status.code(), Some(2));
}
