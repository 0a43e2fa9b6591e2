//! Whether a request is an ordinary one, and what it says.
//!
//! `None` is no refusal: whoever gets it leaves the request to the HTTP library as it came. So what
//! is unusual in any way is not looked at twice here.

use http::Method;
use httparse::{Header, Status};

use super::lines::{Lines, Room, Without};
use crate::host;
use crate::own;

/// A request that is there as a whole and wants nothing but an answer.
pub(super) struct Ordinary<'a, 'b> {
    pub(super) method: Method,
    pub(super) target: &'b str,
    pub(super) lines: Lines<'a, 'b>,
    pub(super) body: &'b [u8],
    pub(super) scope: Option<&'b [u8]>,
    /// What does not pass.
    pub(super) without: Without,
}

impl<'b> Ordinary<'_, 'b> {
    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.lines.head.len() + self.body.len()
    }

    /// A header that is given at most once, with its place; `Err` if it is given again.
    pub(super) fn header(&self, name: &str) -> Result<Option<(usize, &'b [u8])>, Repeated> {
        let headers = self.lines.headers.iter().enumerate();
        let mut named = headers.filter(|(_, header)| header.name.eq_ignore_ascii_case(name));
        let first = named.next().map(|(place, header)| (place, header.value));
        match named.next() {
            None => Ok(first),
            Some(_) => Err(Repeated),
        }
    }
}

/// A header is given twice.
pub(super) struct Repeated;

/// Reads the first request of `bytes`, whose lines end as they should.
pub(super) fn read<'a, 'b>(bytes: &'b [u8], room: &'a mut Room<'b>) -> Option<Ordinary<'a, 'b>> {
    // Empty lines may stand before a request; here they do not.
    if !bytes.first()?.is_ascii_uppercase() {
        return None;
    }
    let mut request = httparse::Request::new(&mut []);
    let read = request.parse_with_uninit_headers(bytes, room);
    let Ok(Status::Complete(head_len)) = read else {
        return None;
    };
    if request.version != Some(1) {
        return None;
    }
    let target = request.path.filter(|target| is_plain(target))?;
    let seen = Seen::of(request.headers)?;
    let (head, rest) = bytes.split_at(head_len);
    Some(Ordinary {
        method: method(request.method?)?,
        target,
        lines: Lines {
            head,
            headers: request.headers,
        },
        body: rest.get(..seen.length.unwrap_or(0))?,
        scope: seen.scope,
        without: seen.without,
    })
}

/// Methods whose answers have bodies as their heads say.
fn method(text: &str) -> Option<Method> {
    match text {
        "GET" => Some(Method::GET),
        "POST" => Some(Method::POST),
        "PUT" => Some(Method::PUT),
        "PATCH" => Some(Method::PATCH),
        "DELETE" => Some(Method::DELETE),
        _ => None,
    }
}

/// A path of the service, maybe with a query, of bytes that stand for themselves in any URI.
fn is_plain(target: &str) -> bool {
    target.starts_with('/')
        && !target.starts_with(own::ROOT)
        && target.bytes().all(|byte| PLAIN[usize::from(byte)])
}

/// A table: this runs over the target of every request.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"-._~%!$&'()*+,;=:@/?";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

/// What one look at the headers tells.
#[derive(Default)]
struct Seen<'b> {
    hosts: u32,
    cookies: u32,
    length: Option<usize>,
    scope: Option<&'b [u8]>,
    without: Without,
}

impl<'b> Seen<'b> {
    fn of(headers: &[Header<'b>]) -> Option<Seen<'b>> {
        let mut seen = Seen::default();
        for (place, header) in headers.iter().enumerate() {
            seen.look(place, header)?;
        }
        // Cookies in several lines are joined before a service sees them.
        (seen.hosts == 1 && seen.cookies < 2).then_some(seen)
    }

    /// The first byte decides for most headers, without a comparison of texts.
    fn look(&mut self, place: usize, header: &Header<'b>) -> Option<()> {
        let (name, value) = (header.name, header.value);
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match name.as_bytes().first()? | 0x20 {
            b'h' if is("host") => {
                self.hosts += 1;
                host::is_host(value).then_some(())
            }
            b'c' if is("connection") => {
                self.without.add(place);
                value.eq_ignore_ascii_case(b"keep-alive").then_some(())
            }
            b'c' if is("content-length") => {
                self.length.replace(length(value)?).is_none().then_some(())
            }
            b'c' if is("cookie") => {
                self.cookies += 1;
                Some(())
            }
            b'x' if is("x-scope") => {
                self.without.add(place);
                self.scope.replace(value).is_none().then_some(())
            }
            b'x' => (!starts_with(name, "x-cheops-")).then_some(()),
            b'b' => (!is("baggage")).then_some(()),
            b'e' => (!is("expect")).then_some(()),
            b'k' => (!is("keep-alive")).then_some(()),
            b'p' => (!starts_with(name, "proxy-")).then_some(()),
            b't' => (!is("te") && !is("trailer") && !is("transfer-encoding")).then_some(()),
            b'u' => (!is("upgrade")).then_some(()),
            _ => Some(()),
        }
    }
}

pub(super) fn starts_with(name: &str, prefix: &str) -> bool {
    let start = name.as_bytes().get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// A number of digits alone.
pub(super) fn length(value: &[u8]) -> Option<usize> {
    if value.is_empty() || value.len() > 18 {
        return None;
    }
    let mut sum: usize = 0;
    for byte in value {
        let digit = byte.is_ascii_digit().then(|| usize::from(byte - b'0'))?;
        sum = sum.checked_mul(10)?.checked_add(digit)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lines::{HEADERS_MAX, room};
    use super::*;
    use crate::framing::Framing;

    fn told(text: &str) -> Option<String> {
        let mut room = room();
        let read = read(text.as_bytes(), &mut room)?;
        let mut out = Vec::new();
        read.lines.write(read.without, &mut out);
        assert_eq!(
            text.len() - read.len(),
            text.rfind("|").map_or(0, |at| text.len() - at)
        );
        Some(format!(
            "{} {} {:?} {}|{}",
            read.method,
            read.target,
            read.scope.map(String::from_utf8_lossy),
            String::from_utf8(out).unwrap(),
            String::from_utf8_lossy(read.body)
        ))
    }

    #[test]
    fn an_ordinary_request_passes_without_what_is_ours_or_of_one_hop() {
        let text = "GET /v2/a%20b?c=d HTTP/1.1\r\nHost: a:1\r\nX-Scope: a: b\r\n\
            Connection: keep-alive\r\nX-Other: 1\r\n\r\n";
        let want = "GET /v2/a%20b?c=d Some(\"a: b\") GET /v2/a%20b?c=d HTTP/1.1\r\nHost: a:1\r\n\
            X-Other: 1\r\n|";
        assert_eq!(told(text).as_deref(), Some(want));
        let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab|GET /";
        let want = "POST / None POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n|ab";
        assert_eq!(told(text).as_deref(), Some(want));
    }

    /// Pieces that requests are made of, and that readers differ on.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let known = prop::sample::select(vec![
            "GET / HTTP/1.1\r\n",
            "POST /a?b=c HTTP/1.1\r\n",
            "Host: a\r\n",
            "Content-Length: 3\r\n",
            "content-length:0\r\n",
            "Content-Length: 3 \r\n",
            "Transfer-Encoding: chunked\r\n",
            "X-Scope: a: b\r\n",
            "Connection: keep-alive\r\n",
            "X-A: 1\r\n",
            "X-A:\t2 \r\n",
            "\r\n",
            "\n",
            "\r",
            " ",
            ":",
            "abc",
            "0\r\n\r\n",
        ]);
        let known = known.prop_map(|text: &str| text.as_bytes().to_vec());
        prop_oneof![9 => known, 1 => prop::collection::vec(any::<u8>(), 1..4)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// What passes is one request, with the same body, to whoever reads it by the rules.
        #[test]
        fn what_passes_is_one_request(rest in prop::collection::vec(pieces(), 0..9)) {
            let bytes = [b"GET / HTTP/1.1\r\nHost: a\r\n", rest.concat().as_slice()].concat();
            let passed = match Framing::default().read(&bytes) {
                Ok(()) => &bytes[..],
                Err((passed, _)) => &bytes[..passed],
            };
            let mut room = room();
            if let Some(request) = read(passed, &mut room) {
                let mut out = Vec::new();
                request.lines.write(request.without, &mut out);
                out.extend_from_slice(b"\r\n");
                let head_len = out.len();
                out.extend_from_slice(request.body);
                let mut framing = Framing::default();
                prop_assert_eq!(framing.read(&out), Ok(()));
                prop_assert!(framing.is_between_requests());
                prop_assert!(!out.is_empty() && !framing_ends_early(&out));
                let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
                let mut again = httparse::Request::new(&mut headers);
                prop_assert_eq!(again.parse(&out), Ok(Status::Complete(head_len)));
                prop_assert_eq!(again.path, Some(request.target));
                prop_assert!(!again.headers.iter().any(|h| h.name.eq_ignore_ascii_case("x-scope")));
            }
        }
    }

    /// Whether there is a whole request before the end.
    fn framing_ends_early(bytes: &[u8]) -> bool {
        (1..bytes.len()).any(|end| {
            let mut framing = Framing::default();
            framing.read(&bytes[..end]).is_ok() && framing.is_between_requests()
        })
    }

    #[test]
    fn whatever_is_unusual_is_left_to_the_library() {
        for head in [
            "\r\nGET / HTTP/1.1\r\nHost: a",
            "GET / HTTP/1.0\r\nHost: a",
            "get / HTTP/1.1\r\nHost: a",
            "HEAD / HTTP/1.1\r\nHost: a",
            "CONNECT a:1 HTTP/1.1\r\nHost: a",
            "OPTIONS * HTTP/1.1\r\nHost: a",
            "GET http://a/ HTTP/1.1\r\nHost: a",
            "GET /.cheops/v1/sites HTTP/1.1\r\nHost: a",
            "GET /# HTTP/1.1\r\nHost: a",
            "GET /\\ HTTP/1.1\r\nHost: a",
            "GET /ä HTTP/1.1\r\nHost: a",
            "GET  / HTTP/1.1\r\nHost: a",
            "GET / HTTP/1.1\r\nX: 1",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a",
            "GET / HTTP/1.1\r\nHost: a b",
            "GET / HTTP/1.1\r\nHost: a/b",
            "GET / HTTP/1.1\r\nHost: a\r\nX : 1",
            "GET / HTTP/1.1\r\nHost: a\r\nX: \0",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Scope: a: b\r\nx-scope: a: b",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Cheops-Mesh: 1",
            "GET / HTTP/1.1\r\nHost: a\r\nCookie: a\r\nCookie: b",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, x",
            "GET / HTTP/1.1\r\nHost: a\r\nKeep-Alive: 5",
            "GET / HTTP/1.1\r\nHost: a\r\nProxy-Connection: keep-alive",
            "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers",
            "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x",
            "GET / HTTP/1.1\r\nHost: a\r\nBaggage: a=b",
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +0",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999",
        ] {
            assert_eq!(told(&format!("{head}\r\n\r\n")), None, "{head:?}");
        }
        assert_eq!(told("GET / HTTP/1.1\r\nHost: a\r\n"), None, "half a head");
        let many = "X: 1\r\n".repeat(HEADERS_MAX);
        assert_eq!(
            told(&format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")),
            None
        );
    }
}
