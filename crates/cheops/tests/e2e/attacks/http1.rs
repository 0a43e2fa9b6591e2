//! HTTP/1: requests that two readers would read two ways.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{SMUGGLED, say, start, statuses};
use crate::common::client::Connection;
use crate::common::eventually;

/// A head that is refused before anything reaches the service.
const REFUSED: &[(&str, &str)] = &[
    (
        "a length and chunks",
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "chunks and a length",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "two lengths",
        "Content-Length: 0\r\nContent-Length: 37\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "the same length twice",
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    ),
    ("a list of lengths", "Content-Length: 2, 2\r\n\r\nab"),
    ("a length with a plus", "Content-Length: +2\r\n\r\nab"),
    ("a length with a minus", "Content-Length: -1\r\n\r\n"),
    ("a length in hexadecimal", "Content-Length: 0x2\r\n\r\nab"),
    ("a length that is none", "Content-Length: two\r\n\r\nab"),
    ("an empty length", "Content-Length:\r\n\r\nab"),
    (
        "a length beyond counting",
        "Content-Length: 99999999999999999999\r\n\r\n",
    ),
    (
        "chunks twice",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunks, and something else",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ),
    (
        "something else, and chunks",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "nearly chunks",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunks after a tab of the other kind",
        "Transfer-Encoding:\u{b}chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "a coding of no name",
        "Transfer-Encoding: \r\n\r\n0\r\n\r\n",
    ),
    ("a folded header", "X-A: b\r\n c\r\n\r\n"),
    (
        "a folded coding",
        "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    ),
    ("a folded first header", " X-A: b\r\n\r\n"),
    (
        "a lone line feed after a header",
        "X-A: b\nGET /smuggled HTTP/1.1\r\n\r\n",
    ),
    (
        "a lone line feed at the end",
        "X-A: b\r\n\nGET /smuggled HTTP/1.1\r\n\r\n",
    ),
    (
        "a lone carriage return",
        "X-A: b\rGET /smuggled HTTP/1.1\r\n\r\n",
    ),
    ("a blank before the colon", "Content-Length : 2\r\n\r\nab"),
    (
        "a tab before the colon",
        "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("a header without a colon", "X-A\r\n\r\n"),
    ("a header without a name", ": b\r\n\r\n"),
    ("a blank in a name", "X A: b\r\n\r\n"),
    ("a nul in a name", "X\0A: b\r\n\r\n"),
    ("a nul in a value", "X-A: b\0c\r\n\r\n"),
    ("a bell in a value", "X-A: b\u{7}c\r\n\r\n"),
    ("a delete in a value", "X-A: b\u{7f}c\r\n\r\n"),
    ("a letter beyond ASCII in a name", "X-\u{e4}: b\r\n\r\n"),
    ("a host twice", "Host: b\r\n\r\n"),
];

#[tokio::test]
async fn a_head_that_can_be_read_two_ways_is_400_and_nothing_reaches_the_service() {
    let (mesh, witness) = start().await;
    for (what, rest) in REFUSED {
        let text = format!("POST /first HTTP/1.1\r\nHost: a\r\n{rest}");
        let heard = say(mesh.site(1).image, text.as_bytes()).await;
        assert_eq!(
            statuses(&heard),
            [400],
            "{what}: {}",
            String::from_utf8_lossy(&heard)
        );
        assert_eq!(witness.seen(), "", "{what}");
    }
}

#[tokio::test]
async fn the_same_heads_are_refused_byte_by_byte_and_behind_a_good_one() {
    let (mesh, witness) = start().await;
    for (what, rest) in REFUSED {
        let bad = format!("POST {SMUGGLED} HTTP/1.1\r\nHost: a\r\n{rest}");
        let good = format!("GET /good HTTP/1.1\r\nHost: a\r\n\r\n{bad}");
        let heard = say(mesh.site(1).image, good.as_bytes()).await;
        assert_eq!(statuses(&heard), [200, 400], "{what}");

        let mut slow = TcpStream::connect(mesh.site(1).image).await.unwrap();
        slow.set_nodelay(true).unwrap();
        let (mut read, mut write) = slow.split();
        let reading = async {
            let mut heard = Vec::new();
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut heard).await;
            heard
        };
        let writing = async {
            for byte in bad.as_bytes() {
                if write.write_all(&[*byte]).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let (heard, ()) = tokio::join!(reading, writing);
        // The answer may be lost to what was still being sent, but nothing else comes.
        let heard = statuses(&heard);
        assert!(
            heard.is_empty() || heard == [400],
            "{what}, byte by byte: {heard:?}"
        );
    }
    assert!(!witness.seen().contains(SMUGGLED), "{}", witness.seen());
    assert_eq!(witness.requests(), REFUSED.len());
}

#[tokio::test]
async fn a_request_line_that_is_none_is_refused() {
    let (mesh, witness) = start().await;
    for (line, status) in [
        ("GET /a b HTTP/1.1", 400),
        ("GET  /a HTTP/1.1", 400),
        ("GET /a HTTP/1.1 ", 400),
        ("GET /a HTTP/9.9", 400),
        ("GET /a HTTP/1.1\nX: y", 400),
        ("G\0T /a HTTP/1.1", 400),
        ("GET /\0 HTTP/1.1", 400),
        ("GET\t/a HTTP/1.1", 400),
        ("GET /a", 400),
        ("GET http:///a HTTP/1.1", 400),
    ] {
        let text = format!("{line}\r\nHost: a\r\n\r\n");
        let heard = say(mesh.site(1).image, text.as_bytes()).await;
        assert_eq!(statuses(&heard), [status], "{line:?}");
    }
    assert_eq!(witness.seen(), "");
}

#[tokio::test]
async fn a_host_that_is_missing_or_none_is_400() {
    let (mesh, witness) = start().await;
    for host in [
        "",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host: u@a\r\n",
        "Host: a\\b\r\n",
    ] {
        let text = format!("GET / HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        let heard = say(mesh.site(1).image, text.as_bytes()).await;
        assert_eq!(statuses(&heard), [400], "{host:?}");
    }
    assert_eq!(witness.seen(), "");
}

#[tokio::test]
async fn chunks_that_are_none_are_400_and_no_request_ends_by_them() {
    let (mesh, witness) = start().await;
    let inner = format!("GET {SMUGGLED} HTTP/1.1\r\nHost: a\r\n\r\n");
    for (what, chunks) in [
        ("a size that is none", "x\r\nab\r\n0\r\n\r\n"),
        ("a size with a sign", "+2\r\nab\r\n0\r\n\r\n"),
        ("a size with a minus", "-2\r\nab\r\n0\r\n\r\n"),
        ("a size like C", "0x2\r\nab\r\n0\r\n\r\n"),
        ("a size after a blank", " 2\r\nab\r\n0\r\n\r\n"),
        ("a size before a blank", "2 \r\nab\r\n0\r\n\r\n"),
        (
            "a size beyond counting",
            "ffffffffffffffffff\r\nab\r\n0\r\n\r\n",
        ),
        ("an empty size", "\r\nab\r\n0\r\n\r\n"),
        ("a lone line feed after the size", "2\nab\r\n0\r\n\r\n"),
        (
            "a lone line feed in an extension",
            "2;a\nb\r\nab\r\n0\r\n\r\n",
        ),
        (
            "a carriage return in an extension",
            "2;a\rb\r\nab\r\n0\r\n\r\n",
        ),
        ("an extension of no name", "2;\r\nab\r\n0\r\n\r\n"),
        ("a longer chunk than it says", "2\r\nabc\r\n0\r\n\r\n"),
        ("a chunk that ends with a line feed", "2\r\nab\n0\r\n\r\n"),
        (
            "a last chunk that ends with a line feed",
            "2\r\nab\r\n0\n\r\n",
        ),
        (
            "a trailer that ends with a line feed",
            "2\r\nab\r\n0\r\nX: y\n\r\n",
        ),
        ("a folded trailer", "2\r\nab\r\n0\r\nX: y\r\n z\r\n\r\n"),
    ] {
        let head = "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let heard = say(
            mesh.site(1).image,
            format!("{head}{chunks}{inner}").as_bytes(),
        )
        .await;
        assert_eq!(
            statuses(&heard),
            [400],
            "{what}: {}",
            String::from_utf8_lossy(&heard)
        );
    }
    let long = format!(
        "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;{}",
        "a".repeat(100_000)
    );
    assert_eq!(
        statuses(&say(mesh.site(1).image, long.as_bytes()).await),
        [400]
    );
    let seen = witness.seen();
    assert!(!seen.contains(SMUGGLED), "{seen}");
    assert!(
        !seen.contains("0\r\n\r\n"),
        "no refused body was ended: {seen}"
    );
}

#[tokio::test]
async fn well_formed_chunks_pass_without_their_extensions() {
    let (mesh, witness) = start().await;
    let text = "POST /good HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                2;name=\"value\"\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    assert_eq!(
        statuses(&say(mesh.site(1).image, text.as_bytes()).await),
        [200]
    );
    assert!(!witness.seen().contains("name="), "{}", witness.seen());
    assert_eq!(witness.requests(), 1);
}

#[tokio::test]
async fn a_megabyte_of_headers_is_431_however_it_is_cut() {
    let (mesh, witness) = start().await;
    let one = format!("X-A: {}\r\n\r\n", "a".repeat(1 << 20));
    let many = format!(
        "{}\r\n",
        format!("X-A: {}\r\n", "a".repeat(100)).repeat(10_000)
    );
    let small = format!("{}\r\n", "X: y\r\n".repeat(150));
    let over = format!("X-A: {}\r\n\r\n", "a".repeat(66_000));
    for rest in [one, many, small, over] {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{rest}");
        // The answer may be lost to what was still being sent, but nothing else comes.
        let heard = statuses(&say(mesh.site(1).image, text.as_bytes()).await);
        assert!(heard.is_empty() || heard == [431], "{heard:?}");
    }
    let uri = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(70_000));
    let heard = statuses(&say(mesh.site(1).image, uri.as_bytes()).await);
    assert!(heard == [414] || heard == [431], "{heard:?}");
    assert_eq!(witness.seen(), "");
    // With nothing more on its way, the answer is heard.
    let head = "GET / HTTP/1.1\r\nHost: a\r\nX-A: ";
    let mut slow = Connection::open(mesh.site(1).image).await;
    slow.write(format!("{head}{}", "a".repeat(64 * 1024 - head.len())).as_bytes())
        .await;
    assert_eq!(slow.answer_head().await.unwrap().status, 431);
}

#[tokio::test]
async fn after_a_declined_upgrade_the_connection_ends() {
    let (mesh, witness) = start().await;
    let text = format!(
        "GET /first HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n\
         GET {SMUGGLED} HTTP/1.1\nHost: a\n\n"
    );
    let heard = say(mesh.site(1).image, text.as_bytes()).await;
    assert_eq!(statuses(&heard), [200]);
    assert!(!witness.seen().contains(SMUGGLED));
}

#[tokio::test]
async fn a_client_that_breaks_off_in_a_chunk_ends_nothing() {
    let (mesh, witness) = start().await;
    let text = "POST /broken HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab";
    let mut stream = TcpStream::connect(mesh.site(1).image).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    eventually("the service has the beginning", || async {
        witness.seen().contains("/broken").then_some(())
    })
    .await;
    drop(stream);
    let good = "GET /good HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(
        statuses(&say(mesh.site(1).image, good.as_bytes()).await),
        [200]
    );
    assert!(!witness.seen().contains("0\r\n\r\n"), "{}", witness.seen());
}
