//! Who may ask: this machine only, and no web page that a browser on it happens to show.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// Lets a request through, or answers 403.
pub(crate) async fn local_only(request: Request, next: Next) -> Response {
    if !is_local(request.headers()) {
        let detail = "ask by address or as localhost, not by another name";
        return Problem::Forbidden(detail.to_owned()).into_response();
    }
    next.run(request).await
}

/// A page of another origin can make a browser send requests here; it cannot forge `Host` to be
/// an address, nor hide its own `Origin`.
fn is_local(headers: &HeaderMap) -> bool {
    let header = |name| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or_default())
    };
    let host = header(header::HOST);
    // A page may come from an address too: it is ours only if we are asked under the same one.
    let ours = |origin: &str| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|authority| is_loopback(authority) || Some(authority) == host)
    };
    host.is_none_or(is_address) && header(header::ORIGIN).is_none_or(ours)
}

fn is_address(authority: &str) -> bool {
    let host = host_of(authority);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

fn is_loopback(authority: &str) -> bool {
    let host = host_of(authority);
    let loopback = |address: IpAddr| address.is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(loopback)
}

fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host),
    }
}

#[cfg(test)]
mod tests {
    use super::is_address;

    #[test]
    fn addresses_and_localhost_pass_and_names_do_not() {
        for good in [
            "127.0.0.1:8700",
            "localhost",
            "localhost:1",
            "[::1]:8700",
            "[::1]",
        ] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:8700",
            "localhost.evil.example:1",
            "",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
