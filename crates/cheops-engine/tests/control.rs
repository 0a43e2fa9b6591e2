//! What a peer may say on a control link, and what it is told if it says something else.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use cheops_engine::mesh::{PROTOCOL, new_incarnation};
use cheops_model::Mark;
use common::{Agent, World};
use hyper::StatusCode;

fn hello(name: &str, incarnation: u64) -> String {
    format!(
        r#"{{"announcement":{{"site":"{name}","incarnation":{incarnation},"advertise":"127.0.0.1:1","protocol":{PROTOCOL}}},"known":[],"state":{{"announcement":1,"known":1}}}}"#
    )
}

async fn check(agent: &Agent, world: &World, path: &str, body: String, expected: StatusCode) {
    let mut wire = world.wire("site2", agent).await;
    let (status, said) = wire.post(path, body).await;
    assert_eq!(status, expected, "{path}: {said}");
}

#[tokio::test]
async fn garbage_and_floods_are_refused() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    for path in ["/hello", "/beat"] {
        check(&one, &world, path, String::new(), StatusCode::BAD_REQUEST).await;
        check(
            &one,
            &world,
            path,
            "{\"a\":".into(),
            StatusCode::BAD_REQUEST,
        )
        .await;
        check(
            &one,
            &world,
            path,
            "[[[[".repeat(1000),
            StatusCode::BAD_REQUEST,
        )
        .await;
        let flood = " ".repeat((1 << 20) + 1);
        check(&one, &world, path, flood, StatusCode::PAYLOAD_TOO_LARGE).await;
    }
    check(&one, &world, "/other", "{}".into(), StatusCode::NOT_FOUND).await;
    let bad_address = hello("site2", 1).replace("127.0.0.1:1", "nowhere");
    check(&one, &world, "/hello", bad_address, StatusCode::BAD_REQUEST).await;
    let bad_name = hello("site2", 1).replace(
        "\"known\":[]",
        r#""known":[{"site":"a/b","advertise":"a:1"}]"#,
    );
    check(&one, &world, "/hello", bad_name, StatusCode::BAD_REQUEST).await;
    assert_eq!(one.now().sites.len(), 1);
}

#[tokio::test]
async fn the_announced_name_is_the_certificates() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    check(
        &one,
        &world,
        "/hello",
        hello("site3", 1),
        StatusCode::FORBIDDEN,
    )
    .await;
    assert_eq!(one.now().sites.len(), 1);
    check(&one, &world, "/hello", hello("site2", 1), StatusCode::OK).await;
    one.waits_for("site2", Mark::Autonomous).await;
}

#[tokio::test]
async fn our_own_name_is_us_or_a_rival() {
    let world = World::new(&["site1"]);
    let one = world.agent("site1").await;
    let mut wire = world.wire("site1", &one).await;
    let (status, _) = wire.post("/hello", hello("site1", one.incarnation())).await;
    assert_eq!(status, StatusCode::MISDIRECTED_REQUEST);
    let (status, _) = wire.post("/hello", hello("site1", new_incarnation())).await;
    assert_eq!(status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn of_two_agents_with_one_name_the_first_live_one_is_kept() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    let two = world.join("site2", &[one.address()]).await;
    one.waits_for("site2", Mark::Connected).await;
    check(
        &one,
        &world,
        "/hello",
        hello("site2", new_incarnation()),
        StatusCode::CONFLICT,
    )
    .await;
    two.stop().await;
    one.waits_for("site2", Mark::Autonomous).await;
    check(
        &one,
        &world,
        "/hello",
        hello("site2", new_incarnation()),
        StatusCode::OK,
    )
    .await;
}

#[tokio::test]
async fn of_many_control_connections_of_one_peer_the_newest_stay() {
    let world = World::new(&["site1", "site2"]);
    let one = world.agent("site1").await;
    let beat = || r#"{"announcement":1,"known":1}"#.to_owned();
    let mut wires = Vec::new();
    for _ in 0..5 {
        let mut wire = world.wire("site2", &one).await;
        assert_eq!(wire.post("/beat", beat()).await.0, StatusCode::OK);
        wires.push(wire);
    }
    wires[0].ends().await;
    for wire in &mut wires[1..] {
        assert_eq!(wire.post("/beat", beat()).await.0, StatusCode::OK);
    }
}
