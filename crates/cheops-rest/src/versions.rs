//! Versions in bodies: which one a client expects a resource to be at, and which one each site's copy is at.

use std::borrow::Cow;

use crate::api::Api;
use crate::fields::Fields;
use crate::json::{Node, Of, decode};
use crate::limits::FIELD_DEPTH_MAX;
use crate::splice::Patches;
use crate::tree::below;

impl Api {
    /// The versions that the body of a write expects the resource to be at, by name. None if it is not JSON.
    pub fn expected_versions(&self, body: &[u8]) -> Fields {
        let mut found = Fields::new();
        if let Ok(node) = Node::read(body) {
            self.versions(&node, "", 0, &mut |name, value| {
                if value.raw != "null" {
                    found.insert(name, value.raw.to_owned());
                }
            });
        }
        found
    }

    /// The body with the versions of `shown`, which is how a site's own service shows the resource, in the place of
    /// those that the client expected. What is not shown stays as it is.
    pub fn with_versions<'b>(&self, body: &'b [u8], shown: &[u8]) -> Cow<'b, [u8]> {
        let (Ok(node), Ok(text)) = (Node::read(body), std::str::from_utf8(body)) else {
            return Cow::Borrowed(body);
        };
        let now = self.expected_versions(shown);
        let mut patches = Patches::default();
        self.versions(&node, "", 0, &mut |name, value| {
            if let Some(version) = now.get(&name) {
                let range = value.start..value.start + value.raw.len();
                patches.add_raw(range, version.clone());
            }
        });
        match patches.apply(text) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }

    fn versions<'n>(
        &self,
        node: &Node<'n>,
        name: &str,
        depth: usize,
        each: &mut impl FnMut(String, &Node<'n>),
    ) {
        let Of::Object(members) = &node.of else {
            return;
        };
        for (key, value) in members {
            let key = decode(key);
            let inner = below(name, &key);
            match &value.of {
                Of::Object(_) if depth < FIELD_DEPTH_MAX => {
                    self.versions(value, &inner, depth + 1, each);
                }
                Of::Word | Of::Text(_) if self.is_expectation(&key) => each(inner, value),
                _ => (),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cheops_model::Profile;

    use super::*;

    fn api() -> Api {
        Api::compile(&Profile::default()).unwrap()
    }

    #[test]
    fn a_version_is_found_where_it_stands_and_nothing_else_is_taken_for_one() {
        let body =
            br#"{"metadata": {"name": "a", "resourceVersion": "7"}, "revision": 3, "_rev": null}"#;
        let expected = api().expected_versions(body);
        let pairs: Vec<_> = expected.iter().collect();
        assert_eq!(
            pairs,
            [(&"metadata/resourceVersion".to_owned(), &"\"7\"".to_owned())]
        );
        for nothing in [&b"[{\"_rev\": \"1\"}]"[..], b"", b"no", b"7"] {
            assert!(api().expected_versions(nothing).is_empty());
        }
    }

    #[test]
    fn every_site_gets_its_own_and_no_other_byte_changes() {
        let body = br#"{ "_rev" : "1-a", "n": 1.0, "metadata": {"resourceVersion":"7"} }"#;
        let shown = br#"{"_rev": "5-c", "metadata": {"resourceVersion": 12}, "n": 2}"#;
        let filled = api().with_versions(body, shown);
        let expected = br#"{ "_rev" : "5-c", "n": 1.0, "metadata": {"resourceVersion":12} }"#;
        assert_eq!(&*filled, expected);
        assert_eq!(&*api().with_versions(body, b"{}"), body);
    }

    #[test]
    fn a_profile_says_which_members_are_versions() {
        let profile = Profile {
            versions: Some(vec!["revision".to_owned()]),
            ..Profile::default()
        };
        let api = Api::compile(&profile).unwrap();
        let body = br#"{"revision": 3, "_rev": "x"}"#;
        let names: Vec<_> = api.expected_versions(body).into_keys().collect();
        assert_eq!(names, ["revision"]);
    }
}
