//! The lines of a head, copied as they came but for those that do not pass.

use std::mem::MaybeUninit;

use httparse::Header;

/// Headers of a head that is passed on as bytes: one for each bit of [`Without`]. One with more is
/// left to the HTTP library.
pub(super) const HEADERS_MAX: usize = 64;

/// Room to read them.
pub(super) type Room<'b> = [MaybeUninit<Header<'b>>; HEADERS_MAX];

/// Nothing is written to it before a head is read.
pub(super) fn room<'b>() -> Room<'b> {
    [const { MaybeUninit::uninit() }; HEADERS_MAX]
}

/// The headers that do not pass, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Without(u64);

impl Without {
    pub(super) fn add(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    fn next(&mut self) -> Option<usize> {
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (place < HEADERS_MAX).then_some(place)
    }
}

/// A head as it came: its first line, its headers, and the empty line at its end.
pub(super) struct Lines<'a, 'b> {
    pub(super) head: &'b [u8],
    pub(super) headers: &'a [Header<'b>],
}

impl Lines<'_, '_> {
    /// Where the line of a header begins, or the empty line at the end.
    fn start(&self, place: usize) -> usize {
        match self.headers.get(place) {
            Some(header) => header.name.as_ptr() as usize - self.head.as_ptr() as usize,
            None => self.head.len() - 2,
        }
    }

    /// Whether every line ends with CR LF: the parser takes a bare LF too, and who reads after us
    /// may not.
    pub(super) fn end_well(&self) -> bool {
        let ends = |place| self.head[..self.start(place)].ends_with(b"\r\n");
        (0..=self.headers.len()).all(ends) && self.head.ends_with(b"\r\n")
    }

    /// Copies the first line and the headers, without some, and without the empty line.
    pub(super) fn write(&self, mut without: Without, out: &mut Vec<u8>) {
        let mut from = 0;
        while let Some(place) = without.next() {
            out.extend_from_slice(&self.head[from..self.start(place)]);
            from = self.start(place + 1);
        }
        out.extend_from_slice(&self.head[from..self.start(self.headers.len())]);
    }
}

/// Writes one more line.
pub(super) fn write_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8], without: &[usize]) -> (bool, String) {
        let mut headers = [httparse::EMPTY_HEADER; 8];
        let mut request = httparse::Request::new(&mut headers);
        assert!(request.parse(head).unwrap().is_complete());
        let lines = Lines {
            head,
            headers: request.headers,
        };
        let (mut bits, mut out) = (Without::default(), Vec::new());
        without.iter().for_each(|place| bits.add(*place));
        lines.write(bits, &mut out);
        (lines.end_well(), String::from_utf8(out).unwrap())
    }

    #[test]
    fn lines_are_copied_but_for_some() {
        let head = b"GET / HTTP/1.1\r\nA: 1\r\nB:2 \r\nC: 3\r\n\r\n";
        let first = "GET / HTTP/1.1\r\n";
        for (without, left) in [
            (&[][..], "A: 1\r\nB:2 \r\nC: 3\r\n"),
            (&[0], "B:2 \r\nC: 3\r\n"),
            (&[1], "A: 1\r\nC: 3\r\n"),
            (&[2, 0], "B:2 \r\n"),
            (&[0, 1, 2], ""),
        ] {
            assert_eq!(check(head, without), (true, format!("{first}{left}")));
        }
        assert_eq!(check(b"GET / HTTP/1.1\r\n\r\n", &[]), (true, first.into()));
    }

    #[test]
    fn a_bare_line_feed_is_seen_wherever_it_stands() {
        for head in [
            &b"GET / HTTP/1.1\nA: 1\r\nB: 2\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nA: 1\nB: 2\r\n\r\n",
            b"GET / HTTP/1.1\r\nA: 1\r\nB: 2\n\r\n",
            b"GET / HTTP/1.1\r\nA: 1\r\nB: 2\r\n\n",
        ] {
            assert!(!check(head, &[]).0, "{:?}", head.escape_ascii().to_string());
        }
    }
}
