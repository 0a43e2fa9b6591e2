//! What a log says of a content: its hash and its length.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const HEX_DIGITS: usize = 64;

/// Names a content. Written as `blake3:<64 hex digits>/<bytes>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reference {
    /// BLAKE3 of all of it.
    pub hash: [u8; 32],
    /// How long it is.
    pub bytes: u64,
}

/// The text is no reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not `blake3:` with 64 hex digits, `/` and a length")]
pub struct BadReference;

impl Reference {
    /// The hash alone, in hex: the name of its file.
    pub fn name(&self) -> String {
        blake3::Hash::from(self.hash).to_hex().to_string()
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3:{}/{}", self.name(), self.bytes)
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Reference {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Reference, BadReference> {
        let (hash, bytes) = text
            .strip_prefix("blake3:")
            .and_then(|rest| rest.split_once('/'))
            .ok_or(BadReference)?;
        let plain = hash.len() == HEX_DIGITS && !hash.bytes().any(|b| b.is_ascii_uppercase());
        let canonical = plain && (bytes == "0" || !bytes.starts_with(['0', '+']));
        let hash = blake3::Hash::from_hex(hash).map_err(|_| BadReference)?;
        let bytes = bytes.parse().map_err(|_| BadReference)?;
        let reference = Reference {
            hash: *hash.as_bytes(),
            bytes,
        };
        canonical.then_some(reference).ok_or(BadReference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_reads_back_and_has_one_spelling() {
        let reference = Reference {
            hash: [0xab; 32],
            bytes: 7,
        };
        let text = reference.to_string();
        assert_eq!(text, format!("blake3:{}/7", "ab".repeat(32)));
        assert_eq!(text.parse(), Ok(reference));
        let bad = [
            "",
            "blake3:",
            "ab/7",
            &text.to_uppercase(),
            &text.replace("/7", ""),
            &text.replace("/7", "/07"),
            &text.replace("/7", "/+7"),
            &text.replace("/7", "/-7"),
            &text.replace("ab/7", "/7"),
            &text.replace("/7", "/99999999999999999999"),
        ];
        for text in bad {
            assert_eq!(text.parse::<Reference>(), Err(BadReference), "{text}");
        }
    }
}
