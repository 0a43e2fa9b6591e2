//! Connections that leave HTTP: bytes pass both ways, to this site's service and another site's.

use crate::common::client::Connection;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

const ASK: &[(&str, &str)] = &[
    ("Host", "example.net"),
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// Asks to leave HTTP, and returns the status and the connection.
async fn ask(address: std::net::SocketAddr, scope: Option<&str>) -> (u16, Connection) {
    let mut connection = Connection::open(address).await;
    let mut headers = ASK.to_vec();
    headers.extend(scope.map(|scope| ("X-Scope", scope)));
    connection.head("GET /socket HTTP/1.1", &headers).await;
    let answer = connection.answer_head().await.unwrap();
    if answer.status == 101 {
        assert_eq!(answer.header("upgrade"), "websocket");
        assert_eq!(
            answer.header("x-agreed"),
            "yes",
            "the service's own headers pass"
        );
    }
    (answer.status, connection)
}

async fn echoes(connection: &mut Connection) {
    for piece in [&b"hello"[..], &[0; 100_000], b"bye"] {
        connection.write(piece).await;
        assert_eq!(connection.exactly(piece.len()).await.unwrap(), piece);
    }
}

#[tokio::test]
async fn a_web_socket_passes_to_the_service_here_and_at_another_site() {
    let (here, there) = (Stub::echoing().await, Stub::echoing().await);
    let setup = Setup::of(2)
        .image_at(1, here.address)
        .image_at(2, there.address);
    let mesh = setup.start().await;
    let entry = mesh.site(1).image;
    for (scope, service) in [(None, &here), (Some("image: site2"), &there)] {
        let (status, mut connection) = ask(entry, scope).await;
        assert_eq!(status, 101, "{scope:?}");
        echoes(&mut connection).await;
        assert_eq!(service.seen(), 1, "{scope:?}");
    }
}

#[tokio::test]
async fn a_service_that_does_not_agree_answers_as_it_likes() {
    let refusing =
        Stub::saying("HTTP/1.1 426 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno").await;
    let mesh = Setup::of(2).image_at(2, refusing.address).start().await;
    let (status, _) = ask(mesh.site(1).image, Some("image: site2")).await;
    assert_eq!(status, 426);
    let (status, _) = ask(mesh.site(2).image, None).await;
    assert_eq!(status, 426);
}

#[tokio::test]
async fn a_service_that_leaves_http_unasked_has_failed() {
    let eager = Stub::saying("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n").await;
    let mesh = Setup::of(1).image_at(1, eager.address).start().await;
    let answer = crate::common::client::get(mesh.site(1).image, "/", None).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (502, "service-failed")
    );
}
