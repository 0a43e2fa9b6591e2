//! The id of what a create has made, as its answer names it.

use crate::api::Api;
use crate::json::Node;
use crate::pattern::Segments;
use crate::rules::Rule;
use crate::url::{percent_decoded, target_of};

/// An answer to a create.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Its headers. Names in any case.
    pub headers: &'a [(&'a str, &'a str)],
    /// Its whole body.
    pub body: &'a [u8],
}

/// What a create has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The local id.
    pub id: String,
    /// True if it is the id that the client asked for.
    pub chosen: bool,
}

/// The answer names nothing: the resource cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service's answer names no id")]
pub struct NoId;

impl Api {
    /// The local id that the answer to a create names: the collection's header, the id in the body (as it
    /// is, or one level down), the last segment of `Location`. `asked` is what the client asked for, by
    /// [`Api::asked_id`] or in the path.
    pub fn created(
        &self,
        kind: &str,
        asked: Option<&str>,
        answer: &Answer<'_>,
    ) -> Result<Created, NoId> {
        let rule = self.rule(kind);
        let header = rule
            .id_header
            .as_deref()
            .and_then(|name| answer.header(name));
        let id = header
            .map(str::to_owned)
            .or_else(|| rule.id_of(&Node::read(answer.body).ok()?))
            .or_else(|| self.located(kind, answer.header("location")?))
            .ok_or(NoId)?;
        let chosen = asked == Some(id.as_str());
        Ok(Created { id, chosen })
    }

    /// The id that stands in the body of a create. Where the profile does not let clients choose, a service
    /// may heed it or not: compare with what its answer names.
    pub fn asked_id(&self, kind: &str, body: &[u8]) -> Option<String> {
        self.rule(kind).id_of(&Node::read(body).ok()?)
    }

    /// The item that a `Location` names, below its collection; else its last segment.
    fn located(&self, kind: &str, location: &str) -> Option<String> {
        let target = target_of(location);
        let path = target.split('?').next().unwrap_or_default();
        let segments = Segments::of(path)?;
        let at = match self.fitting(&segments) {
            Some((rule, fit)) if rule.kind == kind && fit.taken < segments.len() => fit.taken,
            _ => segments.len().checked_sub(1)?,
        };
        Some(percent_decoded(segments.get(at)).into_owned())
    }
}

impl Answer<'_> {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(header, _)| header.eq_ignore_ascii_case(name));
        found
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    }
}

impl Rule {
    /// The id of the one resource that a body holds.
    pub(crate) fn id_of(&self, root: &Node<'_>) -> Option<String> {
        let inner = self.unwrapped(root);
        self.own_id(inner).or_else(|| self.own_id(root))
    }

    /// The first member of the object that holds its id.
    pub(crate) fn own_id(&self, object: &Node<'_>) -> Option<String> {
        let found = self.id.iter().find_map(|name| object.get(name)?.id());
        found.map(std::borrow::Cow::into_owned)
    }

    /// The resource itself: what the wrapping member holds, or the only member that is an object where no id
    /// stands beside it.
    pub(crate) fn unwrapped<'n, 'a>(&self, root: &'n Node<'a>) -> &'n Node<'a> {
        match self.wrap.as_deref() {
            Some("") => root,
            Some(name) => root.get(name).unwrap_or(root),
            None => match root.members() {
                [(_, inner)] if inner.is_object() => inner,
                members if self.own_id(root).is_none() => {
                    let mut objects = members.iter().filter(|(_, inner)| inner.is_object());
                    match (objects.next(), objects.next()) {
                        (Some((_, only)), None) if self.own_id(only).is_some() => only,
                        _ => root,
                    }
                }
                _ => root,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(profile: &str, kind: &str, headers: &[(&str, &str)], body: &str) -> Option<String> {
        let api = Api::compile(&toml::from_str(profile).unwrap()).unwrap();
        let answer = Answer {
            headers,
            body: body.as_bytes(),
        };
        api.created(kind, None, &answer)
            .ok()
            .map(|created| created.id)
    }

    #[test]
    fn an_ordinary_answer_names_its_id() {
        let rest =
            |headers: &[(&str, &str)], body: &str| id("name = \"rest\"", "images", headers, body);
        let found = |text: &str| Some(text.to_owned());
        assert_eq!(rest(&[], r#"{"id": 7, "name": "x"}"#), found("7"));
        assert_eq!(
            rest(&[], r#"{"image": {"name": "x", "uuid": "u"}}"#),
            found("u")
        );
        assert_eq!(rest(&[], r#"{"name": "x"}"#), found("x"));
        assert_eq!(rest(&[], r#"{"code": 0, "data": {"id": "a"}}"#), found("a"));
        assert_eq!(
            rest(&[("Location", "http://h/images/9%20a?x=1")], ""),
            found("9 a")
        );
        assert_eq!(rest(&[("LOCATION", "/images/9/")], "created"), found("9"));
        assert_eq!(rest(&[], ""), None);
        assert_eq!(rest(&[], "[]"), None);
        assert_eq!(rest(&[], r#"{"id": null}"#), None);
        assert_eq!(rest(&[("location", "/")], "{}"), None);
    }

    #[test]
    fn a_profile_says_where_it_stands() {
        let profile =
            "name = \"x\"\n[[collection]]\npath = \"/v2/{+}/uploads\"\nid_header = \"Upload-UUID\"";
        let upload = id(
            profile,
            "uploads",
            &[("upload-uuid", "u1"), ("location", "/v2/a/uploads/u2")],
            "",
        );
        assert_eq!(upload.as_deref(), Some("u1"));
        let upload = id(
            profile,
            "uploads",
            &[("location", "/v2/a/b/uploads/u2?_state=x")],
            "",
        );
        assert_eq!(upload.as_deref(), Some("u2"));
    }
}
