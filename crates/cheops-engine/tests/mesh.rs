//! Agents in one process, over loopback: how they find, greet and watch each other.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::time::Duration;

use cheops_engine::events::{Bus, Heard};
use cheops_engine::mesh::{AcceptError, DialError, Kind};
use cheops_model::{Mark, ServiceName};
use common::{Cut, World, site};
use tokio::time::Instant;

#[tokio::test]
async fn two_agents_know_each_other() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    let two = world.join("site2", &[one.address()]).await;
    one.waits_for("site2", Mark::Connected).await;
    two.waits_for("site1", Mark::Connected).await;
    let view = one
        .until(|view| view.sites[&site("site2")].rtt.is_some())
        .await;
    let seen = &view.sites[&site("site2")];
    assert_eq!(seen.advertise.as_deref(), Some(two.address().as_str()));
    assert_eq!(seen.announcement.as_ref().unwrap().site, site("site2"));
    assert!(seen.last_heard.is_some());
    assert_eq!(view.sites[&view.here].mark, Mark::Connected);
    assert_eq!(view.sites[&view.here].last_heard, None);
}

#[tokio::test]
async fn joining_through_any_site_makes_all_known() {
    let world = World::new(&["site1", "site2", "site3"]);
    let one = world.agent("site1").await;
    let two = world.join("site2", &[one.address()]).await;
    let three = world.join("site3", &[one.address()]).await;
    for agent in [&one, &two, &three] {
        for name in ["site1", "site2", "site3"] {
            agent.waits_for(name, Mark::Connected).await;
        }
    }
}

#[tokio::test]
async fn a_joined_address_may_come_up_later_and_our_own_is_left_out() {
    let world = World::new(&["site1", "site2"]);
    let two_at = world.reserve().await;
    let own = world.reserve().await;
    let one = world
        .start("site1", own, &[own.to_string(), two_at.to_string()], None)
        .await;
    let two = world.start("site2", two_at, &[], None).await;
    one.waits_for("site2", Mark::Connected).await;
    two.waits_for("site1", Mark::Connected).await;
    assert_eq!(one.now().sites.len(), 2);
}

#[tokio::test]
async fn another_mesh_is_refused() {
    let (world, other) = (World::new(&["site1"]), World::new(&["site2"]));
    let mut one = world.agent("site1").await;
    let two = other.join("site2", &[one.address()]).await;
    let fault = one.refused().await;
    assert!(matches!(fault, AcceptError::OtherMesh(_)), "{fault}");
    assert_eq!(one.now().sites.len(), 1);
    assert_eq!(two.now().sites.len(), 1);
}

#[tokio::test]
async fn another_protocol_is_refused_in_the_handshake() {
    let world = World::new(&["site1", "site2"]);
    let mut one = world.agent("site1").await;
    assert!(world.connect("site2", &one, b"cheops-ctl/2").await.is_err());
    let fault = one.refused().await;
    assert!(matches!(fault, AcceptError::OtherProtocol), "{fault}");
}

#[tokio::test]
async fn a_dead_peer_is_autonomous_and_connected_again_when_it_is_back() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    let two = world.join("site2", &[one.address()]).await;
    one.waits_for("site2", Mark::Connected).await;
    two.waits_for("site1", Mark::Connected).await;
    let before = one.now().version;
    let at = two.stop().await;
    one.waits_for("site2", Mark::Autonomous).await;
    assert!(one.now().version > before);
    let back = Instant::now();
    let two = world.start("site2", at, &[], None).await;
    one.waits_for("site2", Mark::Connected).await;
    let took = back.elapsed();
    assert!(took < Duration::from_secs(2), "found again after {took:?}");
    two.waits_for("site1", Mark::Connected).await;
}

#[tokio::test]
async fn a_cut_path_is_given_up_within_two_seconds_and_found_again_within_two() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    let two_at = world.reserve().await;
    let cut = Cut::before(two_at).await;
    let two = world
        .start("site2", two_at, &[one.address()], Some(cut.address()))
        .await;
    one.waits_for("site2", Mark::Connected).await;
    two.waits_for("site1", Mark::Connected).await;
    let started = Instant::now();
    cut.close();
    one.waits_for("site2", Mark::Autonomous).await;
    let took = started.elapsed();
    assert!(
        took < Duration::from_millis(2500),
        "given up after {took:?}"
    );
    assert_eq!(
        two.now().sites[&site("site1")].mark,
        Mark::Connected,
        "its own way is not cut"
    );
    cut.swallows().await;
    let started = Instant::now();
    cut.open();
    one.waits_for("site2", Mark::Connected).await;
    let took = started.elapsed();
    assert!(
        took < Duration::from_millis(2500),
        "found again after {took:?}"
    );
}

#[tokio::test]
async fn known_sites_survive_a_restart_without_peers() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    let two = world.join("site2", &[one.address()]).await;
    one.waits_for("site2", Mark::Connected).await;
    two.waits_for("site1", Mark::Connected).await;
    two.stop().await;
    let at = one.stop().await;
    let one = world.start("site1", at, &[], None).await;
    let view = one.now();
    let seen = &view.sites[&site("site2")];
    assert_eq!(seen.mark, Mark::Autonomous);
    assert_eq!(seen.last_heard, None);
    assert_eq!(seen.announcement.as_ref().unwrap().site, site("site2"));
    assert!(seen.advertise.is_some());
}

#[tokio::test]
async fn a_site_whose_clock_was_set_back_an_hour_says_so_and_is_found_again() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    let two = world.join("site2", &[one.address()]).await;
    one.waits_for("site2", Mark::Connected).await;
    two.waits_for("site1", Mark::Connected).await;
    let before = two.incarnation();
    let at = two.stop().await;
    one.waits_for("site2", Mark::Autonomous).await;

    let events = Bus::new();
    let hour = Duration::from_secs(3600);
    let two = world.start_behind("site2", at, hour, events.clone()).await;
    let mut told = events.listen(Some(0));
    let Some(Heard::Notice(notice)) = told.next().await else {
        panic!("nothing was told");
    };
    assert_eq!(notice.kind, "clock-behind");
    let seconds = notice.body["seconds"].as_u64().unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    // Its start still counts as a later one than the last.
    assert!(two.incarnation() > before);
    one.waits_for("site2", Mark::Connected).await;
    two.waits_for("site1", Mark::Connected).await;
}

#[tokio::test]
async fn a_new_announcement_reaches_peers() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    let two = world.join("site2", &[one.address()]).await;
    one.waits_for("site2", Mark::Connected).await;
    two.waits_for("site1", Mark::Connected).await;
    let mut said = (**two.now().sites[&site("site2")]
        .announcement
        .as_ref()
        .unwrap())
    .clone();
    said.services[0].version = Some("2.0".into());
    two.mesh.announce(said.clone()).await.unwrap();
    let news = |view: &cheops_engine::mesh::View| {
        view.sites[&site("site2")].announcement.as_deref() == Some(&said)
    };
    one.until(news).await;
    assert_eq!(said.services[0].name, ServiceName::new("IMAGE").unwrap());
}

#[tokio::test]
async fn requests_are_dialled_to_the_site_asked_for() {
    let world = World::new(&["site1", "site2"]);
    let mut one = world.agent("site1").await;
    let two = world.join("site2", &[one.address()]).await;
    two.waits_for("site1", Mark::Connected).await;
    let _stream = two
        .mesh
        .dialer()
        .dial_requests(&site("site1"))
        .await
        .unwrap();
    let accepted = one.request().await;
    assert_eq!(
        (accepted.peer, accepted.kind),
        (site("site2"), Kind::Requests)
    );
    let fault = two
        .mesh
        .dialer()
        .dial_requests(&site("site9"))
        .await
        .unwrap_err();
    assert!(matches!(fault, DialError::NoAddress { .. }), "{fault}");
}

#[tokio::test]
async fn a_dial_that_meets_another_site_fails_and_makes_it_known() {
    let world = World::new(&["site1", "site2", "site3"]);
    let three = world.agent("site3").await;
    world.save(
        "site1",
        &format!(
            r#"{{"version":1,"sites":[{{"site":"site2","advertise":"{}","announcement":null}}]}}"#,
            three.address()
        ),
    );
    let one = world.agent("site1").await;
    assert_eq!(one.now().sites[&site("site2")].mark, Mark::Unknown);
    let fault = one
        .mesh
        .dialer()
        .dial_requests(&site("site2"))
        .await
        .unwrap_err();
    assert!(matches!(fault, DialError::OtherSite { found, .. } if found == site("site3")));
    one.waits_for("site3", Mark::Connected).await;
    assert_eq!(one.now().sites[&site("site2")].mark, Mark::Unknown);
}
