//! HTTP/2: requests that would become something else once they are spoken in HTTP/1.

use super::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, Outcome, Raw, block, frame, plain};
use super::{SMUGGLED, start};

async fn outcome(address: std::net::SocketAddr, headers: &[(&str, &str)]) -> Outcome {
    let mut raw = Raw::open(address).await;
    raw.say(&frame(
        HEADERS,
        END_STREAM | END_HEADERS,
        1,
        &block(headers),
    ))
    .await;
    raw.outcome(1).await
}

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [plain("/plain"), more.to_vec()].concat()
}

fn without<'a>(name: &str) -> Vec<(&'a str, &'a str)> {
    plain("/plain")
        .into_iter()
        .filter(|(key, _)| *key != name)
        .collect()
}

fn instead<'a>(name: &str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let change = |(key, old): (&'a str, &'a str)| (key, if key == name { value } else { old });
    plain("/plain").into_iter().map(change).collect()
}

#[tokio::test]
async fn headers_that_http1_would_read_otherwise_are_refused() {
    let (mesh, witness) = start().await;
    let injected = "b\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a";
    let cases: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("no method", without(":method")),
        ("no path", without(":path")),
        ("no scheme", without(":scheme")),
        ("two methods", with(&[(":method", "POST")])),
        ("two paths", with(&[(":path", SMUGGLED)])),
        ("two authorities", with(&[(":authority", "b")])),
        ("a pseudo-header of a response", with(&[(":status", "200")])),
        ("an unknown pseudo-header", with(&[(":evil", "1")])),
        (
            "a pseudo-header after a header",
            [vec![("x-a", "b")], plain("/plain")].concat(),
        ),
        ("capitals in a name", with(&[("X-A", "b")])),
        ("a connection header", with(&[("connection", "close")])),
        (
            "a transfer-encoding",
            with(&[("transfer-encoding", "chunked")]),
        ),
        ("a keep-alive", with(&[("keep-alive", "1")])),
        ("a proxy-connection", with(&[("proxy-connection", "close")])),
        ("an upgrade", with(&[("upgrade", "websocket")])),
        ("a te of another kind", with(&[("te", "gzip")])),
        ("a request in a value", with(&[("x-a", injected)])),
        ("a line feed in a value", with(&[("x-a", "b\nc: d")])),
        ("a nul in a value", with(&[("x-a", "b\0c")])),
        (
            "a request in a name",
            with(&[("x-a: b\r\n\r\nget /smuggled http/1.1\r\nx", "y")]),
        ),
        ("a colon in a name", with(&[("x-a:b", "c")])),
        ("a blank in a name", with(&[("x a", "c")])),
        ("an empty name", with(&[("", "c")])),
        (
            "a request in the path",
            instead(":path", "/ HTTP/1.1\r\nHost: a\r\n\r\nGET /smuggled"),
        ),
        ("a blank in the path", instead(":path", "/a b")),
        ("an empty path", instead(":path", "")),
        (
            "a path that is an address",
            instead(":path", "http://evil/"),
        ),
        ("a path without a slash", instead(":path", "smuggled")),
        (
            "a request in the method",
            instead(":method", "GET /smuggled HTTP/1.1\r\nX"),
        ),
        ("a blank in the method", instead(":method", "GET /smuggled")),
        (
            "a request in the authority",
            instead(":authority", "a\r\n\r\nGET /smuggled HTTP/1.1"),
        ),
        ("a user in the authority", instead(":authority", "u:p@a")),
        ("a blank in the authority", instead(":authority", "a b")),
        (
            "a request in the scheme",
            instead(":scheme", "http://a\r\n\r\nGET /smuggled HTTP/1.1"),
        ),
        ("a length that is none", with(&[("content-length", "+1")])),
        (
            "two lengths",
            with(&[("content-length", "0"), ("content-length", "37")]),
        ),
        ("a length with no body", with(&[("content-length", "5")])),
        (
            "two hosts, and the scope twice",
            with(&[("x-scope", "image: site1"), ("x-scope", "image: site1")]),
        ),
    ];
    for (what, headers) in cases {
        let outcome = outcome(mesh.site(1).image, &headers).await;
        assert!(
            matches!(outcome, Outcome::GivenUp | Outcome::Status(400)),
            "{what}: {outcome:?}"
        );
        assert_eq!(witness.seen(), "", "{what}");
    }
    let good = outcome(mesh.site(1).image, &plain("/good")).await;
    assert_eq!(good, Outcome::Status(200));
}

#[tokio::test]
async fn a_host_beside_the_authority_is_replaced_by_it() {
    let (mesh, witness) = start().await;
    let headers = with(&[("host", "evil.example"), ("host", "worse.example")]);
    assert_eq!(
        outcome(mesh.site(1).image, &headers).await,
        Outcome::Status(200)
    );
    let seen = witness.seen().to_ascii_lowercase();
    assert!(seen.contains("host: a.example\r\n"), "{seen}");
    assert!(!seen.contains("evil") && !seen.contains("worse"), "{seen}");
}

#[tokio::test]
async fn a_body_that_is_not_as_long_as_it_says_ends_no_request() {
    let (mesh, witness) = start().await;
    for (length, body) in [("2", "abcdef"), ("20", "abc")] {
        let headers = with(&[("content-length", length)]);
        let headers: Vec<_> = headers
            .into_iter()
            .map(|(name, value)| (name, if name == ":method" { "POST" } else { value }))
            .collect();
        let mut raw = Raw::open(mesh.site(1).image).await;
        raw.say(&frame(HEADERS, END_HEADERS, 1, &block(&headers)))
            .await;
        raw.say(&frame(DATA, END_STREAM, 1, body.as_bytes())).await;
        let outcome = raw.outcome(1).await;
        assert_ne!(outcome, Outcome::Status(200), "{length}");
    }
    assert!(!witness.seen().contains("abcdef"), "{}", witness.seen());
}

#[tokio::test]
async fn a_body_without_a_length_is_sent_in_chunks_and_cannot_hide_a_request() {
    let (mesh, witness) = start().await;
    let mut headers = plain("/good");
    headers[0].1 = "POST";
    let body = format!("0\r\n\r\nGET {SMUGGLED} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut raw = Raw::open(mesh.site(1).image).await;
    raw.say(&frame(HEADERS, END_HEADERS, 1, &block(&headers)))
        .await;
    raw.say(&frame(DATA, END_STREAM, 1, body.as_bytes())).await;
    assert_eq!(raw.outcome(1).await, Outcome::Status(200));
    let seen = witness.seen();
    let size = format!("{:X}\r\n0\r\n\r\nGET {SMUGGLED}", body.len());
    assert!(seen.contains(&size), "the body is within one chunk: {seen}");
}
