//! Where one HTTP/1 request of a client ends and the next begins, read strictly.
//!
//! The HTTP library is lenient where the standard lets it be: a lone line feed ends a line, a length
//! beside `Transfer-Encoding` is dropped in silence, a length may be repeated. Whoever else reads the
//! same bytes, in front of us or behind, may read them another way, and then a request hides in
//! another's body. So a client's bytes pass by here first, and what could be read two ways is
//! refused.
//!
//! This follows the framing and nothing else: names, values, methods and targets are checked by the
//! library. It copies nothing unless a line comes in pieces.

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A line does not end with CR LF.
    LineEnd,
    /// A header goes on in the next line.
    Folded,
    /// `Content-Length` is no number of digits, or given twice.
    Length,
    /// `Transfer-Encoding` is not `chunked` alone, or given twice, or beside `Content-Length`.
    Coding,
    /// The size of a chunk is no hexadecimal number, or too large.
    ChunkSize,
    /// What follows the size of a chunk is not what may.
    ChunkExtension,
    /// A chunk does not end where it said.
    ChunkEnd,
}

/// The longest line that is followed in pieces. The library refuses longer heads itself.
const LINE_BYTES_MAX: usize = crate::limits::HEAD_BYTES_MAX;

/// The longest line with the size of a chunk: extensions have no use that anybody knows.
const CHUNK_LINE_BYTES_MAX: usize = 256;

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A request line, or the empty lines that may stand before it.
    Request,
    Header,
    /// So many bytes of a body.
    Body(u64),
    ChunkSize,
    /// So many bytes of a chunk.
    Chunk(u64),
    ChunkEnd,
    Trailer,
    /// No HTTP any more, or nothing that will be read.
    Beyond,
}

/// Follows one connection.
pub struct Framing {
    part: Part,
    /// The beginning of a line whose end has not come.
    carry: Vec<u8>,
    length: Option<u64>,
    chunked: bool,
    leaves_http: bool,
}

impl Default for Framing {
    fn default() -> Framing {
        Framing {
            part: Part::Request,
            carry: Vec::new(),
            length: None,
            chunked: false,
            leaves_http: false,
        }
    }
}

impl Framing {
    /// Reads on. If the bytes may not pass, tells how many of them may, and why the others may not.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), (usize, Violation)> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.part {
                Part::Beyond => return Ok(()),
                Part::Body(left) => self.skip(left, rest.len(), Part::Body, Part::Request),
                Part::Chunk(left) => self.skip(left, rest.len(), Part::Chunk, Part::ChunkEnd),
                Part::Request | Part::Header | Part::ChunkSize | Part::ChunkEnd | Part::Trailer => {
                    self.lines(rest).map_err(|(n, why)| (at + n, why))?
                }
            };
        }
        Ok(())
    }

    /// Whether every request that has begun has come to its end.
    pub fn is_between_requests(&self) -> bool {
        self.part == Part::Request && self.carry.is_empty()
    }

    /// Reads lines for as long as there are any and lines are what is read, and tells how far.
    fn lines(&mut self, bytes: &[u8]) -> Result<usize, (usize, Violation)> {
        let mut at = 0;
        // One search for all of them: a head has ten or so, each of some dozen bytes.
        for end in memchr::memchr_iter(b'\n', bytes) {
            self.line(&bytes[at..end]).map_err(|why| (at, why))?;
            at = end + 1;
            if matches!(self.part, Part::Body(_) | Part::Chunk(_) | Part::Beyond) {
                return Ok(at);
            }
        }
        self.keep(&bytes[at..]).map_err(|why| (at, why))?;
        Ok(bytes.len())
    }

    /// Passes what it can of a counted part, and tells how much that was.
    fn skip(&mut self, left: u64, have: usize, part: fn(u64) -> Part, after: Part) -> usize {
        let passed = usize::try_from(left).unwrap_or(usize::MAX).min(have);
        let left = left - passed as u64;
        self.part = if left == 0 { after } else { part(left) };
        passed
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), Violation> {
        let most = match self.part {
            Part::ChunkSize | Part::ChunkEnd => CHUNK_LINE_BYTES_MAX,
            _ => LINE_BYTES_MAX,
        };
        if self.part == Part::ChunkEnd && (!self.carry.is_empty() || !matches!(piece, [] | b"\r")) {
            return Err(Violation::ChunkEnd);
        }
        if self.carry.len() + piece.len() > most {
            self.carry = Vec::new();
            if most == CHUNK_LINE_BYTES_MAX {
                return Err(Violation::ChunkExtension);
            }
            // The library answers 431 and closes the connection.
            self.part = Part::Beyond;
            return Ok(());
        }
        self.carry.extend_from_slice(piece);
        Ok(())
    }

    fn line(&mut self, end: &[u8]) -> Result<(), Violation> {
        if self.carry.is_empty() {
            return self.whole_line(end);
        }
        let mut line = std::mem::take(&mut self.carry);
        line.extend_from_slice(end);
        self.whole_line(&line)
    }

    fn whole_line(&mut self, line: &[u8]) -> Result<(), Violation> {
        if self.part == Part::ChunkEnd && line != b"\r" {
            return Err(Violation::ChunkEnd);
        }
        let Some((b'\r', line)) = line.split_last() else {
            return Err(Violation::LineEnd);
        };
        match self.part {
            Part::Request => {
                if !line.is_empty() {
                    self.leaves_http = line.starts_with(b"CONNECT ");
                    self.part = Part::Header;
                }
                Ok(())
            }
            Part::Header if line.is_empty() => {
                self.end_head();
                Ok(())
            }
            Part::Header => self.header(line),
            Part::ChunkSize => self.chunk_size(line),
            Part::ChunkEnd => {
                self.part = Part::ChunkSize;
                Ok(())
            }
            Part::Trailer if line.is_empty() => {
                self.part = Part::Request;
                Ok(())
            }
            Part::Trailer if matches!(line[0], b' ' | b'\t') => Err(Violation::Folded),
            Part::Trailer | Part::Body(_) | Part::Chunk(_) | Part::Beyond => Ok(()),
        }
    }

    fn end_head(&mut self) {
        self.part = if self.leaves_http {
            Part::Beyond
        } else if self.chunked {
            Part::ChunkSize
        } else {
            self.length
                .filter(|length| *length > 0)
                .map_or(Part::Request, Part::Body)
        };
        (self.length, self.chunked, self.leaves_http) = (None, false, false);
    }

    /// The length of its name decides for nearly every header, without a comparison of texts.
    fn header(&mut self, line: &[u8]) -> Result<(), Violation> {
        match line {
            [b' ' | b'\t', ..] => Err(Violation::Folded),
            _ if named(line, b"content-length") => self.take_length(&line[15..]),
            _ if named(line, b"transfer-encoding") => self.take_coding(&line[18..]),
            _ if named(line, b"upgrade") => {
                self.leaves_http = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take_length(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.length.is_some() {
            return Err(Violation::Length);
        }
        if self.chunked {
            return Err(Violation::Coding);
        }
        let digits = trimmed(value);
        if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Violation::Length);
        }
        let add = |sum: u64, digit: &u8| sum * 10 + u64::from(digit - b'0');
        self.length = Some(digits.iter().fold(0, add));
        Ok(())
    }

    fn take_coding(&mut self, value: &[u8]) -> Result<(), Violation> {
        let chunked = trimmed(value).eq_ignore_ascii_case(b"chunked");
        if !chunked || self.chunked || self.length.is_some() {
            return Err(Violation::Coding);
        }
        self.chunked = true;
        Ok(())
    }

    fn chunk_size(&mut self, line: &[u8]) -> Result<(), Violation> {
        if line.len() > CHUNK_LINE_BYTES_MAX {
            return Err(Violation::ChunkExtension);
        }
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let (digits, extension) = line.split_at(digits.count());
        // Fifteen digits: no sum of such chunks overflows before the sun goes out.
        if digits.is_empty() || digits.len() > 15 {
            return Err(Violation::ChunkSize);
        }
        if !may_follow_size(extension) {
            return Err(Violation::ChunkExtension);
        }
        let text = std::str::from_utf8(digits).map_err(|_| Violation::ChunkSize)?;
        let size = u64::from_str_radix(text, 16).map_err(|_| Violation::ChunkSize)?;
        self.part = if size == 0 {
            Part::Trailer
        } else {
            Part::Chunk(size)
        };
        Ok(())
    }
}

/// `;name=value`, of bytes that can be seen; they go no further than here.
fn may_follow_size(extension: &[u8]) -> bool {
    match extension {
        [] => true,
        [b';', rest @ ..] => {
            let seen = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
            !rest.is_empty() && rest.iter().all(seen)
        }
        _ => false,
    }
}

fn named(line: &[u8], name: &[u8]) -> bool {
    line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name)
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same outcome however the bytes are cut.
    fn check(text: &str) -> Result<(), Violation> {
        let whole = Framing::default()
            .read(text.as_bytes())
            .map_err(|(_, why)| why);
        for size in [1, 2, 3, 7] {
            let mut framing = Framing::default();
            let mut pieces = text.as_bytes().chunks(size);
            let outcome = pieces
                .try_for_each(|piece| framing.read(piece))
                .map_err(|(_, why)| why);
            assert_eq!(outcome, whole, "{text:?} in pieces of {size}");
        }
        whole
    }

    #[test]
    fn what_is_plain_passes_one_request_after_another() {
        for good in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\nbGET / HTTP/1.1\r\nX: 1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-LENGTH:\t 0 \r\n\r\nGET / HTTP/1.1\r\nX: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\na\nb\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\nT: 1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n\n\nanything\n",
            "CONNECT a:1 HTTP/1.1\r\n\r\n\n\nanything\n",
        ] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn what_can_be_read_two_ways_does_not_pass() {
        use Violation::*;
        let post = |rest: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}");
        for (bad, why) in [
            ("GET / HTTP/1.1\nHost: a\r\n\r\n".to_owned(), LineEnd),
            ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), LineEnd),
            (post("X: 1\nY: 2\r\n\r\n"), LineEnd),
            (post("X: 1\r\n\n"), LineEnd),
            (post("X: 1\r\n folded\r\n\r\n"), Folded),
            (post("X: 1\r\n\tfolded\r\n\r\n"), Folded),
            (
                post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Coding,
            ),
            (
                post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"),
                Coding,
            ),
            (
                post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Coding,
            ),
            (post("Transfer-Encoding: chunked, identity\r\n\r\n"), Coding),
            (post("Transfer-Encoding: gzip, chunked\r\n\r\n"), Coding),
            (post("Transfer-Encoding: xchunked\r\n\r\n"), Coding),
            (post("Transfer-Encoding:\r\n\r\n"), Coding),
            (
                post("Content-Length: 3\r\nContent-Length: 4\r\n\r\n"),
                Length,
            ),
            (
                post("Content-Length: 3\r\nContent-Length: 3\r\n\r\n"),
                Length,
            ),
            (post("Content-Length: 3, 3\r\n\r\n"), Length),
            (post("Content-Length: +3\r\n\r\n"), Length),
            (post("Content-Length: -3\r\n\r\n"), Length),
            (post("Content-Length: 0x3\r\n\r\n"), Length),
            (post("Content-Length: 3 3\r\n\r\n"), Length),
            (post("Content-Length:\r\n\r\n"), Length),
            (post("Content-Length: 99999999999999999999\r\n\r\n"), Length),
        ] {
            assert_eq!(check(&bad), Err(why), "{bad:?}");
        }
    }

    #[test]
    fn chunks_are_what_they_say() {
        use Violation::*;
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (bad, why) in [
            ("\r\n", ChunkSize),
            ("x\r\n", ChunkSize),
            ("-1\r\n", ChunkSize),
            ("+1\r\n", ChunkSize),
            (" 1\r\n", ChunkSize),
            ("0x1\r\n", ChunkExtension),
            ("1 \r\n", ChunkExtension),
            ("ffffffffffffffff\r\n", ChunkSize),
            ("1\na\r\n", LineEnd),
            ("1;a\nb\r\na\r\n", LineEnd),
            ("1;\r\n", ChunkExtension),
            ("1;a\rb\r\n", ChunkExtension),
            ("1;a\u{1}\r\n", ChunkExtension),
            ("1\r\nab\r\n", ChunkEnd),
            ("1\r\nab", ChunkEnd),
            ("1\r\na\n", ChunkEnd),
            ("1\r\n\r\n\n", ChunkEnd),
            ("0\r\nT: 1\n\r\n", LineEnd),
            ("0\r\nT: 1\r\n folded\r\n\r\n", Folded),
        ] {
            assert_eq!(check(&format!("{head}{bad}")), Err(why), "{bad:?}");
        }
        let long = format!("{head}1;{}", "a".repeat(CHUNK_LINE_BYTES_MAX + 1));
        assert_eq!(check(&long), Err(ChunkExtension));
    }

    #[test]
    fn what_may_pass_of_a_refused_head_is_no_whole_head() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\n\r\n";
        let (passed, why) = Framing::default().read(text).unwrap_err();
        assert_eq!(why, Violation::LineEnd);
        assert!(text[..passed].ends_with(b"GET /2 HTTP/1.1\r\n"));
    }

    #[test]
    fn a_line_without_end_is_not_held() {
        let mut framing = Framing::default();
        for _ in 0..1000 {
            assert_eq!(framing.read(&[b'a'; 1024]), Ok(()));
        }
        assert_eq!((framing.carry.capacity(), framing.part), (0, Part::Beyond));
    }
}
