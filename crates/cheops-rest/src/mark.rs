//! Our operation id put into the body of a create, where the profile says.

use crate::api::Api;
use crate::json::{Node, quoted};
use crate::splice::Patches;
use crate::tree::members;

impl Api {
    /// The body of a create, in whatever form, with our mark in it. As it was, if the profile names none or the
    /// body is no JSON object.
    pub fn marked(&self, kind: &str, body: &[u8], operation: &str) -> Vec<u8> {
        let Some(mark) = &self.rule(kind).mark else {
            return body.to_vec();
        };
        let says = mark.value.replace("{operation}", operation);
        let path: Vec<String> = members(&mark.member).collect();
        let marked = Node::read(body)
            .ok()
            .and_then(|root| put(&root, &path, &says));
        marked.unwrap_or_else(|| body.to_vec())
    }
}

/// Goes down as far as there is something, and adds what is missing.
fn put(root: &Node<'_>, path: &[String], says: &str) -> Option<Vec<u8>> {
    let mut node = root;
    let mut patches = Patches::default();
    for (depth, member) in path.iter().enumerate() {
        let filled = node.raw[1..].trim_start().len() > 1;
        let last = node.start + node.raw.len() - 1 - root.start;
        let comma = if filled { "," } else { "" };
        if member == "-" {
            node.items()?;
            patches.add_raw(last..last, format!("{comma}{}", quoted(says)));
            return Some(patches.apply(root.raw).into_owned().into_bytes());
        }
        if !node.is_object() {
            return None;
        }
        match node.get(member).filter(|inner| !inner.is_null()) {
            Some(inner) => node = inner,
            None => {
                let value = path[depth + 1..].iter().rev().fold(quoted(says), wrapped);
                patches.add_raw(last..last, format!("{comma}{}:{value}", quoted(member)));
                return Some(patches.apply(root.raw).into_owned().into_bytes());
            }
        }
    }
    // The client wrote something there itself: the mark stands in its place.
    let start = node.start - root.start;
    patches.add_raw(start..start + node.raw.len(), quoted(says));
    Some(patches.apply(root.raw).into_owned().into_bytes())
}

fn wrapped(inner: String, member: &String) -> String {
    match member.as_str() {
        "-" => format!("[{inner}]"),
        member => format!("{{{}:{inner}}}", quoted(member)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(member: &str, body: &str) -> String {
        let text = format!(
            "name = \"x\"\n[[collection]]\npath = \"/a\"\nmark = {{ member = \"{member}\" }}"
        );
        let api = Api::compile(&toml::from_str(&text).unwrap()).unwrap();
        String::from_utf8(api.marked("a", body.as_bytes(), "7")).unwrap()
    }

    #[test]
    fn the_mark_is_added_and_nothing_else_changes() {
        for (member, body, want) in [
            ("tags/-", r#"{"a": 1}"#, r#"{"a": 1,"tags":["cheops-7"]}"#),
            (
                "tags/-",
                r#"{"tags": [ "x" ], "b":2}"#,
                r#"{"tags": [ "x" ,"cheops-7"], "b":2}"#,
            ),
            ("tags/-", r#"{"tags": [ ]}"#, r#"{"tags": [ "cheops-7"]}"#),
            ("s/m/op", r#"{ }"#, r#"{ "s":{"m":{"op":"cheops-7"}}}"#),
            (
                "s/m/op",
                r#"{"s": {"n":1}}"#,
                r#"{"s": {"n":1,"m":{"op":"cheops-7"}}}"#,
            ),
            ("op", r#" {"op": "x"} "#, r#"{"op": "cheops-7"}"#),
            ("op", "[1]", "[1]"),
            ("op", "oops", "oops"),
        ] {
            assert_eq!(marked(member, body), want, "{member} {body}");
        }
    }
}
