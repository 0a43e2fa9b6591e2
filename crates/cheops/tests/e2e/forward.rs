//! The forward proxy: for services whose peers cannot be reconfigured, and never an open one.

use std::net::SocketAddr;

use crate::common::client::{Answer, Connection, raw};
use crate::common::mesh::{Mesh, seen};
use crate::common::ports;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

/// One site whose forward proxy can be reached, and where it is.
async fn start(setup: Setup) -> (Mesh, SocketAddr) {
    let proxy = ports::free();
    let mut setup = setup;
    setup.more = format!("[forward]\nlisten = \"{proxy}\"\n");
    (setup.start().await, proxy)
}

async fn through(proxy: SocketAddr, url: &str, scope: &str) -> Answer {
    let text = format!("GET {url} HTTP/1.1\r\nHost: whatever\r\nX-Scope: {scope}\r\n\r\n");
    raw(proxy, text.as_bytes()).await
}

#[tokio::test]
async fn a_registered_service_is_reached_by_any_of_its_names() {
    let mut setup = Setup::of(1);
    setup.image = "hosts = [\"10.1.2.3:9292\"]".to_owned();
    let (mesh, proxy) = start(setup).await;
    let really = mesh.site(1).image_service;
    for host in [
        "image".to_owned(),
        "glance".to_owned(),
        "IMAGE:80".to_owned(),
        "10.1.2.3:9292".to_owned(),
        really.to_string(),
    ] {
        let answer = through(proxy, &format!("http://{host}/images?from"), "image: site1").await;
        assert_eq!(
            (answer.status, answer.served_by()),
            (200, "site1"),
            "{host}"
        );
        let got = seen(really, "/images?from").await;
        assert_eq!(
            got.last().unwrap()["host"],
            host,
            "as the client asked, whatever Host said"
        );
    }
}

#[tokio::test]
async fn nothing_else_is_reached() {
    let outside = Stub::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let (mesh, proxy) = start(Setup::of(1)).await;
    let elsewhere = outside.address.to_string();
    for host in [
        elsewhere.as_str(),
        "example.org",
        "169.254.169.254",
        "localhost:22",
    ] {
        let answer = through(proxy, &format!("http://{host}/"), "image: site1").await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (403, "forbidden-by-policy"),
            "{host}"
        );
        let tunnel = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = raw(proxy, tunnel.as_bytes()).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (403, "forbidden-by-policy"),
            "{host}"
        );
    }
    assert_eq!(outside.seen(), 0);
    // The admin listener and the mesh port are no services.
    for address in [mesh.site(1).admin, mesh.site(1).mesh] {
        let answer = through(
            proxy,
            &format!("http://{address}/v1/health"),
            "image: site1",
        )
        .await;
        assert_eq!(answer.status, 403);
    }
    let bare = raw(proxy, b"GET /images HTTP/1.1\r\nHost: image\r\n\r\n").await;
    assert_eq!((bare.status, bare.problem().as_str()), (400, "bad-request"));
    let user = through(proxy, "http://user:secret@image/images", "image: site1").await;
    assert_eq!(user.status, 400);
}

#[tokio::test]
async fn a_tunnel_ends_in_the_agent_and_not_at_the_service() {
    let (mesh, proxy) = start(Setup::of(1)).await;
    let mut tunnel = Connection::open(proxy).await;
    tunnel
        .head("CONNECT image:443 HTTP/1.1", &[("Host", "image:443")])
        .await;
    assert_eq!(tunnel.answer_head().await.unwrap().status, 200);
    for _ in 0..2 {
        let headers = [("Host", "image"), ("X-Scope", "image: site1")];
        tunnel.head("GET /images?tunnel HTTP/1.1", &headers).await;
        let answer = tunnel.answer("GET").await.unwrap();
        assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    }
    let got = seen(mesh.site(1).image_service, "/images?tunnel").await;
    assert_eq!(got.len(), 2);
    assert!(got[0]["x-scope"].is_null(), "the agent read it: {}", got[0]);
    // Inside, no further tunnel, and no other service.
    tunnel
        .head(
            "GET http://compute/servers HTTP/1.1",
            &[("Host", "compute")],
        )
        .await;
    assert_eq!(tunnel.answer("GET").await.unwrap().status, 404);
    tunnel
        .head("CONNECT compute:443 HTTP/1.1", &[("Host", "compute:443")])
        .await;
    assert_eq!(
        tunnel.answer("GET").await.unwrap().problem(),
        "forbidden-by-policy"
    );
}

#[tokio::test]
async fn a_listener_that_is_no_proxy_takes_no_tunnel() {
    let (mesh, _) = start(Setup::of(1)).await;
    let service = mesh.site(1).image_service;
    let tunnel = format!("CONNECT {service} HTTP/1.1\r\nHost: {service}\r\n\r\n");
    let answer = raw(mesh.site(1).image, tunnel.as_bytes()).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (403, "forbidden-by-policy")
    );
}
