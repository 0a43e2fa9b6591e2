//! SIGHUP: what changed in the file is taken over, and nobody notices who is not concerned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::client::{Connection, ask, get, try_ask};
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::common::stub::Stub;
use crate::common::{eventually, ports};

/// Writes a site's file anew and has its agent read it, until the log says what came of it.
async fn reload(mesh: &Mesh, site: usize, change: impl FnOnce(String) -> String, word: &str) {
    let config = &mesh.site(site).config;
    let before = mesh.agent(site).log().matches(word).count();
    let text = change(std::fs::read_to_string(config).unwrap());
    std::fs::write(config, text).unwrap();
    mesh.agent(site).hang_up().await;
    eventually(word, || async {
        (mesh.agent(site).log().matches(word).count() > before).then_some(())
    })
    .await;
}

const DONE: &str = "configuration reloaded";
const REFUSED: &str = "configuration not reloaded; the old one stays";

async fn ask_on(connection: &mut Connection, path: &str) -> u16 {
    let line = format!("GET {path} HTTP/1.1");
    connection.head(&line, &[("Host", "a")]).await;
    connection.answer("GET").await.unwrap().status
}

#[tokio::test]
async fn a_service_that_moves_is_found_on_connections_that_stay() {
    let mesh = Setup::of(1).start().await;
    let moved = Stub::saying("HTTP/1.1 299 Moved\r\nContent-Length: 0\r\n\r\n").await;
    let mut kept = Connection::open(mesh.site(1).image).await;
    let mut other = Connection::open(mesh.site(1).compute).await;
    assert_eq!(ask_on(&mut kept, "/images").await, 200);
    assert_eq!(ask_on(&mut other, "/servers").await, 200);
    let (was, now) = (
        mesh.site(1).image_service.to_string(),
        moved.address.to_string(),
    );
    reload(&mesh, 1, |text| text.replace(&was, &now), DONE).await;
    assert_eq!(ask_on(&mut kept, "/images").await, 299);
    assert_eq!(ask_on(&mut other, "/servers").await, 200);
}

#[tokio::test]
async fn no_request_is_lost_while_the_file_is_read_again_and_again() {
    let mesh = Setup::of(2).start().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for scope in [
        "image: site1",
        "image: site2",
        "image: site1",
        "image: site2",
    ] {
        let (address, stop) = (mesh.site(1).image, stop.clone());
        clients.spawn(async move {
            let mut kept = Connection::open(address).await;
            let mut asked = 0;
            while !stop.load(Ordering::SeqCst) {
                kept.head("GET /images HTTP/1.1", &[("Host", "a"), ("X-Scope", scope)])
                    .await;
                let answer = kept.answer("GET").await.unwrap();
                assert_eq!(
                    (answer.status, answer.served_by()),
                    (200, &scope[7..]),
                    "{answer:?}"
                );
                assert_eq!(get(address, "/images", Some(scope)).await.status, 200);
                asked += 1;
            }
            asked
        });
    }
    for round in 0..10 {
        let deadline = format!("deadline = \"{}s\"", 20 + round);
        let change = |text: String| {
            let lines = text.lines().filter(|line| !line.starts_with("deadline"));
            let text: Vec<_> = lines.collect();
            text.join("\n").replace(
                "aliases = [\"glance\"]",
                &format!("aliases = [\"glance\"]\n{deadline}"),
            )
        };
        for site in [1, 2] {
            reload(&mesh, site, change, DONE).await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    let asked: Vec<usize> = clients.join_all().await;
    assert!(asked.iter().all(|asked| *asked > 0), "{asked:?}");
}

#[tokio::test]
async fn services_come_and_go_here_and_in_the_eyes_of_others() {
    let mesh = Setup::of(2).start().await;
    let volume =
        Stub::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
    let address = ports::free();
    let section = format!(
        "\n[service.volume]\nlisten = \"{address}\"\nbackend = \"http://{}\"\n",
        volume.address
    );
    reload(&mesh, 2, |text| text + &section, DONE).await;
    assert_eq!(get(address, "/", None).await.status, 200);
    // Another site can name it once it has heard of it.
    let asked = || async {
        let answer = get(
            mesh.site(1).image,
            "/images",
            Some("volume: site2, image: site1"),
        )
        .await;
        (answer.status == 200).then_some(())
    };
    eventually("site1 knows volume", asked).await;

    let mut open = Connection::open(address).await;
    assert_eq!(ask_on(&mut open, "/").await, 200);
    reload(&mesh, 2, |text| text.replace(&section, ""), DONE).await;
    eventually("its listener is gone", || async {
        tokio::net::TcpStream::connect(address).await.err()
    })
    .await;
    assert!(
        open.line().await.is_err(),
        "an idle connection to it is closed"
    );
    let gone = || async {
        let answer = get(
            mesh.site(1).image,
            "/images",
            Some("volume: site2, image: site1"),
        )
        .await;
        (answer.status == 400).then_some(())
    };
    eventually("site1 knows that volume is gone", gone).await;
}

#[tokio::test]
async fn an_open_request_of_a_service_that_goes_is_finished() {
    let held = Stub::held().await;
    let mesh = Setup::of(1).image_at(1, held.address).start().await;
    let address = mesh.site(1).image;
    let asked = tokio::spawn(async move { get(address, "/", None).await });
    eventually("the service has the request", || async {
        (held.seen() == 1).then_some(())
    })
    .await;
    let without_image = |text: String| {
        let (start, rest) = text.split_once("[service.image]").unwrap();
        let (_, end) = rest.split_once("[service.compute]").unwrap();
        format!("{start}[service.compute]{end}")
    };
    reload(&mesh, 1, without_image, DONE).await;
    assert!(!asked.is_finished());
    held.release();
    let answer = asked.await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"held"[..]));
}

#[tokio::test]
async fn a_file_that_is_wrong_or_changes_what_cannot_is_refused() {
    let mesh = Setup::of(1).start().await;
    let good = std::fs::read_to_string(&mesh.site(1).config).unwrap();
    let taken = mesh.site(1).image_service.to_string();
    let admin = mesh.site(1).admin.to_string();
    let cases = [
        (good.replace("backend", "back_end"), "back_end"),
        ("nonsense".to_owned(), "key"),
        (
            good.replace("site = \"site1\"", "site = \"site9\""),
            "key `site` changes with a restart only",
        ),
        (good.replace("threads = 2", "threads = 1"), "key `threads`"),
        (
            good.replace(&admin, &ports::free().to_string()),
            "key `admin.listen`",
        ),
        (good.replace("data-site1", "data-other"), "key `data`"),
        // A listener that cannot be had: nothing of the file is taken.
        (
            good.replace(&mesh.site(1).compute.to_string(), &taken)
                .replace("aliases = [\"glance\"]", "accept_scope = false"),
            "is the port taken?",
        ),
    ];
    for (text, word) in cases {
        assert_ne!(text, good, "{word}");
        reload(&mesh, 1, |_| text, REFUSED).await;
        let log = mesh.agent(1).log();
        let last = log.lines().rfind(|line| line.contains(REFUSED)).unwrap();
        assert!(last.contains(word), "{word}: {last}");
        let answer = get(mesh.site(1).image, "/images", Some("glance: site1")).await;
        assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    }
    std::fs::write(&mesh.site(1).config, &good).unwrap();
    reload(&mesh, 1, |_| good, DONE).await;
}

#[tokio::test]
async fn a_listener_that_moves_is_found_at_its_new_address() {
    let mesh = Setup::of(1).start().await;
    let (was, now) = (mesh.site(1).image, ports::free());
    let mut open = Connection::open(was).await;
    assert_eq!(ask_on(&mut open, "/images").await, 200);
    let change = |text: String| text.replace(&was.to_string(), &now.to_string());
    reload(&mesh, 1, change, DONE).await;
    assert_eq!(ask(now, "GET", "/images", &[], b"").await.status, 200);
    eventually("nobody listens at the old one", || async {
        tokio::net::TcpStream::connect(was).await.err()
    })
    .await;
    // And back, while the compute keeps its own all along.
    let change = |text: String| text.replace(&now.to_string(), &was.to_string());
    reload(&mesh, 1, change, DONE).await;
    assert_eq!(get(was, "/images", None).await.status, 200);
    assert!(
        try_ask(mesh.site(1).compute, "GET", "/servers", &[], b"")
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn many_reloads_leave_nothing_behind() {
    let mesh = Setup::of(1).start().await;
    let extra = ports::free();
    let section = format!(
        "\n[service.volume]\nlisten = \"{extra}\"\nbackend = \"http://{}\"\n",
        mesh.site(1).image_service
    );
    let good = std::fs::read_to_string(&mesh.site(1).config).unwrap();
    reload(&mesh, 1, |text| text, DONE).await;
    let before = mesh.agent(1).descriptors();
    for _ in 0..20 {
        reload(&mesh, 1, |_| good.clone() + &section, DONE).await;
        reload(&mesh, 1, |_| good.clone(), DONE).await;
    }
    eventually("as many descriptors as before", || async {
        (mesh.agent(1).descriptors() <= before).then_some(())
    })
    .await;
}
