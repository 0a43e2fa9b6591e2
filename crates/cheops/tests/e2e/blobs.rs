//! Contents too long for a log: the same on every site, whatever breaks on the way.

use std::path::PathBuf;
use std::time::Duration;

use cheops_relay::Direction;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::common::client::{Answer, Connection, admin, ask, get};
use crate::common::eventually;
use crate::common::liar;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::replicas::{at, create, held, wait_held};

const MIB: usize = 1 << 20;
const OCTETS: (&str, &str) = ("Content-Type", "application/octet-stream");

/// No two chunks are alike, and nothing in it repeats soon.
fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    let mut state = seed;
    for piece in content.chunks_mut(8) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        piece.copy_from_slice(&(state >> 8).to_le_bytes()[..piece.len()]);
    }
    content
}

async fn put_file(mesh: &Mesh, site: usize, id: &str, content: &[u8]) -> Answer {
    let path = format!("/images/{id}/file");
    ask(mesh.site(site).image, "PUT", &path, &[OCTETS], content).await
}

/// What the service of a site itself has under that name.
async fn file_of(mesh: &Mesh, site: usize, name: &str) -> Option<Vec<u8>> {
    let image = held(mesh, site, name).await.into_iter().next()?;
    let path = format!("/images/{}/file", image["id"].as_str()?);
    let answer = get(mesh.site(site).image_service, &path, None).await;
    (answer.status == 200).then_some(answer.body)
}

async fn wait_file(mesh: &Mesh, site: usize, name: &str, content: &[u8]) {
    let what = format!("site{site} has the content of {name}");
    eventually(&what, || async {
        let found = file_of(mesh, site, name).await?;
        (found == content).then_some(())
    })
    .await;
}

async fn operation(mesh: &Mesh, site: usize, id: &str) -> Value {
    admin(mesh.site(site).admin, &format!("/v1/operations/{id}"))
        .await
        .json()
}

async fn resource(mesh: &Mesh, site: usize, id: &str) -> Value {
    admin(mesh.site(site).admin, &format!("/v1/resources/{id}"))
        .await
        .json()
}

fn folder(mesh: &Mesh, site: usize, part: &str) -> PathBuf {
    mesh.path().join(format!("data-site{site}/blobs/{part}"))
}

fn files(mesh: &Mesh, site: usize, part: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(mesh, site, part)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn blob(mesh: &Mesh, site: usize, content: &[u8]) -> PathBuf {
    let name = blake3::hash(content).to_hex().to_string();
    folder(mesh, site, "whole").join(name)
}

/// Says something of contents at one site, while it runs.
async fn set(mesh: &Mesh, site: usize, blobs: &str) {
    let file = &mesh.site(site).config;
    let text = std::fs::read_to_string(file).unwrap();
    let text = text.split("\n[blobs]").next().unwrap();
    std::fs::write(file, format!("{text}\n[blobs]\n{blobs}\n")).unwrap();
    mesh.agent(site).hang_up().await;
}

#[tokio::test]
async fn a_content_is_the_same_on_both_sites_and_read_locally() {
    let mesh = Setup::of(2).start().await;
    let (id, _) = create(&mesh, 1, "debian").await;
    let content = content(1, 8 * MIB + 5);
    let put = put_file(&mesh, 1, &id, &content).await;
    assert_eq!(put.status, 204, "{put:?}");
    wait_file(&mesh, 1, "debian", &content).await;
    wait_file(&mesh, 2, "debian", &content).await;
    let op = put.header("x-cheops-operation");
    let shown = operation(&mesh, 1, op).await;
    assert_eq!(shown["content"]["bytes"], content.len());
    assert_eq!(
        shown["content"]["hash"],
        blake3::hash(&content).to_hex().to_string()
    );
    assert_eq!(shown["sites"]["site2"]["received"], content.len());
    mesh.cut(2);
    mesh.wait_mark(2, 1, "autonomous").await;
    let read = get(mesh.site(2).image, &format!("/images/{id}/file"), None).await;
    assert_eq!((read.status, read.body == content), (200, true));
}

#[tokio::test]
async fn chunks_without_a_length_and_another_entry_bring_the_same() {
    let mesh = Setup::of(3).start().await;
    let (id, _) = create(&mesh, 1, "debian").await;
    for (entry, seed) in [(1, 1), (2, 2)] {
        let content = content(seed, 3 * MIB + 7);
        let mut connection = Connection::open(mesh.site(entry).image).await;
        let line = format!("PUT /images/{id}/file HTTP/1.1");
        let chunked = ("Transfer-Encoding", "chunked");
        connection
            .head(&line, &[("Host", "app.example"), OCTETS, chunked])
            .await;
        for piece in content.chunks(100_000) {
            connection
                .write(format!("{:x}\r\n", piece.len()).as_bytes())
                .await;
            connection.write(piece).await;
            connection.write(b"\r\n").await;
        }
        connection.write(b"0\r\n\r\n").await;
        let answer = connection.answer("PUT").await.unwrap();
        assert_eq!(answer.status, 204, "{answer:?}");
        wait_file(&mesh, 1, "debian", &content).await;
        wait_file(&mesh, 2, "debian", &content).await;
    }
    // What was replaced is collected everywhere, what is there is not.
    for site in [1, 2] {
        eventually("the first content is collected", || async {
            let kept = files(&mesh, site, "whole").len();
            (kept == 2).then_some(())
        })
        .await;
        assert!(blob(&mesh, site, &content(2, 3 * MIB + 7)).exists());
    }
    assert!(files(&mesh, 3, "whole").is_empty(), "only where involved");
}

#[tokio::test]
async fn a_key_tells_a_retry_from_another_content() {
    let mesh = Setup::of(2).start().await;
    let (id, _) = create(&mesh, 1, "debian").await;
    let path = format!("/images/{id}/file");
    let headers = [OCTETS, ("Idempotency-Key", "k1")];
    let (first, other) = (content(1, 2 * MIB), content(2, 2 * MIB));
    let mut ops = Vec::new();
    for (body, status) in [(&first, 204), (&first, 204), (&other, 422)] {
        let answer = ask(mesh.site(1).image, "PUT", &path, &headers, body).await;
        assert_eq!(answer.status, status, "{answer:?}");
        ops.push(answer.header("x-cheops-operation").to_owned());
    }
    assert_eq!(ops[0], ops[1]);
    wait_file(&mesh, 2, "debian", &first).await;
    // JSON is looked into, so it has to fit.
    let long = json!({ "name": "x".repeat(100_000) });
    let refused = at(&mesh, 1, "PATCH", &format!("/images/{id}"), "", long).await;
    assert_eq!(refused.status, 413);
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_nothing_anywhere() {
    let mesh = Setup::of(2).start().await;
    let (id, _) = create(&mesh, 1, "debian").await;
    wait_held(&mesh, 2, "debian").await;
    let before = resource(&mesh, 1, &id).await["position"].clone();
    let content = content(1, 8 * MIB);
    for entry in [1, 2] {
        let mut stream = TcpStream::connect(mesh.site(entry).image).await.unwrap();
        let head = format!(
            "PUT /images/{id}/file HTTP/1.1\r\nHost: app.example\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&content[..4 * MIB]).await.unwrap();
        eventually("half of it has come", || async {
            (!files(&mesh, 1, "incoming").is_empty()).then_some(())
        })
        .await;
        drop(stream);
        eventually("its leftovers are gone", || async {
            files(&mesh, 1, "incoming").is_empty().then_some(())
        })
        .await;
    }
    let put = put_file(&mesh, 1, &id, &content[..MIB]).await;
    assert_eq!(put.status, 204, "the gate is free: {put:?}");
    wait_file(&mesh, 2, "debian", &content[..MIB]).await;
    let after = resource(&mesh, 1, &id).await["position"].clone();
    assert_eq!(after.as_u64().unwrap(), before.as_u64().unwrap() + 1);
}

#[tokio::test]
async fn no_room_at_the_gate_is_507_and_nothing_happened() {
    let mut setup = Setup::of(2);
    setup.more = "[blobs]\nroom = \"2MiB\"".to_owned();
    let mesh = setup.start().await;
    let (id, _) = create(&mesh, 1, "debian").await;
    let content = content(1, 4 * MIB);
    let line = format!("PUT /images/{id}/file HTTP/1.1");
    // With a length it is known when the beginning has come.
    let mut connection = Connection::open(mesh.site(1).image).await;
    let length = content.len().to_string();
    let headers = [
        ("Host", "app.example"),
        OCTETS,
        ("Content-Length", &*length),
    ];
    connection.head(&line, &headers).await;
    connection.write(&content[..40 << 10]).await;
    let refused = connection.answer("PUT").await.unwrap();
    assert_eq!(
        (refused.status, refused.problem()),
        (507, "no-room".to_owned())
    );
    // Without one, only on the way.
    let mut connection = Connection::open(mesh.site(1).image).await;
    let headers = [
        ("Host", "app.example"),
        OCTETS,
        ("Transfer-Encoding", "chunked"),
    ];
    connection.head(&line, &headers).await;
    for piece in content[..2 * MIB + (32 << 10)].chunks(32 << 10) {
        connection
            .write(format!("{:x}\r\n", piece.len()).as_bytes())
            .await;
        connection.write(piece).await;
        connection.write(b"\r\n").await;
    }
    let refused = connection.answer("PUT").await.unwrap();
    assert_eq!(refused.status, 507, "{refused:?}");
    assert_eq!(resource(&mesh, 1, &id).await["position"], 1);
    assert_eq!(file_of(&mesh, 1, "debian").await, None);
    let small = put_file(&mesh, 1, &id, &content[..MIB]).await;
    assert_eq!(small.status, 204, "{small:?}");
    wait_file(&mesh, 2, "debian", &content[..MIB]).await;
}

#[tokio::test]
async fn no_room_at_another_site_is_shown_and_waited_for() {
    let mesh = Setup::of(2).start().await;
    let (id, _) = create(&mesh, 1, "debian").await;
    set(&mesh, 2, "room = \"1MiB\"").await;
    let content = content(1, 4 * MIB);
    eventually("site2 has no room", || async {
        mesh.agent(2)
            .log()
            .contains("configuration reloaded")
            .then_some(())
    })
    .await;
    let put = put_file(&mesh, 1, &id, &content).await;
    assert_eq!(put.status, 204, "{put:?}");
    let op = put.header("x-cheops-operation");
    eventually("site2 says why it waits", || async {
        let step = operation(&mesh, 2, op).await["sites"]["site2"].clone();
        let why = step["error"].as_str()?.contains("no room");
        (step["state"] == "waiting" && why).then_some(())
    })
    .await;
    let waiting = resource(&mesh, 1, &id).await["replicas"]["site2"]["waiting"].clone();
    assert_eq!(waiting, "position 2 waits for its content");
    set(&mesh, 2, "room = \"100MiB\"").await;
    wait_file(&mesh, 2, "debian", &content).await;
}

/// Cuts or kills in the middle of a transfer from site 1 to site 2; tells what went over the link.
async fn interrupted(mesh: &mut Mesh, content: &[u8], how: How) -> u64 {
    let (id, _) = create(mesh, 1, "debian").await;
    let link = || {
        mesh.links
            .iter()
            .find(|link| (link.from, link.to) == (2, 1))
            .unwrap()
    };
    let before = link().relay.carried(Direction::FromTarget);
    let put = put_file(mesh, 1, &id, content).await;
    assert_eq!(put.status, 204, "{put:?}");
    let op = put.header("x-cheops-operation").to_owned();
    eventually("some of it has come", || async {
        let step = operation(mesh, 2, &op).await["sites"]["site2"].clone();
        (step["received"].as_u64()? > 3 * MIB as u64).then_some(())
    })
    .await;
    let shown = operation(mesh, 1, &op).await;
    assert!(
        shown["sites"]["site2"]["received"].as_u64().unwrap() > 0,
        "{shown}"
    );
    match how {
        How::Cut => {
            mesh.cut(2);
            mesh.wait_mark(2, 1, "autonomous").await;
            mesh.wait_mark(1, 2, "autonomous").await;
            mesh.heal(2);
        }
        How::Kill(site) => {
            mesh.take_agent(site).kill().await;
            mesh.restart(site).await;
        }
    }
    wait_file(mesh, 2, "debian", content).await;
    let link = mesh
        .links
        .iter()
        .find(|link| (link.from, link.to) == (2, 1))
        .unwrap();
    link.relay.carried(Direction::FromTarget) - before
}

enum How {
    Cut,
    Kill(usize),
}

async fn check_interrupted(how: How) {
    let mut setup = Setup::of(2);
    setup.more = "[blobs]\nrate = \"8MiB\"".to_owned();
    let mut mesh = setup.start().await;
    let content = content(9, 16 * MIB);
    let carried = interrupted(&mut mesh, &content, how).await;
    // What was on its way when it broke is sent again: a few chunks, and not the whole.
    assert!(carried < 21 * MIB as u64, "{carried}");
    assert!(files(&mesh, 2, "partial").is_empty());
}

#[tokio::test]
async fn a_cut_in_the_middle_costs_a_few_chunks() {
    check_interrupted(How::Cut).await;
}

#[tokio::test]
async fn a_killed_receiver_goes_on_where_it_was() {
    check_interrupted(How::Kill(2)).await;
}

#[tokio::test]
async fn a_killed_sender_goes_on_where_it_was() {
    check_interrupted(How::Kill(1)).await;
}

#[tokio::test]
async fn a_gate_killed_during_an_upload_has_done_nothing() {
    let mut mesh = Setup::of(2).start().await;
    let (id, _) = create(&mesh, 1, "debian").await;
    let content = content(1, 8 * MIB);
    let mut stream = TcpStream::connect(mesh.site(1).image).await.unwrap();
    let head = format!(
        "PUT /images/{id}/file HTTP/1.1\r\nHost: app.example\r\nContent-Length: {}\r\n\r\n",
        content.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&content[..4 * MIB]).await.unwrap();
    eventually("half of it has come", || async {
        (!files(&mesh, 1, "incoming").is_empty()).then_some(())
    })
    .await;
    mesh.take_agent(1).kill().await;
    mesh.restart(1).await;
    assert!(files(&mesh, 1, "incoming").is_empty());
    assert_eq!(resource(&mesh, 1, &id).await["position"], 1);
    assert_eq!(file_of(&mesh, 1, "debian").await, None);
    let put = put_file(&mesh, 1, &id, &content).await;
    assert_eq!(put.status, 204, "{put:?}");
    wait_file(&mesh, 2, "debian", &content).await;
}

#[tokio::test]
async fn a_content_that_is_gone_or_changed_comes_back_from_another_site() {
    let mesh = Setup::of(3).start().await;
    let scope = "image: site1 & site2 & site3";
    let made = at(
        &mesh,
        1,
        "POST",
        "/images",
        scope,
        json!({ "name": "debian" }),
    )
    .await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    mesh.cut(3);
    mesh.wait_mark(1, 3, "autonomous").await;
    mesh.wait_mark(2, 3, "autonomous").await;
    let content = content(1, 3 * MIB);
    let put = put_file(&mesh, 1, &id, &content).await;
    assert_eq!(put.status, 204, "{put:?}");
    wait_file(&mesh, 2, "debian", &content).await;
    // Changed on the site that leads, whom the third asks as well.
    let mut changed = content.clone();
    changed[2 * MIB + 100] ^= 1;
    std::fs::write(blob(&mesh, 1, &content), &changed).unwrap();
    mesh.heal(3);
    wait_file(&mesh, 3, "debian", &content).await;
    // Read by nobody, it is found out when it is; removed, it is missed.
    for file in files(&mesh, 1, "whole") {
        std::fs::remove_file(file).unwrap();
    }
    eventually("it is back", || async {
        let found = std::fs::read(blob(&mesh, 1, &content)).ok()?;
        (found == content).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_site_that_lies_about_a_content_is_found_out_and_another_is_asked() {
    let mut mesh = Setup::of(3).start().await;
    let scope = "image: site1 & site2 & site3";
    let wanted = json!({ "name": "debian" });
    let made = at(&mesh, 1, "POST", "/images", scope, wanted).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    wait_held(&mesh, 3, "debian").await;
    mesh.take_agent(3).kill().await;
    let content = content(5, 4 * MIB);
    let put = put_file(&mesh, 1, &id, &content).await;
    assert_eq!(put.status, 204, "{put:?}");
    wait_file(&mesh, 2, "debian", &content).await;
    // The third knows the first by the liar alone, and hears of the second when the lie is found out.
    let identity = |site: &str| mesh.path().join("mesh").join(site);
    let liar = liar::stand_before(mesh.site(1).mesh, &identity("site1"), &identity("site3")).await;
    let between = |from, to| {
        let mut links = mesh.links.iter();
        &links
            .find(|link| (link.from, link.to) == (from, to))
            .unwrap()
            .relay
    };
    between(3, 2).cut();
    between(2, 3).cut();
    let honest = between(3, 1).address().to_string();
    let config = mesh.site(3).config.clone();
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(&honest, &liar.to_string())).unwrap();
    mesh.restart(3).await;
    eventually("the lie is found out", || async {
        let metrics = admin(mesh.site(3).admin, "/metrics").await.body;
        let metrics = String::from_utf8(metrics).unwrap();
        let mut lines = metrics.lines();
        let wrong = lines.find_map(|line| line.strip_prefix("cheops_blob_wrong_chunks_total "))?;
        (wrong != "0").then_some(())
    })
    .await;
    let log = mesh.agent(3).log();
    assert!(log.contains("what it sent is not that content"), "{log}");
    assert_eq!(file_of(&mesh, 3, "debian").await, None);
    mesh.heal(2);
    wait_file(&mesh, 3, "debian", &content).await;
}

#[tokio::test]
async fn a_site_away_for_long_is_settled_with_the_content() {
    let mesh = Setup::of(2).start().await;
    let (id, _) = create(&mesh, 1, "debian").await;
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let content = content(1, 2 * MIB);
    let put = put_file(&mesh, 1, &id, &content).await;
    assert_eq!(put.status, 204, "{put:?}");
    for n in 0..300 {
        let changed = at(
            &mesh,
            1,
            "PATCH",
            &format!("/images/{id}"),
            "",
            json!({ "min_disk": n }),
        )
        .await;
        assert_eq!(changed.status, 200, "{changed:?}");
    }
    mesh.heal(2);
    wait_file(&mesh, 2, "debian", &content).await;
    eventually("and the rest", || async {
        let image = held(&mesh, 2, "debian").await.into_iter().next()?;
        (image["min_disk"] == 299).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_moves_is_told_as_it_moves() {
    let mut setup = Setup::of(2);
    setup.more = "[blobs]\nrate = \"2MiB\"\ncompress = true".to_owned();
    let mesh = setup.start().await;
    let mut events = Connection::open(mesh.site(2).admin).await;
    events
        .head("GET /v1/events HTTP/1.1", &[("Host", "localhost")])
        .await;
    let (id, _) = create(&mesh, 1, "debian").await;
    let content = content(1, 6 * MIB);
    let put = put_file(&mesh, 1, &id, &content).await;
    assert_eq!(put.status, 204);
    let reading = async {
        events.answer_head().await.unwrap();
        let mut seen = Vec::new();
        while !seen.contains(&"whole".to_owned()) {
            let line = events.line().await.unwrap();
            let Some(data) = line.strip_prefix("data: ") else {
                continue;
            };
            let data: Value = serde_json::from_str(data).unwrap();
            if data["of"] == content.len() {
                seen.push(data["state"].as_str().unwrap().to_owned());
            }
        }
        seen
    };
    let seen = tokio::time::timeout(Duration::from_secs(30), reading)
        .await
        .unwrap();
    assert!(seen.contains(&"coming".to_owned()), "{seen:?}");
    wait_file(&mesh, 2, "debian", &content).await;
    // Zeros are sent as next to nothing.
    let link = mesh
        .links
        .iter()
        .find(|link| (link.from, link.to) == (2, 1))
        .unwrap();
    let before = link.relay.carried(Direction::FromTarget);
    let zeros = vec![0; 8 * MIB];
    assert_eq!(put_file(&mesh, 1, &id, &zeros).await.status, 204);
    wait_file(&mesh, 2, "debian", &zeros).await;
    assert!(link.relay.carried(Direction::FromTarget) - before < MIB as u64);
}
