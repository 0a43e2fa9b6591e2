//! Content that a resource names and that has to be there before it.

use crate::api::Api;
use crate::json::Node;
use crate::limits::NEEDS_MAX;
use crate::url::percent_encode_into;

/// Something that a request needs at its site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Where it is, if it is there.
    pub item: String,
    /// Where POST begins to bring it.
    pub upload: String,
    /// What to add to the place that the answer to that names, by `?` or `&`.
    pub query: String,
}

impl Api {
    /// What has to be there before a request with that path and body can be carried out.
    pub fn needs(&self, kind: &str, path: &str, body: &[u8]) -> Vec<Need> {
        let Some(rule) = &self.rule(kind).needs else {
            return Vec::new();
        };
        let Ok(root) = Node::read(body) else {
            return Vec::new();
        };
        let mut names = Vec::new();
        for member in &rule.members {
            gather(&root, member, &mut names);
        }
        let need = |name: &String| {
            let mut encoded = String::new();
            percent_encode_into(name, &mut encoded);
            Need {
                item: relative(path, &rule.item.replace("{}", &encoded)),
                upload: relative(path, &rule.upload),
                query: format!("{}={encoded}", rule.query),
            }
        };
        names.iter().map(need).collect()
    }

    /// The header of a read's answer whose value names an item of that kind to the call that deletes it.
    pub fn delete_by(&self, kind: &str) -> Option<&str> {
        self.rule(kind).delete_by.as_deref()
    }

    /// True if bodies of that kind are kept to the byte.
    pub fn is_opaque(&self, kind: &str) -> bool {
        self.rule(kind).opaque
    }
}

/// The texts at `a/b`, or at `b` of every one of a list at `a/*/b`; each once.
fn gather(node: &Node<'_>, path: &str, names: &mut Vec<String>) {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let found: Vec<&Node<'_>> = match first {
        "*" => node.items().unwrap_or_default().iter().collect(),
        name => node.get(name).into_iter().collect(),
    };
    for node in found {
        if !rest.is_empty() {
            gather(node, rest, names);
        } else if let Some(name) = node.id()
            && !names.iter().any(|known| *known == *name)
            && names.len() < NEEDS_MAX
        {
            names.push(name.into_owned());
        }
    }
}

/// A reference below the folder that the item lies in; each `../` leaves one folder.
fn relative(item: &str, mut reference: &str) -> String {
    let path = item.split('?').next().unwrap_or_default();
    let mut folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    while let Some(rest) = reference.strip_prefix("../") {
        reference = rest;
        folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder);
    }
    format!("{folder}/{reference}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_relative_to_the_folder_of_the_item() {
        let item = "/v2/library/alpine/manifests/latest?x=1";
        assert_eq!(relative(item, "../blobs/a"), "/v2/library/alpine/blobs/a");
        assert_eq!(relative(item, "tags"), "/v2/library/alpine/manifests/tags");
        assert_eq!(relative("/a", "../../b"), "/b");
    }

    #[test]
    fn members_of_lists_are_gathered_once() {
        let body = br#"{"config":{"digest":"c"},"layers":[{"digest":"a"},{"digest":"b"},{"digest":"a"},{"x":1}]}"#;
        let root = Node::read(body).unwrap();
        let mut names = Vec::new();
        gather(&root, "config/digest", &mut names);
        gather(&root, "layers/*/digest", &mut names);
        gather(&root, "nothing/*/digest", &mut names);
        assert_eq!(names, ["c", "a", "b"]);
    }
}
