//! `a; b`: the first that can be used, and never twice what may not happen twice.

use crate::common::client::{Connection, ask, get};
use crate::common::eventually;
use crate::common::mesh::seen;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

const FULL: &str = "HTTP/1.1 507 Full\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn the_first_is_used_while_it_can_be_and_the_second_while_not() {
    let mesh = Setup::of(3).start().await;
    let service = mesh.site(1).image;
    let scope = Some("image: site2; site1");
    let answer = get(service, "/images", scope).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site2"));
    mesh.cut(2);
    // Before the cut is known as well as after.
    let answer = get(service, "/images", scope).await;
    assert_eq!(
        (answer.status, answer.served_by()),
        (200, "site1"),
        "{answer:?}"
    );
    mesh.wait_mark(1, 2, "autonomous").await;
    let body = b"{\"name\":\"a\"}";
    let headers = [("X-Scope", "image: site2; site1")];
    let answer = ask(service, "POST", "/images", &headers, body).await;
    assert_eq!((answer.status, answer.served_by()), (201, "site1"));
    let answer = get(service, "/images", Some("image: site2; site3")).await;
    assert_eq!(answer.served_by(), "site3");
    mesh.cut(3);
    mesh.wait_mark(1, 3, "autonomous").await;
    let answer = get(service, "/images", Some("image: site2; site3")).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (503, "no-usable-site")
    );
    assert_eq!(
        answer.json()["sites"],
        serde_json::json!(["site2", "site3"])
    );
    mesh.heal(2);
    eventually("the first is used again", || async {
        let answer = get(service, "/images", scope).await;
        (answer.served_by() == "site2").then_some(())
    })
    .await;
}

#[tokio::test]
async fn around_is_the_near_ones_and_a_cut_one_is_skipped() {
    let mesh = Setup::of(2).start().await;
    let scope = Some("image: around(site1, 10s)");
    let answer = get(mesh.site(2).image, "/images", scope).await;
    assert_eq!(answer.served_by(), "site1");
    mesh.cut(1);
    mesh.wait_mark(2, 1, "autonomous").await;
    let answer = get(mesh.site(2).image, "/images", scope).await;
    assert_eq!(
        (answer.status, answer.served_by()),
        (200, "site2"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_site_without_room_or_without_its_service_is_passed_over() {
    let full = Stub::saying(FULL).await;
    let mut setup = Setup::of(3).image_at(2, full.address);
    setup.no_image_at = vec![3];
    let mesh = setup.start().await;
    for scope in [
        "image: site2; site1",
        "image: site3; site1",
        "image: site3; site2; site1",
    ] {
        let headers = [("X-Scope", scope)];
        let body = b"{\"name\":\"a\"}";
        let answer = ask(mesh.site(1).image, "POST", "/images", &headers, body).await;
        assert_eq!(
            (answer.status, answer.served_by()),
            (201, "site1"),
            "{scope}: {answer:?}"
        );
    }
    let answer = get(mesh.site(1).image, "/images", Some("image: site2")).await;
    assert_eq!(
        (answer.status, answer.served_by()),
        (507, "site2"),
        "as the service says"
    );
}

#[tokio::test]
async fn a_service_that_is_down_is_passed_over_and_one_that_may_have_acted_is_not() {
    let down = crate::common::ports::free();
    let rude = Stub::hanging_up().await;
    let setup = Setup::of(3).image_at(2, down).image_at(3, rude.address);
    let mesh = setup.start().await;
    let service = mesh.site(1).image;
    let body = b"{\"name\":\"a\"}";
    let post = async |scope| ask(service, "POST", "/images", &[("X-Scope", scope)], body).await;
    let answer = post("image: site2; site1").await;
    assert_eq!(
        (answer.status, answer.served_by()),
        (201, "site1"),
        "{answer:?}"
    );
    let answer = post("image: site3; site1").await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (504, "outcome-unknown")
    );
    let answer = get(service, "/images", Some("image: site3; site1")).await;
    assert_eq!(
        (answer.status, answer.served_by()),
        (200, "site1"),
        "a read may be repeated"
    );
    assert_eq!(seen(mesh.site(1).image_service, "/images").await.len(), 2);
}

/// The second try has to send what the first has read so far and then the rest, byte by byte,
/// also while the first is still being sent.
#[tokio::test]
async fn a_body_that_is_still_coming_in_reaches_the_second_site_whole() {
    let full = Stub::saying("HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n").await;
    let mesh = Setup::of(2).image_at(2, full.address).start().await;
    let id = mesh.upload(1, "whole", b"before").await;
    let path = format!("/images/{id}/file");
    let content: Vec<u8> = (0..3_u32 << 20)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    let mut connection = Connection::open(mesh.site(1).image).await;
    let headers = [
        ("Host", "a"),
        ("X-Scope", "image: site2; site1"),
        ("Transfer-Encoding", "chunked"),
    ];
    connection
        .head(&format!("PUT {path} HTTP/1.1"), &headers)
        .await;
    let (first, rest) = content.split_at(100 << 10);
    connection.write(&chunk(first)).await;
    eventually("the second try has begun", || async {
        let seen = seen(mesh.site(1).image_service, &path).await;
        (seen.len() == 2).then_some(())
    })
    .await;
    for piece in rest.chunks(64 << 10) {
        connection.write(&chunk(piece)).await;
    }
    connection.write(b"0\r\n\r\n").await;
    let answer = connection.answer("PUT").await.unwrap();
    assert_eq!(
        (answer.status, answer.served_by()),
        (204, "site1"),
        "{answer:?}"
    );
    let kept = get(mesh.site(1).image_service, &path, None).await;
    assert_eq!(kept.body.len(), content.len());
    assert!(kept.body == content, "the bytes differ");
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", piece.len()).into_bytes();
    out.extend_from_slice(piece);
    out.extend_from_slice(b"\r\n");
    out
}

#[tokio::test]
async fn a_body_too_long_to_keep_gets_one_try() {
    // It takes more than is kept for a second try before it says that it has no room.
    let full = Stub::saying_after(2 << 20, FULL).await;
    let mesh = Setup::of(2).image_at(2, full.address).start().await;
    let id = mesh.upload(1, "whole", b"before").await;
    let path = format!("/images/{id}/file");
    let headers = [("X-Scope", "image: site2; site1")];
    let answer = ask(
        mesh.site(1).image,
        "PUT",
        &path,
        &headers,
        &vec![1; 3 << 20],
    )
    .await;
    assert_eq!(
        (answer.status, answer.served_by()),
        (507, "site2"),
        "{answer:?}"
    );
    assert_eq!(
        get(mesh.site(1).image_service, &path, None).await.body,
        b"before"
    );
}
