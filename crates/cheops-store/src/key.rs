//! Keys: bytes, and ranges of them in byte order.

use std::fmt;

use crate::limits::KEY_BYTES_MAX;

/// Bytes that name a record of a table. Compared byte by byte, shorter first.
pub type Key = Vec<u8>;

/// Bytes that the store keeps and does not look into.
pub type Value = Vec<u8>;

/// Keys from one (included) up to another (left out).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    from: Key,
    until: Option<Key>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> KeyRange {
        KeyRange::starting_at(b"")
    }

    /// `from` and every key after it.
    pub fn starting_at(from: &[u8]) -> KeyRange {
        let from = from.to_vec();
        KeyRange { from, until: None }
    }

    /// Keys from `from` up to, and without, `until`.
    pub fn between(from: &[u8], until: &[u8]) -> KeyRange {
        let until = Some(until.to_vec());
        KeyRange {
            from: from.to_vec(),
            until,
        }
    }

    /// Keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        KeyRange {
            from: prefix.to_vec(),
            until: after_prefix(prefix),
        }
    }

    /// What remains of this range after `last`.
    pub fn after(self, last: &[u8]) -> KeyRange {
        // The next key there can be is the same with a zero byte behind it.
        let mut from = last.to_vec();
        from.push(0);
        let from = from.max(self.from);
        KeyRange { from, ..self }
    }

    /// The first key that may be in the range.
    pub fn from(&self) -> &[u8] {
        &self.from
    }

    /// The first key behind the range; `None` if nothing ends it.
    pub fn until(&self) -> Option<&[u8]> {
        self.until.as_deref()
    }

    /// Whether no key can be in it.
    pub fn is_empty(&self) -> bool {
        let ended = self.until.as_ref().is_some_and(|until| *until <= self.from);
        ended || self.from.len() > KEY_BYTES_MAX + 1
    }
}

/// The first key behind all that begin with `prefix`: the last byte that can grow, grown by one.
fn after_prefix(prefix: &[u8]) -> Option<Key> {
    let grows = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut after = prefix[..=grows].to_vec();
    after[grows] += 1;
    Some(after)
}

/// A key as people read it: as text where it is text, else in hexadecimal.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() && self.0.iter().all(|byte| byte.is_ascii_graphic()) {
            return to.write_str(&String::from_utf8_lossy(self.0));
        }
        to.write_str("x'")?;
        for byte in self.0 {
            write!(to, "{byte:02x}")?;
        }
        to.write_str("'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_first_key_without_it() {
        let until = |prefix: &[u8]| KeyRange::prefix(prefix).until().map(<[u8]>::to_vec);
        assert_eq!(until(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(until(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(until(b"\xff"), None);
        assert_eq!(until(b""), None);
    }

    #[test]
    fn going_on_never_goes_back() {
        let range = KeyRange::between(b"m", b"z");
        assert_eq!(range.clone().after(b"p").from(), b"p\0");
        assert_eq!(range.clone().after(b"a").from(), b"m");
        assert!(range.after(b"z").is_empty());
    }

    #[test]
    fn keys_show_as_text_or_as_sqlite_would_write_them() {
        assert_eq!(Shown(b"site1/7").to_string(), "site1/7");
        assert_eq!(Shown(b"a\0").to_string(), "x'6100'");
        assert_eq!(Shown(b"").to_string(), "x''");
    }
}
