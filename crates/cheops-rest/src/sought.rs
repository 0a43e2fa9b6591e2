//! Whether a body can name certain ids at all, told without reading it as JSON.
//!
//! Wherever rewriting finds an id, what stands before and after it is a quote, a slash, a blank, the end, or
//! another byte that no *plain* id has. So a plain id stands there as a whole word, or some of it is written
//! with a backslash or a percent sign. That takes one look at the bytes, and skips most of them.

use memchr::memchr2;

/// The lengths of the ids that are looked for, as bits. All from 63 bytes on share the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths(pub u64);

impl Lengths {
    /// Of one id.
    pub fn of(id: &[u8]) -> Lengths {
        Lengths(1 << id.len().min(63))
    }

    fn has(self, word: &[u8]) -> bool {
        self.0 & Lengths::of(word).0 != 0
    }
}

/// True for an id that can be looked for: letters, digits and `-._~` of ASCII, at least one.
pub fn is_plain_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(is_plain)
}

/// False only if no id for which `is_one` holds, all of them plain and of these lengths, is where
/// rewriting an answer would look for one: the body stays what it is then, byte for byte.
pub fn may_name(body: &[u8], lengths: Lengths, is_one: impl Fn(&[u8]) -> bool) -> bool {
    if lengths == Lengths::default() {
        return false;
    }
    let shortest = lengths.0.trailing_zeros().max(1) as usize;
    is_any_hidden(body) || is_any_word(body, shortest, |word| lengths.has(word) && is_one(word))
}

/// Whether something holds for a word of at least that length.
fn is_any_word(bytes: &[u8], shortest: usize, is_one: impl Fn(&[u8]) -> bool) -> bool {
    // What is before `from` is done, and no word goes over it.
    let mut from = 0;
    while let Some(window) = bytes.get(from..from + shortest) {
        // A word long enough fills the window, or begins after the last byte in it that is of none.
        if let Some(stop) = window.iter().rposition(|byte| !is_plain(*byte)) {
            from += stop + 1;
            continue;
        }
        let end = from + shortest + plain_len(&bytes[from + shortest..]);
        if is_one(&bytes[from..end]) {
            return true;
        }
        from = end + 1;
    }
    false
}

/// How many plain bytes these begin with. Words may be long, and then it goes by blocks, each a few instructions.
fn plain_len(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<32>();
    let whole = |block: &&[u8; 32]| block.iter().fold(true, |all, byte| all & belongs(*byte));
    let start = blocks.iter().take_while(whole).count() * 32;
    let rest = &bytes[start..];
    let stop = rest.iter().position(|byte| !is_plain(*byte));
    start + stop.unwrap_or(rest.len())
}

/// Whether a byte of a plain id, or one that can stand next to it, may be written as something else.
fn is_any_hidden(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = memchr2(b'\\', b'%', rest) {
        let (sign, after) = (rest[at], &rest[at + 1..]);
        // A backslash takes the next byte along, which may be another one.
        let taken = match sign {
            b'%' if hides_percent(after) => return true,
            b'%' => 0,
            _ if hides_escape(after) => return true,
            _ => 1,
        };
        rest = &after[taken..];
    }
    false
}

/// URLs are cut before percent signs are read, so only what is within an id matters.
fn hides_percent(after: &[u8]) -> bool {
    hex(after.get(..2)).is_some_and(|code| u8::try_from(code).is_ok_and(is_plain))
}

/// Readers take an unknown escape for the byte itself; those that JSON has stand for no byte of an id.
fn hides_escape(after: &[u8]) -> bool {
    match after.first() {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => false,
        Some(b'u') => hex(after.get(1..5)).is_none_or(|code| code < 0x80),
        Some(_) | None => true,
    }
}

fn hex(digits: Option<&[u8]>) -> Option<u32> {
    let digits = digits?.iter();
    digits
        .map(|digit| (*digit as char).to_digit(16))
        .try_fold(0, |code, digit| Some(code * 16 + digit?))
}

fn is_plain(byte: u8) -> bool {
    PLAIN[usize::from(byte)]
}

/// A table: one byte after the other is looked at.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = belongs(byte as u8);
        byte += 1;
    }
    table
};

/// What plain ids are made of. Without a branch, so that many bytes can be told at once.
const fn belongs(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    let digit = byte.wrapping_sub(b'0') < 10;
    letter | digit | (byte == b'-') | (byte == b'.') | (byte == b'_') | (byte == b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ids: &[&str], body: &str) -> bool {
        let all = ids.iter().map(|id| Lengths::of(id.as_bytes()).0);
        let lengths = Lengths(all.fold(0, |all, one| all | one));
        may_name(body.as_bytes(), lengths, |word| {
            ids.iter().any(|id| id.as_bytes() == word)
        })
    }

    #[test]
    fn an_id_is_found_as_a_whole_word_alone() {
        let long = "x".repeat(70);
        for (ids, body, found) in [
            (&["abc"][..], "abc", true),
            (&["abc"], "{\"id\":\"abc\"}", true),
            (&["abc"], "http://h/abc?x=1", true),
            (&["abc"], "abcd xabc ab c", false),
            (&["abc"], "", false),
            (&["abc"], "ab", false),
            (&["7"], "{\"id\":7}", true),
            (&["7"], "{\"id\":17,\"x\":-7,\"y\":7.5}", false),
            (&["7", "123"], "[1,123]", true),
            (&["7", "123"], "[12,1234]", false),
            (&[&*long], &*long, true),
            (&[&*long], &long[1..], false),
            (&[], "\\u0061", false),
        ] {
            assert_eq!(names(ids, body), found, "{ids:?} {body}");
        }
    }

    #[test]
    fn words_are_of_ascii_and_end_wherever_they_do() {
        for byte in 0..=u8::MAX {
            let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            assert_eq!(is_plain(byte), plain, "{byte}");
        }
        for len in 0..200 {
            let mut bytes = vec![b'x'; len];
            assert_eq!(plain_len(&bytes), len);
            bytes.extend(b"/xxx");
            assert_eq!(plain_len(&bytes), len);
        }
    }

    #[test]
    fn what_may_be_written_as_something_else_is_not_passed_over() {
        for hidden in [
            "\\u0061bc",
            "a\\u0062c",
            "\\u002fabc",
            "\\\\\\u0061bc",
            "a\\zc",
            "\\u00",
            "\\",
            "%61bc",
            "a%62%63",
            "%2Dx",
        ] {
            assert!(names(&["abc"], hidden), "{hidden}");
        }
        for plain in [
            "line\\nline \\\"x\\\" \\\\u0061 \\/v1\\/",
            "\\u00e9t\\u00e9 \\ud83d\\ude00",
            "a%20b %2F %zz % %",
            "\\\\",
        ] {
            assert!(!names(&["abc"], plain), "{plain}");
        }
        assert!(names(&["abc"], "\\/abc\\/"));
    }
}
