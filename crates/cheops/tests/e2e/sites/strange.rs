//! What an agent hears that it should not: forged, replayed, torn, of another mesh, under its own name.

use std::path::Path;

use cheops_core::membership::{SealKey, Sealer};
use cheops_engine::identity::Identity;
use serde_json::Value;
use tokio::net::UdpSocket;

use super::Mesh;
use crate::common::agent::Agent;
use crate::common::client::{admin, get};
use crate::common::eventually;
use crate::common::ports;
use crate::common::setup::Setup;

const REFUSED: &str = "cheops_datagrams_refused_total";

#[tokio::test]
async fn what_nobody_of_the_mesh_sent_is_refused_and_said_once() {
    let mesh = Setup::of(2).start().await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = mesh.site(1).mesh;
    // A few at a time: what a busy agent has no room for, the system drops.
    eventually("a hundred are refused and counted", || async {
        for length in [0, 1, 16, 32, 33, 200, 1400, 1500, 9000] {
            socket.send_to(&vec![7; length], to).await.unwrap();
        }
        let metrics = admin(mesh.site(1).admin, "/metrics").await.body;
        let text = String::from_utf8(metrics).unwrap();
        let counted = text.lines().find_map(|line| line.strip_prefix(REFUSED))?;
        (counted.trim().parse::<u64>().unwrap() >= 100).then_some(())
    })
    .await;
    eventually("the refusals are in the log", || async {
        let log = mesh.agent(1).log();
        let said = |why: &str| log.matches(why).count() == 1;
        (said("not sealed with this mesh's key") && said("too short to be a datagram"))
            .then_some(())
    })
    .await;
    let log = mesh.agent(1).log();
    let said = log.matches("a datagram was refused").count();
    assert_eq!(said, 3, "{log}");
    assert_eq!(log.matches("from=\"127.0.0.1\"").count(), said, "{log}");
    assert_eq!(mesh.seen_from(1, 2).await.unwrap()["mark"], "connected");
    assert_eq!(mesh.seen_from(2, 1).await.unwrap()["mark"], "connected");
}

/// The start that a site's agent announced, as another has it on disk.
async fn start_of(mesh: &Mesh, name: &str) -> u64 {
    let file = mesh.path().join("data-site1/sites.json");
    eventually("the start of a peer is on disk", || async {
        let text = std::fs::read_to_string(&file).ok()?;
        let saved: Value = serde_json::from_str(&text).ok()?;
        let sites = saved["sites"].as_array()?;
        let site = sites.iter().find(|site| site["site"] == name)?;
        site["announcement"]["incarnation"].as_u64()
    })
    .await
}

/// Seals as an agent of the mesh does that started then.
fn sealer(identity: &Path, start: u64) -> Sealer {
    let identity = Identity::load(identity).unwrap();
    let key = identity.secret().key_for("cheops datagrams 1");
    Sealer::new(SealKey::new(key), start)
}

/// A datagram of site2 that has the right form: from, to, incarnation, place, a ping, no news.
fn ping() -> Vec<u8> {
    let mut content = Vec::new();
    for name in ["site2", "site1"] {
        content.push(name.len() as u8);
        content.extend(name.as_bytes());
    }
    content.push(0);
    // Where it lies: seven numbers; which place; a ping with its nonce; no news.
    content.extend([0; 7]);
    content.extend([0, 0, 7, 0]);
    content
}

#[tokio::test]
async fn what_was_said_before_or_cannot_be_read_is_refused_and_said_once() {
    let mesh = Setup::of(2).start().await;
    let start = start_of(&mesh, "site2").await;
    let identity = mesh.path().join("mesh/site2");
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let send = async |sealed: &[u8]| {
        socket.send_to(sealed, mesh.site(1).mesh).await.unwrap();
    };
    for _ in 0..20 {
        // The first number of that start was taken long ago.
        send(&sealer(&identity, start).seal(&ping())).await;
        send(&sealer(&identity, start - 1).seal(&ping())).await;
        send(&sealer(&identity, start).seal(b"not a datagram")).await;
    }
    eventually("each refusal is in the log", || async {
        let log = mesh.agent(1).log();
        let said = |why: &str| log.matches(why).count() == 1;
        let all = said("a copy of an earlier one")
            && said("made before the sender's last start")
            && said("its content cannot be read");
        all.then_some(())
    })
    .await;
    for (from, to) in [(1, 2), (2, 1)] {
        let seen = mesh.seen_from(from, to).await.unwrap();
        assert_eq!(seen["mark"], "connected", "{seen}");
    }
}

#[tokio::test]
async fn of_two_agents_under_one_name_the_first_is_kept_and_it_is_said_once() {
    let mesh = Setup::of(2).start().await;
    // The same identity, another machine.
    let text = std::fs::read_to_string(&mesh.site(2).config).unwrap();
    let mut text = text.replace("data-site2", "data-rival");
    let site = mesh.site(2);
    for address in [site.admin, site.mesh, site.image, site.compute] {
        text = text.replace(&address.to_string(), &ports::free().to_string());
    }
    let config = mesh.path().join("rival.toml");
    std::fs::write(&config, text).unwrap();
    let rival = Agent::start(&config).await.unwrap();
    eventually("the first agent's peers complain", || async {
        let log = mesh.agent(1).log();
        log.contains("two live agents claim this site name")
            .then_some(())
    })
    .await;
    eventually("the second one is told", || async {
        let log = rival.log();
        log.contains("another live agent has this site name")
            .then_some(())
    })
    .await;
    let log = mesh.agent(1).log();
    assert_eq!(log.matches("two live agents claim").count(), 1, "{log}");
    let told = rival.log();
    let said = told
        .matches("another live agent has this site name")
        .count();
    // To each address of a peer once: the one it joins through, and where the peer says that it is.
    assert!(said <= 2, "{told}");
    assert_eq!(mesh.seen_from(1, 2).await.unwrap()["mark"], "connected");
    let id = mesh.upload(2, "only there", b"x").await;
    let path = format!("/images/{id}");
    let found = get(mesh.site(1).image, &path, Some("image: site2")).await;
    assert_eq!(found.status, 200, "requests go to the first");
    drop(rival);
    let found = get(mesh.site(1).image, &path, Some("image: site2")).await;
    assert_eq!(found.status, 200);
}
