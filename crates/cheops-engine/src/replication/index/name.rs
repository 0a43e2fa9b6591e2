//! An id in few bytes: most are UUIDs, hexadecimal digits or numbers.

use std::fmt;

/// One id. Written out, it is what it was made of, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// In lower case, with its dashes.
    Uuid([u8; 16]),
    /// 32 digits in lower case.
    Hex([u8; 16]),
    /// Without zeros in front.
    Number(u64),
    Text(Box<str>),
}

impl Name {
    pub(super) fn of(text: &str) -> Name {
        let named = match text.len() {
            36 => hex(&undashed(text)).map(Name::Uuid),
            32 => hex(text).map(Name::Hex),
            1..=20 => text.parse().ok().map(Name::Number),
            _ => None,
        };
        named
            .filter(|name| name.is(text))
            .unwrap_or_else(|| Name::Text(text.into()))
    }

    /// True if it is that id.
    pub(super) fn is(&self, text: &str) -> bool {
        if let Name::Text(own) = self {
            return **own == *text;
        }
        let mut buffer = Buffer {
            bytes: [0; 36],
            length: 0,
        };
        let written = fmt::write(&mut buffer, format_args!("{self}"));
        written.is_ok() && buffer.bytes[..buffer.length] == *text.as_bytes()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Uuid(bytes) => {
                let digits = u128::from_be_bytes(*bytes);
                let part = |from: u32, count: u32| {
                    (digits >> (128 - 4 * (from + count))) & ((1 << (4 * count)) - 1)
                };
                write!(
                    to,
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    part(0, 8),
                    part(8, 4),
                    part(12, 4),
                    part(16, 4),
                    part(20, 12)
                )
            }
            Name::Hex(bytes) => write!(to, "{:032x}", u128::from_be_bytes(*bytes)),
            Name::Number(number) => write!(to, "{number}"),
            Name::Text(text) => to.write_str(text),
        }
    }
}

/// Holds the longest id that is not text.
struct Buffer {
    bytes: [u8; 36],
    length: usize,
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

fn undashed(text: &str) -> String {
    text.chars().filter(|c| *c != '-').collect()
}

fn hex(text: &str) -> Option<[u8; 16]> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = digits
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten();
    number.map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_back_as_it_was_and_the_usual_ones_take_few_bytes() {
        let short = [
            "7f9c24e8-3b12-4fef-91e0-56a2d5a2b8c1",
            "00000000-0000-0000-0000-000000000001",
            "7f9c24e83b124fef91e056a2d5a2b8c1",
            "4503599627370497",
            "0",
        ];
        let long = [
            "7F9C24E8-3b12-4fef-91e0-56a2d5a2b8c1",
            "7f9c24e83-b12-4fef-91e0-56a2d5a2b8c1",
            "7f9c24e83b124fef91e056a2d5a2b8cX",
            "+7",
            "007",
            "99999999999999999999",
            "",
            "debian",
            "é",
        ];
        for text in short.into_iter().chain(long) {
            let name = Name::of(text);
            assert_eq!(name.to_string(), text);
            assert!(name.is(text));
            assert!(!name.is("another"));
            assert_eq!(
                matches!(name, Name::Text(_)),
                long.contains(&text),
                "{text}"
            );
        }
        assert_eq!(size_of::<Option<Name>>(), 24);
    }
}
