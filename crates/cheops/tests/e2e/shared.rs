//! One listener for several services, told apart by host name or path.

use crate::common::client::{ask, ask_http2, get};
use crate::common::ports;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

#[tokio::test]
async fn a_service_is_chosen_by_host_or_path() {
    let image =
        Stub::saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nimage")
            .await;
    let address = ports::free();
    let mut setup = Setup::of(1).image_at(1, image.address);
    setup.image = "hosts = [\"image.example\"]\npaths = [\"/v2\"]".to_owned();
    setup.compute = "paths = [\"/servers\", \"/debug\"]".to_owned();
    setup.more = format!("[shared]\nlisten = \"{address}\"\n");
    let mesh = setup.start().await;
    let host = |host: &'static str| [("Host", host)];
    for (path, name, status) in [
        ("/v2/images", "image.example", 200),
        ("/v2", "IMAGE.example:9999", 200),
        ("/v2", "other.example", 404),
        ("/servers", "other.example", 200),
        ("/servers", "image.example", 200),
        ("/servers2", "other.example", 404),
        ("/", "image.example", 404),
    ] {
        let answer = ask(address, "GET", path, &host(name), b"").await;
        assert_eq!(answer.status, status, "{name} {path}");
        if status == 404 {
            assert_eq!(answer.problem(), "not-found");
        }
    }
    let answer = ask(address, "GET", "/v2/x", &host("image.example"), b"").await;
    assert_eq!(answer.body, b"image");
    // HTTP/2 names the host in its target.
    let answer = ask_http2(address, "GET", "/servers", &[], b"").await;
    assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    // A host given twice, or none: no guess.
    let twice = b"GET /servers HTTP/1.1\r\nHost: a\r\nHost: image.example\r\n\r\n";
    assert_eq!(crate::common::client::raw(address, twice).await.status, 400);
    let own = get(mesh.site(1).compute, "/servers", None).await;
    assert_eq!(own.status, 200, "its own listener stays");
}

#[tokio::test]
async fn a_scope_places_what_came_to_the_shared_listener() {
    let mut mesh = Setup::of(2).start().await;
    let address = ports::free();
    let config = mesh.site(1).config.clone();
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("aliases", "paths = [\"/images\"]\naliases");
    std::fs::write(
        &config,
        format!("{text}\n[shared]\nlisten = \"{address}\"\n"),
    )
    .unwrap();
    mesh.take_agent(1).kill().await;
    mesh.restart(1).await;
    mesh.wait_mark(1, 2, "connected").await;
    for site in ["site1", "site2"] {
        let scope = format!("image: {site}");
        let answer = get(address, "/images", Some(&scope)).await;
        assert_eq!((answer.status, answer.served_by()), (200, site));
    }
}
