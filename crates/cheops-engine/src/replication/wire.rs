//! What an operation carries besides its fields: the request as a client made it, and the answer as
//! a service gave it, both with the ids that clients see.
//!
//! Opaque to the core; written to logs and sent to peers, so each begins with its version.

use serde::{Deserialize, Serialize};

/// The version written now; the bytes of every version are kept in `tests/fixtures`.
const VERSION: u8 = 1;

/// Among the headers of an [`Asked`]: where the values that the others show are at home. Never sent
/// to a service.
pub const HOMES: &str = "x-cheops-homes";

/// A request, as every site's applier makes it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// `POST`.
    pub method: String,
    /// Path and query, in meta-ids.
    pub path: String,
    /// Those that pass: names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// In meta-ids.
    pub body: Vec<u8>,
    /// The collection that the resource is in, in meta-ids: `/v2/images`.
    pub collection: String,
    /// What it is, in the words of the profile.
    pub kind: String,
    /// The scope it came with.
    pub scope: Option<String>,
    /// When, in milliseconds since 1970, by the clock of the site where it entered.
    pub created_ms: u64,
}

/// A service's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replied {
    /// Those that pass: names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// In meta-ids.
    pub body: Vec<u8>,
    /// Whose service said it.
    pub site: String,
}

impl Asked {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_slice())
    }

    /// The headers that say who asks, and nothing of the content.
    pub(super) fn rights(&self) -> Vec<(String, Vec<u8>)> {
        let of_asker = |(name, _): &&(String, Vec<u8>)| !is_of_content(name);
        self.headers.iter().filter(of_asker).cloned().collect()
    }
}

/// True for what describes a body, or asks for a part or a form of it.
pub(super) fn is_of_content(name: &str) -> bool {
    name.starts_with("content-") || name.starts_with("if-") || name == "accept" || name == "range"
}

/// Its bytes, with their version.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![VERSION]).expect("plain data can be written")
}

/// What bytes say; `None` if they are of another version or damaged.
pub fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    let (version, rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    let (value, left) = postcard::take_from_bytes(rest).ok()?;
    left.is_empty().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_back_as_it_was_and_garbage_is_nothing() {
        let asked = Asked {
            method: "POST".into(),
            path: "/images?x=1".into(),
            headers: vec![("content-type".into(), b"application/json".to_vec())],
            body: b"{}".to_vec(),
            collection: "/images".into(),
            kind: "images".into(),
            scope: Some("image: a & b".into()),
            created_ms: 1_763_000_000_000,
        };
        let bytes = encode(&asked);
        assert_eq!(decode::<Asked>(&bytes).unwrap(), asked);
        assert_eq!(decode::<Asked>(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode::<Asked>(&[&bytes[..], b"x"].concat()), None);
        assert_eq!(decode::<Asked>(&[9]), None);
        assert_eq!(decode::<Asked>(&[]), None);
        // The bytes of version 1, as they stand in the logs of agents.
        let first = encode(&Replied {
            headers: vec![("etag".into(), b"7".to_vec())],
            body: b"{}".to_vec(),
            site: "site1".into(),
        });
        assert_eq!(first, b"\x01\x01\x04etag\x017\x02{}\x05site1");
    }
}
