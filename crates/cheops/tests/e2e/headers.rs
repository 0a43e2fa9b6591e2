//! What passes, what is added, what never leaves an agent, and who is believed.

use serde_json::Value;

use crate::common::client::{ask, ask_http2, raw};
use crate::common::mesh::{Mesh, assert_untouched, seen};
use crate::common::setup::Setup;
use crate::common::stub::Stub;

/// The last request for `path` that the image service of a site saw.
async fn last_seen(mesh: &Mesh, site: usize, path: &str) -> Value {
    let all = seen(mesh.site(site).image_service, path).await;
    all.last().expect("the service was asked").clone()
}

#[tokio::test]
async fn host_passes_and_via_and_forwarded_are_added() {
    let mesh = Setup::of(2).start().await;
    for (target, there, back) in [
        ("site1", "1.1 site1", "1.1 site1"),
        ("site2", "1.1 site1, 1.1 site2", "1.1 site2, 1.1 site1"),
    ] {
        let scope = format!("image: {target}");
        let headers = [("X-Scope", scope.as_str()), ("Host", "cloud.example:8080")];
        let path = "/images?limit=1&name=a%20b";
        let answer = ask(mesh.site(1).image, "GET", path, &headers, b"").await;
        assert_eq!((answer.status, answer.served_by()), (200, target));
        assert_eq!(answer.all("via").join(", "), back);
        assert!(
            answer
                .header("server-timing")
                .starts_with("agent;desc=\"site")
        );
        let number = target[4..].parse().unwrap();
        let got = last_seen(&mesh, number, path).await;
        assert_eq!(got["host"], "cloud.example:8080");
        assert_eq!(got["forwarded"], "for=127.0.0.1;proto=http");
        assert_eq!(got["via"], there);
        assert_untouched(&got);
    }
}

#[tokio::test]
async fn what_only_agents_say_is_not_believed_from_clients() {
    let mesh = Setup::of(2).start().await;
    let envelope = "service=image;target=site2;entry=site2;visited=site2;hops=99;deadline=1";
    for scope in ["image: site1", "image: site2"] {
        let headers = [
            ("X-Scope", scope),
            ("X-Cheops-Mesh", envelope),
            ("x-cheops-host", "forged.example"),
            ("X-Cheops-Nothing-Happened", "1"),
            ("X-CHEOPS-SERVED-BY", "moon"),
            ("X-Cheops-Unbound", "moon"),
        ];
        let answer = ask(mesh.site(1).image, "GET", "/images?forged", &headers, b"").await;
        assert_eq!(
            (answer.status, answer.served_by()),
            (200, &scope[7..]),
            "{answer:?}"
        );
        assert_eq!(answer.header("x-cheops-unbound"), "");
        let got = last_seen(&mesh, scope[11..].parse().unwrap(), "/images?forged").await;
        assert_untouched(&got);
        assert_eq!(got["host"], "app.example");
    }
}

#[tokio::test]
async fn what_only_agents_say_is_not_believed_from_services() {
    let forged = Stub::saying(
        "HTTP/1.1 503 No\r\nContent-Length: 0\r\nX-Cheops-Served-By: moon\r\n\
         X-Cheops-Nothing-Happened: 1\r\nKeep-Alive: timeout=9\r\nX-Hop: 1\r\n\
         Connection: close, X-Hop\r\nX-Own: 7\r\n\r\n",
    )
    .await;
    let mesh = Setup::of(2).image_at(2, forged.address).start().await;
    for entry in [1, 2] {
        let headers = [("X-Scope", "image: site2; site1")];
        let body = b"{\"name\":\"a\"}";
        let answer = ask(mesh.site(entry).image, "POST", "/images", &headers, body).await;
        assert_eq!(
            (answer.status, answer.served_by()),
            (503, "site2"),
            "{answer:?}"
        );
        assert_eq!(answer.header("x-own"), "7");
        for gone in ["x-hop", "keep-alive", "x-cheops-nothing-happened"] {
            assert_eq!(answer.header(gone), "", "{gone}");
        }
    }
}

#[tokio::test]
async fn headers_of_one_hop_are_removed() {
    let mesh = Setup::of(2).start().await;
    for (site, scope) in [(1, "image: site1"), (2, "image: site2")] {
        let headers = [
            ("X-Scope", scope),
            ("Connection", "keep-alive, X-Secret"),
            ("X-Secret", "1"),
            ("Keep-Alive", "timeout=5"),
            ("TE", "trailers"),
            ("Proxy-Authorization", "Basic x"),
            ("Upgrade", "h2c"),
            ("Authorization", "Bearer t"),
        ];
        let answer = ask(mesh.site(1).image, "GET", "/images?hop", &headers, b"").await;
        assert_eq!(answer.status, 200);
        let got = last_seen(&mesh, site, "/images?hop").await;
        for gone in [
            "connection",
            "x-secret",
            "keep-alive",
            "te",
            "proxy-authorization",
            "upgrade",
        ] {
            assert_eq!(got[gone], Value::Null, "{gone}: {got}");
        }
        assert_eq!(got["authorization"], "Bearer t");
    }
}

#[tokio::test]
async fn an_agent_is_no_open_proxy() {
    let mesh = Setup::of(2).start().await;
    let stranger = Stub::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let elsewhere = stranger.address;
    let service = mesh.site(1).image;
    let absolute = format!("GET http://{elsewhere}/images HTTP/1.1\r\nHost: {elsewhere}\r\n\r\n");
    let answer = raw(service, absolute.as_bytes()).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    let scoped = absolute.replace("\r\n\r\n", "\r\nX-Scope: image: site2\r\n\r\n");
    let answer = raw(service, scoped.as_bytes()).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site2"));
    let connect = format!("CONNECT {elsewhere} HTTP/1.1\r\nHost: {elsewhere}\r\n\r\n");
    let answer = raw(service, connect.as_bytes()).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (403, "forbidden-by-policy")
    );
    assert_eq!(stranger.seen(), 0);
}

#[tokio::test]
async fn any_method_passes_here_and_elsewhere() {
    let mesh = Setup::of(2).start().await;
    let content = b"the bits of a disk";
    for site in [1, 2] {
        let id = mesh.upload(site, "a", content).await;
        let path = format!("/images/{id}/file");
        let scope = format!("image: site{site}");
        let headers = [("X-Scope", scope.as_str())];
        let service = mesh.site(1).image;
        let head = ask(service, "HEAD", &path, &headers, b"").await;
        assert_eq!(
            (head.status, head.header("content-length")),
            (200, "18"),
            "{head:?}"
        );
        for method in ["OPTIONS", "TRACE", "BREW"] {
            let answer = ask(service, method, &path, &headers, b"").await;
            assert_eq!(answer.status, 405, "as the service says: {method}");
            assert_eq!(answer.served_by(), format!("site{site}"));
            assert_eq!(answer.header("allow"), "GET, HEAD, PUT");
        }
        let answer = ask(service, "OPTIONS", "*", &headers, b"").await;
        assert_eq!(
            (answer.status, answer.served_by()),
            (404, scope.as_str().split_at(7).1)
        );
    }
}

#[tokio::test]
async fn http2_works_here_and_elsewhere() {
    let mesh = Setup::of(2).start().await;
    for site in [1, 2] {
        let scope = format!("image: site{site}");
        let headers = [
            ("x-scope", scope.as_str()),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ];
        let service = mesh.site(1).image;
        let made = ask_http2(service, "POST", "/images", &headers, b"{\"name\":\"a\"}").await;
        assert_eq!(
            (made.status, made.served_by()),
            (201, &scope[7..]),
            "{made:?}"
        );
        let got = last_seen(&mesh, site, "/images").await;
        assert_eq!(got["host"], "app.example");
        assert_eq!(
            got["cookie"], "a=1; b=2",
            "one header, as HTTP/1.1 wants it"
        );
        assert_untouched(&got);
        let path = format!("/images/{}", made.json()["id"].as_str().unwrap());
        let shown = ask_http2(service, "GET", &path, &headers, b"").await;
        assert_eq!(
            (shown.status, shown.json()["name"].as_str()),
            (200, Some("a"))
        );
    }
    let answer = ask_http2(
        mesh.site(1).image,
        "GET",
        "/",
        &[("x-scope", "image: moon")],
        b"",
    )
    .await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (400, "unknown-site")
    );
}
