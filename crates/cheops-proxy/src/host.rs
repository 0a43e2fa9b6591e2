//! The host that a request is for: named once, and the same for whoever reads it after us.

use http::request::Parts;
use http::{HeaderValue, Version, header};

use crate::headers::Survey;
use crate::problem::Problem;

/// Checks what RFC 9112 wants of `Host`. A target that names a host (HTTP/2, or a whole URL) stands
/// over it: two that differ would be read one way here and another way at the service.
pub(crate) fn check(head: &mut Parts, survey: &Survey) -> Result<(), Problem> {
    if let Some(authority) = head.uri.authority() {
        let named = HeaderValue::from_str(authority.as_str());
        let named = named
            .ok()
            .filter(|host| is_host(host.as_bytes()))
            .ok_or_else(not_a_host)?;
        head.headers.insert(header::HOST, named);
        return Ok(());
    }
    match survey.hosts {
        0 if head.version == Version::HTTP_11 => {
            Err(Problem::BadRequest("Host is missing".to_owned()))
        }
        0 | 1 if !survey.bad_host => Ok(()),
        0 | 1 => Err(not_a_host()),
        _ => Err(Problem::BadRequest("Host is given twice".to_owned())),
    }
}

/// Whether each byte may stand in a host with its port.
pub(crate) fn is_host(value: &[u8]) -> bool {
    value.iter().all(|byte| may_be_in_host(*byte))
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
        let survey = Survey::of(&head.headers);
        match check(&mut head, &survey) {
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
