//! An agent that is told to stop ends what is open, soon and well.

use std::time::{Duration, Instant};

use crate::common::client::{Connection, get};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

/// What the contract allows.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Nothing is open, so there is nothing to wait for.
const SOON: Duration = Duration::from_secs(4);

async fn stops_within(mesh: &mut Mesh, site: usize, most: Duration) {
    let agent = mesh.take_agent(site);
    let started = Instant::now();
    agent.terminate().await;
    assert!(agent.ended().await, "it ends well");
    let took = started.elapsed();
    assert!(took < most, "{took:?}");
    println!("stopped in {took:?}");
}

#[tokio::test]
async fn an_idle_agent_stops_soon_with_and_without_peers() {
    let mut mesh = Setup::of(2).start().await;
    // A connection between the data planes, and an idle one of a client.
    assert_eq!(
        get(mesh.site(1).image, "/images", Some("image: site2"))
            .await
            .status,
        200
    );
    assert_eq!(
        get(mesh.site(2).image, "/images", Some("image: site1"))
            .await
            .status,
        200
    );
    let mut idle = Connection::open(mesh.site(1).image).await;
    idle.head("GET /images HTTP/1.1", &[("Host", "a")]).await;
    assert_eq!(idle.answer("GET").await.unwrap().status, 200);
    let _silent = Connection::open(mesh.site(1).image).await;
    stops_within(&mut mesh, 1, SOON).await;
    stops_within(&mut mesh, 2, SOON).await;
}

#[tokio::test]
async fn an_agent_that_stops_is_known_to_be_gone_at_once() {
    let mut mesh = Setup::of(2).start().await;
    let agent = mesh.take_agent(2);
    agent.terminate().await;
    let started = Instant::now();
    mesh.wait_mark(1, 2, "autonomous").await;
    let took = started.elapsed();
    assert!(took < SOON, "{took:?}");
    assert!(agent.ended().await);
}

#[tokio::test]
async fn an_open_request_is_finished_here_and_elsewhere() {
    for (stopping, entry) in [(2, 2), (2, 1), (1, 1)] {
        let held = Stub::held().await;
        let mut mesh = Setup::of(2).image_at(2, held.address).start().await;
        let address = mesh.site(entry).image;
        let asked = tokio::spawn(async move { get(address, "/", Some("image: site2")).await });
        eventually("the service has the request", || async {
            (held.seen() == 1).then_some(())
        })
        .await;
        let agent = mesh.take_agent(stopping);
        let started = Instant::now();
        agent.terminate().await;
        let closed = mesh.site(stopping).image;
        eventually("no new client is taken", || async {
            tokio::net::TcpStream::connect(closed).await.err()
        })
        .await;
        assert!(
            !asked.is_finished(),
            "stopping site{stopping}: {:?}",
            asked.await
        );
        held.release();
        let answer = asked.await.unwrap();
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (200, &b"held"[..]),
            "{answer:?}"
        );
        assert!(agent.ended().await);
        assert!(started.elapsed() < STOP_MAX);
    }
}

#[tokio::test]
async fn a_request_that_does_not_end_does_not_keep_an_agent() {
    let silent = Stub::silent().await;
    let mut mesh = Setup::of(1).image_at(1, silent.address).start().await;
    let mut asking = Connection::open(mesh.site(1).image).await;
    asking.head("GET / HTTP/1.1", &[("Host", "a")]).await;
    eventually("the service has the request", || async {
        (silent.seen() == 1).then_some(())
    })
    .await;
    stops_within(&mut mesh, 1, STOP_MAX).await;
}
