//! Between one JSON value and fields: taken apart, and put together again.

use std::collections::BTreeMap;

use crate::fields::{Fields, UNSET};
use crate::json::{Node, Of, decode, quoted};
use crate::limits::FIELD_DEPTH_MAX;

/// Adds what is in `node` under `name`, down to lists and scalars. An empty object is a field.
pub(crate) fn take_apart(node: &Node<'_>, name: &str, out: &mut Fields) {
    take_apart_at(node, name, 0, out);
}

fn take_apart_at(node: &Node<'_>, name: &str, depth: usize, out: &mut Fields) {
    match &node.of {
        Of::Object(members) if !members.is_empty() && depth < FIELD_DEPTH_MAX => {
            for (key, value) in members {
                let inner = below(name, &decode(key));
                // Of members with one name the last counts, with all that is in it.
                out.retain(|field, _| !is_within(field, &inner));
                take_apart_at(value, &inner, depth + 1, out);
            }
        }
        _ => drop(out.insert(name.to_owned(), node.raw.to_owned())),
    }
}

/// The name of a member below another.
pub(crate) fn below(name: &str, member: &str) -> String {
    let member = match member {
        "" => "~2".to_owned(),
        member => member.replace('~', "~0").replace('/', "~1"),
    };
    match name {
        "" => member,
        name => format!("{name}/{member}"),
    }
}

/// True for the field itself and for all below it.
pub(crate) fn is_within(field: &str, name: &str) -> bool {
    match field.strip_prefix(name) {
        Some(rest) => name.is_empty() || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

/// True for a field that stands below the resource.
pub(crate) fn is_sub(field: &str) -> bool {
    field.starts_with('/')
}

/// How the member is called that a part of a field's name stands for.
fn called(part: &str) -> String {
    match part {
        "~2" => String::new(),
        part => part.replace("~1", "/").replace("~0", "~"),
    }
}

/// The members of a field's name, as they are called.
pub(crate) fn members(field: &str) -> impl Iterator<Item = String> + '_ {
    field.split('/').map(called)
}

enum Tree<'a> {
    Leaf(&'a str),
    Branch(BTreeMap<&'a str, Tree<'a>>),
}

/// One JSON value from fields. Those below the resource and those that are not to be there are left out.
pub(crate) fn put_together<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut root = Tree::Branch(BTreeMap::new());
    for (name, value) in fields {
        if value == UNSET || is_sub(name) {
            continue;
        }
        if name.is_empty() {
            return value.to_owned();
        }
        root.insert(name, value);
    }
    let mut out = String::new();
    root.write(&mut out);
    out
}

impl<'a> Tree<'a> {
    fn insert(&mut self, name: &'a str, value: &'a str) {
        let mut tree = self;
        for part in name.split('/') {
            if matches!(tree, Tree::Leaf(_)) {
                *tree = Tree::Branch(BTreeMap::new());
            }
            let Tree::Branch(members) = tree else { return };
            tree = members.entry(part).or_insert(Tree::Leaf("{}"));
        }
        if let Tree::Leaf(leaf) = tree {
            *leaf = value;
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Tree::Leaf(raw) => out.push_str(raw),
            Tree::Branch(members) => {
                out.push('{');
                for (n, (name, inner)) in members.iter().enumerate() {
                    out.push_str(if n == 0 { "" } else { "," });
                    out.push_str(&quoted(&called(name)));
                    out.push(':');
                    inner.write(out);
                }
                out.push('}');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        let mut fields = Fields::new();
        take_apart(&Node::read(json.as_bytes()).unwrap(), "", &mut fields);
        fields
    }

    fn together(fields: &Fields) -> String {
        put_together(
            fields
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        )
    }

    #[test]
    fn what_is_taken_apart_is_put_together_again() {
        for json in [
            r#"{"a":1,"b":{"c":[1, 2],"d~/":{}},"e":"x"}"#,
            r#"{"":{"":1}}"#,
            "[1]",
            "{}",
            r#"{"~1":1,"/":2}"#,
        ] {
            let again = together(&fields(json));
            let same = Node::read(again.as_bytes())
                .unwrap()
                .same(&Node::read(json.as_bytes()).unwrap());
            assert!(same, "{json} {again}");
        }
    }

    #[test]
    fn of_two_members_with_one_name_the_last_counts() {
        let found = fields(r#"{"a":{"b":1,"c":2},"a":{"c":3}}"#);
        assert_eq!(together(&found), r#"{"a":{"c":3}}"#);
    }
}
