//! Who may ask: this machine only, and no web page that a browser on it happens to show.

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
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = header(header::HOST).is_none_or(names_this_machine);
    let authority = |origin: &str| {
        origin
            .split_once("://")
            .map(|(_, at)| names_this_machine(at))
    };
    host && header(header::ORIGIN).is_none_or(|origin| authority(origin).unwrap_or_default())
}

fn names_this_machine(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::names_this_machine;

    #[test]
    fn addresses_and_localhost_pass_and_names_do_not() {
        for good in [
            "127.0.0.1:8700",
            "localhost",
            "localhost:1",
            "[::1]:8700",
            "[::1]",
        ] {
            assert!(names_this_machine(good), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:8700",
            "localhost.evil.example:1",
            "",
        ] {
            assert!(!names_this_machine(bad), "{bad}");
        }
    }
}
