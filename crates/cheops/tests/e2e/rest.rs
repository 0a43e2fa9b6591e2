//! A client that asks nothing for a while, and then again on the same connection: it cannot tell that
//! the agent has put the connection to rest meanwhile.

use std::time::Duration;

use crate::common::client::Connection;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;

/// Longer than a connection goes on without rest. It is the time itself that is to pass.
const WHILE: Duration = Duration::from_millis(1400);

const GET: &[u8] = b"GET /images HTTP/1.1\r\nHost: a\r\n\r\n";

/// A connection that has been answered once, and then nothing for a while.
async fn rested(mesh: &Mesh) -> Connection {
    let mut connection = Connection::open(mesh.site(1).image).await;
    connection.write(GET).await;
    assert_eq!(connection.answer("GET").await.unwrap().status, 200);
    tokio::time::sleep(WHILE).await;
    connection
}

async fn is_answered(connection: &mut Connection, times: usize) {
    for _ in 0..times {
        assert_eq!(connection.answer("GET").await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn what_is_asked_after_a_rest_is_answered_however_it_comes() {
    let mesh = Setup::of(1).start().await;
    let id = mesh.upload(1, "rested", b"").await;
    let whole = async {
        let mut connection = rested(&mesh).await;
        connection.write(GET).await;
        is_answered(&mut connection, 1).await;
        tokio::time::sleep(WHILE).await;
        connection.write(&GET.repeat(3)).await;
        is_answered(&mut connection, 3).await;
    };
    let in_pieces = async {
        let mut connection = rested(&mesh).await;
        for byte in GET {
            connection.write(&[*byte]).await;
            tokio::task::yield_now().await;
        }
        is_answered(&mut connection, 1).await;
    };
    let after_empty_lines = async {
        let mut connection = rested(&mesh).await;
        connection.write(b"\r\n\r\n").await;
        tokio::time::sleep(WHILE).await;
        connection.write(GET).await;
        is_answered(&mut connection, 1).await;
    };
    let half_a_head = async {
        let mut connection = rested(&mesh).await;
        let (first, rest) = GET.split_at(12);
        connection.write(first).await;
        tokio::time::sleep(WHILE).await;
        connection.write(rest).await;
        is_answered(&mut connection, 1).await;
    };
    let with_a_body = async {
        let mut connection = rested(&mesh).await;
        let body = vec![b'b'; 100_000];
        let head = format!(
            "PUT /images/{id}/file HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write(&[head.as_bytes(), &body].concat()).await;
        assert_eq!(connection.answer("PUT").await.unwrap().status, 204);
        let get = format!("GET /images/{id}/file HTTP/1.1\r\nHost: a\r\n\r\n");
        connection.write(get.as_bytes()).await;
        assert_eq!(connection.answer("GET").await.unwrap().body, body);
    };
    let badly_framed = async {
        let mut connection = rested(&mesh).await;
        connection
            .write(b"GET /images HTTP/1.1\nHost: a\r\n\r\n")
            .await;
        assert_eq!(connection.answer("GET").await.unwrap().status, 400);
        assert!(connection.line().await.is_err());
    };
    tokio::join!(
        whole,
        in_pieces,
        after_empty_lines,
        half_a_head,
        with_a_body,
        badly_framed
    );
}

#[tokio::test]
async fn a_connection_at_rest_ends_when_it_was_idle_for_too_long() {
    let mut setup = Setup::of(1);
    setup.more = "[clients]\nidle = \"1700ms\"\n".to_owned();
    let mesh = setup.start().await;
    let mut connection = rested(&mesh).await;
    assert!(connection.line().await.is_err());
}

#[tokio::test]
async fn an_agent_that_stops_ends_connections_at_rest() {
    let mut mesh = Setup::of(1).start().await;
    let mut connection = rested(&mesh).await;
    let agent = mesh.take_agent(1);
    agent.terminate().await;
    assert!(agent.ended().await);
    assert!(connection.line().await.is_err());
}
