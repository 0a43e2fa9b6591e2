//! JSON as it stands: where values begin and end, and nothing that would lose a byte of it.
//!
//! [`Scanner`] walks over text, [`Node`] is a tree of pieces of it. Strict in structure; lenient in
//! strings, whose bytes nobody here interprets unless they are an id.

use std::borrow::Cow;

use crate::limits::DEPTH_MAX;

/// Where text stops being JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson {
    pub(crate) at: usize,
}

/// A place in a text.
pub(crate) struct Scanner<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Scanner<'a> {
    /// At the first value.
    pub(crate) fn new(text: &'a str) -> Scanner<'a> {
        let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
        let mut scanner = Scanner { text, at };
        scanner.blanks();
        scanner
    }

    pub(crate) fn fault<T>(&self) -> Result<T, NotJson> {
        Err(NotJson { at: self.at })
    }

    /// The byte here; 0 at the end.
    pub(crate) fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    pub(crate) fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// Takes this byte and the blanks after it, if it is here.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let here = self.peek() == byte && self.at < self.text.len();
        if here {
            self.at += 1;
            self.blanks();
        }
        here
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.take(byte) {
            Ok(())
        } else {
            self.fault()
        }
    }

    /// What stands between the quotes here, as it stands. Leaves the blanks after it.
    pub(crate) fn string(&mut self) -> Result<&'a str, NotJson> {
        if self.peek() != b'"' {
            return self.fault();
        }
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut at = start;
        loop {
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => return self.fault(),
            }
        }
        self.at = at + 1;
        // Both ends are next to an ASCII quote.
        self.text.get(start..at).ok_or(NotJson { at: start })
    }

    /// A number, `true`, `false` or `null`, as it stands.
    pub(crate) fn word(&mut self) -> Result<&'a str, NotJson> {
        let rest = &self.text.as_bytes()[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        let Some(word) = self.text.get(self.at..self.at + length) else {
            return self.fault();
        };
        if !matches!(word, "true" | "false" | "null") && !is_number(word) {
            return self.fault();
        }
        self.at += length;
        Ok(word)
    }

    /// A member's name, up to its value.
    pub(crate) fn key(&mut self) -> Result<&'a str, NotJson> {
        let key = self.string()?;
        self.blanks();
        self.expect(b':')?;
        Ok(key)
    }

    /// Nothing but blanks is left.
    pub(crate) fn end(&mut self) -> Result<(), NotJson> {
        self.blanks();
        if self.at == self.text.len() {
            Ok(())
        } else {
            self.fault()
        }
    }
}

fn is_number(word: &str) -> bool {
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    let (whole, rest) = digits(unsigned);
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => match digits(fraction) {
            ("", _) => return false,
            (_, rest) => rest,
        },
        None => rest,
    };
    let rest = match rest.strip_prefix(['e', 'E']) {
        Some(power) => match digits(power.strip_prefix(['+', '-']).unwrap_or(power)) {
            ("", _) => return false,
            (_, rest) => rest,
        },
        None => rest,
    };
    !whole.is_empty() && (whole == "0" || !whole.starts_with('0')) && rest.is_empty()
}

/// Integers are compared as they are written: they may be longer than a float can tell apart.
fn same_number(a: &str, b: &str) -> bool {
    let inexact = |word: &str| word.contains(['.', 'e', 'E']);
    (inexact(a) || inexact(b))
        && a.parse::<f64>()
            .is_ok_and(|a| b.parse::<f64>().is_ok_and(|b| a.to_bits() == b.to_bits()))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// True for a number that may be an id: digits alone.
pub(crate) fn is_integer(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) && is_number(word)
}

/// One value and what is in it, all of it pieces of the text.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    /// As it stands, quotes and braces included.
    pub(crate) raw: &'a str,
    /// Where.
    pub(crate) start: usize,
    pub(crate) of: Of<'a>,
}

#[derive(Clone, Debug)]
pub(crate) enum Of<'a> {
    /// A number, `true`, `false`, `null`.
    Word,
    /// What stands between the quotes.
    Text(&'a str),
    List(Vec<Node<'a>>),
    /// In their order, repeated ones too; names as they stand.
    Object(Vec<(&'a str, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// Reads bytes that should be one value.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Node<'a>, NotJson> {
        let text = utf8(bytes)?;
        let mut scanner = Scanner::new(text);
        let node = Node::value(&mut scanner, 0)?;
        scanner.end()?;
        Ok(node)
    }

    fn value(scanner: &mut Scanner<'a>, depth: usize) -> Result<Node<'a>, NotJson> {
        if depth > DEPTH_MAX {
            return scanner.fault();
        }
        let start = scanner.at;
        let of = match scanner.peek() {
            b'"' => Of::Text(scanner.string()?),
            b'{' => {
                let mut members = Vec::new();
                scanner.take(b'{');
                if !scanner.take_end(b'}') {
                    loop {
                        let key = scanner.key()?;
                        members.push((key, Node::value(scanner, depth + 1)?));
                        scanner.blanks();
                        if scanner.take(b',') {
                            continue;
                        }
                        break scanner.close(b'}')?;
                    }
                }
                Of::Object(members)
            }
            b'[' => {
                let mut items = Vec::new();
                scanner.take(b'[');
                if !scanner.take_end(b']') {
                    loop {
                        items.push(Node::value(scanner, depth + 1)?);
                        scanner.blanks();
                        if scanner.take(b',') {
                            continue;
                        }
                        break scanner.close(b']')?;
                    }
                }
                Of::List(items)
            }
            _ => {
                scanner.word()?;
                Of::Word
            }
        };
        let raw = &scanner.text[start..scanner.at];
        Ok(Node { raw, start, of })
    }

    /// The member of that name; the last one if there are several, as services read it.
    pub(crate) fn get(&self, name: &str) -> Option<&Node<'a>> {
        let found = self
            .members()
            .iter()
            .rev()
            .find(|(key, _)| decode(key) == name);
        found.map(|(_, node)| node)
    }

    pub(crate) fn members(&self) -> &[(&'a str, Node<'a>)] {
        match &self.of {
            Of::Object(members) => members,
            Of::Word | Of::Text(_) | Of::List(_) => &[],
        }
    }

    pub(crate) fn items(&self) -> Option<&[Node<'a>]> {
        match &self.of {
            Of::List(items) => Some(items),
            Of::Word | Of::Text(_) | Of::Object(_) => None,
        }
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.of, Of::Object(_))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.raw == "null"
    }

    /// A text, or a word as it stands. Nothing for lists and objects.
    pub(crate) fn scalar(&self) -> Option<Cow<'a, str>> {
        match self.of {
            Of::Text(raw) => Some(decode(raw)),
            Of::Word => Some(Cow::Borrowed(self.raw)),
            Of::List(_) | Of::Object(_) => None,
        }
    }

    /// Text or integer that may be an id.
    pub(crate) fn id(&self) -> Option<Cow<'a, str>> {
        match self.of {
            Of::Text(raw) => Some(decode(raw)).filter(|id| !id.is_empty()),
            Of::Word => is_integer(self.raw).then_some(Cow::Borrowed(self.raw)),
            Of::List(_) | Of::Object(_) => None,
        }
    }

    /// By JSON pointer (RFC 6901).
    pub(crate) fn pointer(&self, pointer: &str) -> Option<&Node<'a>> {
        let mut node = self;
        for part in pointer.split('/').skip(1) {
            let name = part.replace("~1", "/").replace("~0", "~");
            node = match node.items() {
                Some(items) => items.get(name.parse::<usize>().ok()?)?,
                None => node.get(&name)?,
            };
        }
        Some(node)
    }

    /// Equal as values: blanks, the order of members, escapes and the ways to write a number do not count.
    pub(crate) fn same(&self, other: &Node<'_>) -> bool {
        match (&self.of, &other.of) {
            (Of::Word, Of::Word) => self.raw == other.raw || same_number(self.raw, other.raw),
            (Of::Text(a), Of::Text(b)) => decode(a) == decode(b),
            (Of::List(a), Of::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Of::Object(a), Of::Object(b)) => {
                let all = |from: &Node<'_>, to: &Node<'_>| {
                    from.members().iter().all(|(key, _)| {
                        let key = decode(key);
                        match (from.get(&key), to.get(&key)) {
                            (Some(a), Some(b)) => a.same(b),
                            _ => false,
                        }
                    })
                };
                a.len() == b.len() && all(self, other) && all(other, self)
            }
            _ => false,
        }
    }
}

impl Scanner<'_> {
    /// Takes `close` without the blanks after it, if it is here.
    pub(crate) fn take_end(&mut self, close: u8) -> bool {
        let here = self.peek() == close;
        self.at += usize::from(here);
        here
    }

    /// `close` has to be here; the blanks after it are left.
    pub(crate) fn close(&mut self, close: u8) -> Result<(), NotJson> {
        if self.take_end(close) {
            Ok(())
        } else {
            self.fault()
        }
    }
}

/// JSON is UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, NotJson> {
    std::str::from_utf8(bytes).map_err(|fault| NotJson {
        at: fault.valid_up_to(),
    })
}

/// What a text means that stands like this between quotes.
pub(crate) fn decode(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    Cow::Owned(decode_with(raw, |_| ()))
}

/// The same, and for every byte of it the offset in `raw` where it came from; then the length of `raw`.
pub(crate) fn decode_with_offsets(raw: &str) -> (String, Vec<usize>) {
    let mut offsets = Vec::with_capacity(raw.len() + 1);
    let text = decode_with(raw, |at| offsets.push(at));
    offsets.push(raw.len());
    (text, offsets)
}

fn decode_with(raw: &str, mut from: impl FnMut(usize)) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.char_indices();
    while let Some((at, first)) = chars.next() {
        let meant = if first == '\\' {
            escaped(&mut chars)
        } else {
            first
        };
        out.push(meant);
        (0..meant.len_utf8()).for_each(|_| from(at));
    }
    out
}

fn escaped(chars: &mut std::str::CharIndices<'_>) -> char {
    match chars.next().map(|(_, kind)| kind) {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('u') => {
            let unit = unit(chars);
            if !(0xd800..0xdc00).contains(&unit) {
                return char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
            let mut ahead = chars.clone();
            let low = match (ahead.next(), ahead.next()) {
                (Some((_, '\\')), Some((_, 'u'))) => self::unit(&mut ahead),
                _ => 0,
            };
            if !(0xdc00..0xe000).contains(&low) {
                return char::REPLACEMENT_CHARACTER;
            }
            *chars = ahead;
            let joined = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        Some(itself) => itself,
        None => char::REPLACEMENT_CHARACTER,
    }
}

/// Four hex digits; 0 where they are not.
fn unit(chars: &mut std::str::CharIndices<'_>) -> u32 {
    let mut value = 0;
    for _ in 0..4 {
        let mut ahead = chars.clone();
        let Some(digit) = ahead.next().and_then(|(_, digit)| digit.to_digit(16)) else {
            return 0;
        };
        *chars = ahead;
        value = value * 16 + digit;
    }
    value
}

/// A text between quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    escape_into(text, &mut out);
    out.push('"');
    out
}

/// As it has to stand between quotes.
pub(crate) fn escape_into(text: &str, out: &mut String) {
    for each in text.chars() {
        match each {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if (control as u32) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", control as u32));
            }
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_and_what_is_none_is_refused_where_it_stops() {
        for good in [
            "{}",
            "[]",
            " [ 1 , 2.5e3 ] ",
            "\"\\u00e9\"",
            "{\"a\":{\"a\":[null,true]}}",
            "-0.1",
            "\u{feff}1",
        ] {
            assert!(Node::read(good.as_bytes()).is_ok(), "{good}");
        }
        for (bad, at) in [
            ("", 0),
            ("{", 1),
            ("[1,]", 3),
            ("{\"a\" 1}", 5),
            ("01", 0),
            ("[1 2]", 3),
            ("\"a", 0),
            ("{}x", 2),
            ("tru", 0),
            ("1.", 0),
            ("[1}", 2),
        ] {
            assert_eq!(Node::read(bad.as_bytes()).unwrap_err().at, at, "{bad}");
        }
        assert_eq!(Node::read(b"\"\xff\"").unwrap_err().at, 1);
        let deep = "[".repeat(100_000);
        assert!(Node::read(deep.as_bytes()).is_err());
    }

    #[test]
    fn escapes_mean_what_they_mean() {
        assert_eq!(decode(r"a\/b\u0041\ud83d\ude00\n"), "a/bA😀\n");
        assert_eq!(decode(r"\ud83d \u12"), "\u{fffd} \0");
        let (text, offsets) = decode_with_offsets(r"a\/b");
        assert_eq!((text.as_str(), offsets), ("a/b", vec![0, 1, 3, 4]));
    }

    #[test]
    fn values_are_compared_as_values() {
        let same = |a: &str, b: &str| {
            Node::read(a.as_bytes())
                .unwrap()
                .same(&Node::read(b.as_bytes()).unwrap())
        };
        assert!(same(
            "{\"a\":1,\"b\":[\"\\u0041\"]}",
            "{ \"b\" : [\"A\"], \"a\": 1}"
        ));
        assert!(!same("{\"a\":1}", "{\"a\":1,\"b\":2}"));
        assert!(same("1", "1.0") && same("1e2", "100.0"));
        assert!(!same("9007199254740993", "9007199254740992"));
        assert!(!same("[1,2]", "[2,1]"));
    }
}
