//! What an operation carries besides its fields: the request as a client made it, and the answer as
//! a service gave it, both with the ids that clients see.
//!
//! Opaque to the core; written to logs and sent to peers, so each begins with its version.

use cheops_blob::Reference;
use serde::{Deserialize, Serialize};

/// The first version: what has no content is still written so, and read by agents of that time.
const FIRST: u8 = 1;
/// A request with a content in a file, which stands before it.
const WITH_CONTENT: u8 = 2;

/// Among the headers of an [`Asked`]: where the values that the others show are at home. Never sent
/// to a service.
pub const HOMES: &str = "x-cheops-homes";

/// Among the headers of an [`Asked`]: where its workflow entered. Never sent to a service.
pub const ENTRY: &str = "x-cheops-entry";

/// Among the headers of an [`Asked`]: ids in it of replicants that another service has. Whoever runs it does not wait
/// for them, and leaves them as they are. Never sent to a service.
pub const FOREIGN: &str = "x-cheops-foreign";

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
    /// In place of a body that is too long for a log.
    #[serde(skip)]
    pub content: Option<Content>,
}

/// A body that is kept in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// It is still coming in, at this site alone, under this number. Never in a log.
    Streaming(u128),
    /// It is whole.
    Blob(Reference),
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

    /// True if that id names something that another service has.
    pub(super) fn is_foreign(&self, id: &str) -> bool {
        let foreign = self.header(FOREIGN).unwrap_or_default();
        foreign
            .split(|byte| *byte == b',')
            .any(|one| one == id.as_bytes())
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

/// What is carried, with its version.
pub trait Carried: Sized {
    /// As bytes.
    fn to_bytes(&self) -> Vec<u8>;
    /// What bytes say; `None` if they are of another version or damaged.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl Carried for Replied {
    fn to_bytes(&self) -> Vec<u8> {
        write(FIRST, self)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Replied> {
        let (version, rest) = bytes.split_first()?;
        (*version == FIRST).then(|| read(rest))?
    }
}

impl Carried for Asked {
    fn to_bytes(&self) -> Vec<u8> {
        match &self.content {
            None => write(FIRST, self),
            Some(content) => write(WITH_CONTENT, &(content, self)),
        }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Asked> {
        let (version, rest) = bytes.split_first()?;
        match *version {
            FIRST => read(rest),
            WITH_CONTENT => {
                let (content, asked): (Content, Asked) = read(rest)?;
                let content = Some(content);
                Some(Asked { content, ..asked })
            }
            _ => None,
        }
    }
}

/// True if bytes may say that there is a content; they are not read for it.
pub(super) fn has_content(bytes: &[u8]) -> bool {
    bytes.first() == Some(&WITH_CONTENT)
}

/// Its bytes, with their version.
pub fn encode<T: Carried>(value: &T) -> Vec<u8> {
    value.to_bytes()
}

/// What bytes say; `None` if they are of another version or damaged.
pub fn decode<T: Carried>(bytes: &[u8]) -> Option<T> {
    T::from_bytes(bytes)
}

fn write<T: Serialize>(version: u8, value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![version]).expect("plain data can be written")
}

fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    let (value, left) = postcard::take_from_bytes(bytes).ok()?;
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
            content: None,
        };
        let bytes = encode(&asked);
        assert_eq!(bytes[0], FIRST, "older agents read what has no content");
        let of = Reference {
            hash: [5; 32],
            bytes: 7,
        };
        for content in [Content::Blob(of), Content::Streaming(9)] {
            let content = Some(content);
            let with = Asked {
                content,
                ..asked.clone()
            };
            assert_eq!(decode::<Asked>(&encode(&with)).unwrap(), with);
            // The bytes of version 2: the content, then the request as ever.
            assert_eq!(
                encode(&with)[..3],
                [
                    2,
                    u8::from(with.content == Some(Content::Blob(of))),
                    [9, 5][usize::from(with.content == Some(Content::Blob(of)))]
                ]
            );
            assert!(encode(&with).ends_with(&bytes[1..]));
            assert!(has_content(&encode(&with)) && !has_content(&bytes));
        }
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
