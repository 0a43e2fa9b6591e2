//! Whether an answer is a plain one, and what its head says.
//!
//! As with requests: what is unusual is left to the HTTP library, with the bytes that were read.

use http::StatusCode;
use httparse::{Header, Status};

use super::lines::{Lines, Room, Without};
use super::request::{length, starts_with};

/// An answer whose head is there and says how long its body is.
pub(super) struct Plain<'a, 'b> {
    pub(super) status: StatusCode,
    pub(super) lines: Lines<'a, 'b>,
    /// What has come of its body, or more.
    pub(super) rest: &'b [u8],
    pub(super) length: usize,
    pub(super) has_date: bool,
    /// Whether another request may be sent on its connection.
    pub(super) keeps: bool,
    /// What does not pass.
    pub(super) without: Without,
}

impl Plain<'_, '_> {
    /// How many bytes it has when all of it is there.
    pub(super) fn whole_len(&self) -> usize {
        self.lines.head.len().saturating_add(self.length)
    }
}

/// Reads the answer to a request that has a body as its head says.
pub(super) fn read<'a, 'b>(bytes: &'b [u8], room: &'a mut Room<'b>) -> Option<Plain<'a, 'b>> {
    // The parser takes empty lines before an answer; here they do not pass.
    if !bytes.starts_with(b"HTTP/1.1 ") {
        return None;
    }
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let read = config.parse_response_with_uninit_headers(&mut response, bytes, room);
    let Ok(Status::Complete(head_len)) = read else {
        return None;
    };
    let status = StatusCode::from_u16(response.code?).ok()?;
    let (head, rest) = bytes.split_at(head_len);
    let lines = Lines {
        head,
        headers: response.headers,
    };
    let seen = Seen::of(response.headers)?;
    if status.is_informational() || !lines.end_well() {
        return None;
    }
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = match seen.length {
        // Some say how long a body would have been.
        Some(length) if !bodiless => length,
        None if bodiless => 0,
        Some(_) | None => return None,
    };
    Some(Plain {
        status,
        lines,
        rest,
        length,
        has_date: seen.has_date,
        keeps: !seen.closes,
        without: seen.without,
    })
}

/// What one look at the headers tells.
#[derive(Default)]
struct Seen {
    length: Option<usize>,
    has_date: bool,
    closes: bool,
    without: Without,
}

impl Seen {
    fn of(headers: &[Header<'_>]) -> Option<Seen> {
        let mut seen = Seen::default();
        for (place, header) in headers.iter().enumerate() {
            seen.look(place, header)?;
        }
        Some(seen)
    }

    fn look(&mut self, place: usize, header: &Header<'_>) -> Option<()> {
        let (name, value) = (header.name, header.value);
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match name.as_bytes().first()? | 0x20 {
            b'c' if is("content-length") => {
                self.length.replace(length(value)?).is_none().then_some(())
            }
            b'c' if is("connection") => {
                self.without.add(place);
                self.closes |= value.eq_ignore_ascii_case(b"close");
                (self.closes || value.eq_ignore_ascii_case(b"keep-alive")).then_some(())
            }
            b'k' if is("keep-alive") => {
                self.without.add(place);
                Some(())
            }
            b'd' => {
                self.has_date |= is("date");
                Some(())
            }
            b'p' => (!starts_with(name, "proxy-")).then_some(()),
            b't' => (!is("te") && !is("trailer") && !is("transfer-encoding")).then_some(()),
            b'u' => (!is("upgrade")).then_some(()),
            b'x' => (!is("x-scope") && !starts_with(name, "x-cheops-")).then_some(()),
            _ => Some(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::room;
    use super::*;

    fn told(text: &str) -> Option<(u16, usize, bool, bool, String)> {
        let mut room = room();
        let plain = read(text.as_bytes(), &mut room)?;
        let mut out = Vec::new();
        plain.lines.write(plain.without, &mut out);
        Some((
            plain.status.as_u16(),
            plain.length,
            plain.has_date,
            plain.keeps,
            String::from_utf8(out).unwrap(),
        ))
    }

    #[test]
    fn a_plain_answer_passes_without_what_is_of_one_hop() {
        let text = "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nConnection: close\r\nDate: x\r\n\
            Keep-Alive: 5\r\nX-A:1\r\n\r\nab";
        let lines = "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nDate: x\r\nX-A:1\r\n";
        assert_eq!(told(text), Some((200, 2, true, false, lines.to_owned())));
        for bodiless in [204, 304] {
            let text = format!("HTTP/1.1 {bodiless} x\r\n\r\n");
            let lines = format!("HTTP/1.1 {bodiless} x\r\n");
            assert_eq!(told(&text), Some((bodiless, 0, false, true, lines)));
        }
    }

    #[test]
    fn whatever_is_unusual_is_left_to_the_library() {
        for head in [
            "HTTP/1.0 200 OK\r\nContent-Length: 0",
            "\n\nHTTP/1.1 200 OK\r\nContent-Length: 0",
            "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0",
            "HTTP/1.1 100 Continue\r\nContent-Length: 0",
            "HTTP/1.1 101 Switching Protocols\r\nContent-Length: 0",
            "HTTP/1.1 200 OK\r\nX: 1",
            "HTTP/1.1 200 OK\nContent-Length: 0",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0",
            "HTTP/1.1 200 OK\r\nContent-Length: 0, 0",
            "HTTP/1.1 200 OK\r\nContent-Length: +1",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x-a\r\nX-A: 1",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Cheops-Served-By: me",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: 1\r\n folded",
            "HTTP/1.1 204 No Content\r\nContent-Length: 0",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 7",
            "HTTP/1.1 999 x\r\nContent-Length: zz",
        ] {
            assert_eq!(told(&format!("{head}\r\n\r\n")), None, "{head:?}");
        }
        assert_eq!(told("HTTP/1.1 200 OK\r\nContent-Le"), None, "half a head");
    }
}
