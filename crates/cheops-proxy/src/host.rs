//! The host that a request is for: named once, and the same for whoever reads it after us.

use http::request::Parts;
use http::{HeaderValue, Version, header};

use crate::problem::Problem;

/// Checks what RFC 9112 wants of `Host`. A target that names a host (HTTP/2, or a whole URL) stands
/// over it: two that differ would be read one way here and another way at the service.
pub(crate) fn check(head: &mut Parts) -> Result<(), Problem> {
    if let Some(authority) = head.uri.authority() {
        let named = HeaderValue::from_str(authority.as_str()).map_err(|_| not_a_host())?;
        head.headers.insert(header::HOST, named);
    }
    // Whether any header is repeated is known without looking one up.
    let repeated = head.headers.len() > head.headers.keys_len();
    if repeated && head.headers.get_all(header::HOST).iter().nth(1).is_some() {
        return Err(Problem::BadRequest("Host is given twice".to_owned()));
    }
    match head.headers.get(header::HOST) {
        Some(host) if host.as_bytes().iter().all(|byte| may_be_in_host(*byte)) => Ok(()),
        Some(_) => Err(not_a_host()),
        None if head.version == Version::HTTP_11 => {
            Err(Problem::BadRequest("Host is missing".to_owned()))
        }
        None => Ok(()),
    }
}

fn not_a_host() -> Problem {
    Problem::BadRequest("Host is no host".to_owned())
}

/// A table: this runs over every host of every request.
fn may_be_in_host(byte: u8) -> bool {
    const ALLOWED: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            table[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let marks = b"-._~%!$&'()*+,;=:[]";
        let mut at = 0;
        while at < marks.len() {
            table[marks[at] as usize] = true;
            at += 1;
        }
        table
    };
    ALLOWED[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn checked(target: &str, version: Version, hosts: &[&str]) -> Result<String, String> {
        let mut request = Request::get(target).version(version);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        match check(&mut head) {
            Ok(()) => {
                let host = head.headers.get(header::HOST);
                Ok(host.map_or("", |host| host.to_str().unwrap()).to_owned())
            }
            Err(problem) => Err(problem.code().to_owned()),
        }
    }

    #[test]
    fn a_host_is_named_once_and_is_one() {
        let refused = || Err("bad-request".to_owned());
        let v11 = Version::HTTP_11;
        assert_eq!(
            checked("/", v11, &["a.example:80"]),
            Ok("a.example:80".into())
        );
        assert_eq!(checked("/", v11, &["[::1]:80"]), Ok("[::1]:80".into()));
        assert_eq!(checked("/", v11, &[""]), Ok(String::new()));
        assert_eq!(checked("/", v11, &[]), refused());
        assert_eq!(checked("/", Version::HTTP_10, &[]), Ok(String::new()));
        assert_eq!(checked("/", v11, &["a", "a"]), refused());
        for bad in ["a/b", "a b", "u@a", "a?x", "a#x", "a\\b", "ä"] {
            assert_eq!(checked("/", v11, &[bad]), refused(), "{bad}");
        }
    }

    #[test]
    fn a_target_that_names_a_host_stands_over_it() {
        let asked = |hosts: &[&str]| checked("http://a.example/x", Version::HTTP_2, hosts);
        assert_eq!(asked(&["b.example"]), Ok("a.example".into()));
        assert_eq!(asked(&["b", "c"]), Ok("a.example".into()));
        assert_eq!(asked(&[]), Ok("a.example".into()));
        let user = checked("http://u:p@a.example/", Version::HTTP_11, &["a"]);
        assert_eq!(user, Err("bad-request".into()));
    }
}
