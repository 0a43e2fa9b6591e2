//! Preconditions of a write: checked against this site's replica, and handed on as the position that the
//! replica stands at. Whoever leads compares that: a tag of one site says nothing at another.

use cheops_core::Position;
use cheops_core::operation::Fields;
use cheops_engine::replication::{Asked, Known, LocalAnswer};
use cheops_rest::Meaning;
use http::{HeaderMap, HeaderName, header};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::Replicas;
use crate::problem::Problem;

/// What a client expects of the resource as it saw it.
struct Expected<'a> {
    any_of: Vec<&'a str>,
    none_of: Vec<&'a str>,
    unmodified_since: Option<&'a str>,
    /// Versions in its body, by name.
    versions: Fields,
}

impl<'a> Expected<'a> {
    fn of(headers: &'a HeaderMap, versions: Fields) -> Option<Expected<'a>> {
        let expected = Expected {
            any_of: tags(headers, header::IF_MATCH),
            none_of: tags(headers, header::IF_NONE_MATCH),
            unmodified_since: headers
                .get(header::IF_UNMODIFIED_SINCE)
                .and_then(|value| value.to_str().ok()),
            versions,
        };
        let nothing = expected.any_of.is_empty()
            && expected.none_of.is_empty()
            && expected.unmodified_since.is_none()
            && expected.versions.is_empty();
        (!nothing).then_some(expected)
    }

    fn holds(&self, shown: &LocalAnswer, versions: &Fields) -> bool {
        let there = (200..300).contains(&shown.status);
        let is = |tag: &&str| match *tag {
            "*" => there,
            tag => there && shown.etag.as_deref() == Some(tag),
        };
        let unmodified = self.unmodified_since.is_none_or(|since| {
            let (since, last) = (date(since), shown.modified.as_deref().and_then(date));
            since.zip(last).is_some_and(|(since, last)| last <= since)
        });
        (self.any_of.is_empty() || self.any_of.iter().any(is))
            && !self.none_of.iter().any(is)
            && unmodified
            && self
                .versions
                .iter()
                .all(|(name, value)| versions.get(name) == Some(value))
    }
}

/// The position that the request depends on; none if it depends on nothing.
pub(super) async fn position(
    replicas: &Replicas,
    known: &Known,
    headers: &HeaderMap,
    asked: &Asked,
) -> Result<Option<Position>, Problem> {
    let meaning = replicas.classify(&asked.method, &asked.path);
    let versions = match &meaning {
        Meaning::Update { item, .. } if item.sub.is_empty() => {
            replicas.api.expected_versions(&asked.body)
        }
        _ => Fields::new(),
    };
    let Some(expected) = Expected::of(headers, versions) else {
        return Ok(None);
    };
    if meaning.item().is_some_and(|item| !item.sub.is_empty()) {
        return Err(Problem::NotImplemented(
            "preconditions are checked of a resource itself, not of what lies below it".to_owned(),
        ));
    }
    // First where the replica stands, then how it is: what happens in between only makes it fail.
    let id = known.id;
    let stands = replicas.engine.look(id, move |site| site.position(id));
    let stands = stands.await.flatten();
    let pending = || Problem::ReplicaPending {
        id: known.meta.to_string(),
        sites: known.live.to_vec(),
    };
    let position = stands
        .filter(|_| known.local.is_some())
        .ok_or_else(pending)?;
    let shown = replicas.engine.read_local(known, asked).await;
    let shown = shown.ok_or_else(|| Problem::ServiceFailed {
        site: replicas.here.clone(),
        detail: "the service did not say how it is now; nothing happened".to_owned(),
    })?;
    let versions = replicas.api.expected_versions(&shown.body);
    match expected.holds(&shown, &versions) {
        true => Ok(Some(position)),
        false => Err(Problem::PreconditionFailed),
    }
}

fn tags(headers: &HeaderMap, name: HeaderName) -> Vec<&str> {
    let values = headers.get_all(name).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let tags = texts.flat_map(|text| text.split(',').map(str::trim));
    tags.filter(|tag| !tag.is_empty()).collect()
}

fn date(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc2822).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(name: &'static str, value: &'static str, holds: bool) {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        let shown = LocalAnswer {
            status: 200,
            body: Vec::new(),
            etag: Some("\"7\"".to_owned()),
            modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
        };
        let none = Fields::new();
        let expected = Expected::of(&headers, none.clone()).unwrap();
        assert_eq!(expected.holds(&shown, &none), holds, "{name}: {value}");
        let gone = LocalAnswer {
            status: 404,
            etag: None,
            modified: None,
            ..shown
        };
        assert_eq!(
            expected.holds(&gone, &none),
            name == "if-none-match",
            "{name}"
        );
    }

    #[test]
    fn what_a_client_saw_is_compared_with_what_is_there() {
        check("if-match", "\"7\"", true);
        check("if-match", "\"6\", \"7\"", true);
        check("if-match", "\"6\"", false);
        check("if-match", "*", true);
        check("if-none-match", "*", false);
        check("if-none-match", "\"6\"", true);
        check("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT", true);
        check(
            "if-unmodified-since",
            "Sun, 06 Nov 1994 08:49:36 GMT",
            false,
        );
        check("if-unmodified-since", "yesterday", false);
        assert!(Expected::of(&HeaderMap::new(), Fields::new()).is_none());
    }
}
