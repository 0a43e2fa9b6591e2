//! One id where it stands, and which resources it may mean there.

use std::borrow::Cow;

/// An id, or what stands where one may stand. Whoever is asked says whether it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id<'a> {
    /// Decoded: no percent signs, no JSON escapes.
    pub text: Cow<'a, str>,
    /// What kind of resource is meant, as far as the place tells: a kind of the profile, or a word
    /// such as `images` from a path or `image` from `image_id`. Compare with [`Id::fits`].
    pub kind: Option<&'a str>,
    /// Where it stands.
    pub place: Place,
}

/// Where an id stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A segment of the path.
    Path,
    /// A value of the query.
    Query,
    /// A header that holds an id.
    Header,
    /// The member that is the id of its object.
    Own,
    /// A member that names another resource.
    Ref,
    /// Within a URL in a member or header.
    Link,
    /// Any other text that looks like nothing but an id.
    Text,
}

impl Id<'_> {
    /// True if this may name a resource of that kind. Ids that are unmistakable (UUIDs, 32 hex digits,
    /// names that agents made) fit every kind; `7` fits its own kind only.
    pub fn fits(&self, kind: &str) -> bool {
        is_unmistakable(&self.text) || self.kind.is_some_and(|mine| kinds_agree(mine, kind))
    }
}

/// True for two words for one kind: `image` and `images`, `category` and `Categories`.
pub fn kinds_agree(a: &str, b: &str) -> bool {
    stem(a).eq_ignore_ascii_case(stem(b))
}

fn stem(word: &str) -> &str {
    let ends = |end: &str| {
        let at = word.len().checked_sub(end.len())?;
        let tail = word.get(at..)?;
        tail.eq_ignore_ascii_case(end).then(|| &word[..at])
    };
    if let Some(stem) = ends("ies").or_else(|| ends("y")) {
        return stem;
    }
    for end in ["xes", "ses", "zes", "ches", "shes"] {
        if ends(end).is_some() {
            return &word[..word.len() - 2];
        }
    }
    match ends("ss") {
        Some(_) => word,
        None => ends("s").unwrap_or(word),
    }
}

/// A UUID, 32 hex digits, or `r-` and 32 hex digits.
pub(crate) fn is_unmistakable(text: &str) -> bool {
    let bytes = text.as_bytes();
    match bytes.len() {
        36 => bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        }),
        32 => bytes.iter().all(u8::is_ascii_hexdigit),
        34 => bytes.starts_with(b"r-") && bytes[2..].iter().all(u8::is_ascii_hexdigit),
        _ => false,
    }
}

/// What a segment of an unknown path has to look like to be taken for an id: unmistakable, an integer,
/// or 16 hex digits and more.
pub(crate) fn looks_like_one(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return false;
    }
    (digits == bytes.len() && digits < 20)
        || is_unmistakable(segment)
        || (bytes.len() >= 16 && bytes.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_one_kind_agree() {
        for (a, b) in [
            ("image", "images"),
            ("category", "Categories"),
            ("box", "boxes"),
            ("branch", "branches"),
            ("address", "address"),
            ("flavor", "flavors"),
        ] {
            assert!(kinds_agree(a, b), "{a} {b}");
        }
        for (a, b) in [("image", "server"), ("", "s3"), ("owner", "users")] {
            assert!(!kinds_agree(a, b), "{a} {b}");
        }
    }

    #[test]
    fn what_looks_like_an_id() {
        for id in [
            "7",
            "4503599627370497",
            "72d5c1a0-0000-4000-8000-00000000000a",
            "5f2b18f84a1d4b0d9a3b7c6d5e4f3a2b",
            "507f1f77bcf86cd799439011",
            "r-5f2b18f84a1d4b0d9a3b7c6d5e4f3a2b",
        ] {
            assert!(looks_like_one(id), "{id}");
        }
        for word in [
            "",
            "v2",
            "v2.1",
            "images",
            "s3",
            "oauth2",
            "deadbeefdeadbeef",
            "detail",
        ] {
            assert!(!looks_like_one(word), "{word}");
        }
    }
}
