//! What clients wrote, field by field.
//!
//! A field's name is the path of members to it, `server/metadata/color`, with `~1` for a slash in a name,
//! `~0` for a tilde and `~2` for a name that is empty. Its value is JSON as it was written, in one piece for lists and scalars. What
//! stands below the resource (`PUT …/file`) is one field whose name begins with a slash, `/file`. A body that
//! is not JSON is one field, named `""` or by its sub-path, whose value is for the caller to choose: a
//! reference that is no JSON text, such as `blob:…`.

use std::collections::{BTreeMap, BTreeSet};

use cheops_model::profile::UpdateForm;

use crate::api::Api;
use crate::classify::Item;
use crate::id::kinds_agree;
use crate::json::{Node, NotJson};
use crate::media::{is_json, is_json_patch, is_merge_patch};
use crate::patch;
use crate::rules::Rule;
use crate::tree::{ancestors, below, first_below, is_sub, members, take_apart};
use crate::url::percent_decoded;

/// Fields by name. The same as the core's.
pub type Fields = BTreeMap<String, String>;

/// The value of a field that is not to be there. No JSON text is empty.
pub const UNSET: &str = "";

/// What a request writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Each with its value; [`UNSET`] takes one away.
    pub fields: Fields,
    /// Names under which everything that is not in `fields` goes: `""` for PUT of the whole.
    pub replaces: Vec<String>,
    /// The field of `fields` whose value is the caller's to choose, as the body is not JSON.
    pub opaque: Option<String>,
}

/// A body that does not say which fields it writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldFault {
    /// 400.
    #[error("the body is not JSON, at byte {at}")]
    NotJson {
        /// Where it stops being JSON.
        at: usize,
    },
    /// 501: a patch that depends on what the service has and no client wrote.
    #[error("{0}")]
    Unclear(String),
}

impl From<NotJson> for FieldFault {
    fn from(NotJson { at }: NotJson) -> FieldFault {
        FieldFault::NotJson { at }
    }
}

impl Written {
    /// What to log: the fields written, and [`UNSET`] for each of `desired` that this takes away. A field
    /// that becomes an object, or stops being one, takes what it was before with it.
    pub fn over(self, desired: &Fields) -> Fields {
        let replaces: BTreeSet<&str> = self.replaces.iter().map(String::as_str).collect();
        let gone = desired.iter().filter(|(name, value)| {
            *value != UNSET && !self.fields.contains_key(*name) && self.removes(name, &replaces)
        });
        let gone: Fields = gone
            .map(|(name, _)| (name.clone(), UNSET.to_owned()))
            .collect();
        let mut fields = self.fields;
        fields.extend(gone);
        fields
    }

    /// True if this takes the field away: with all under a name, as part of what is a scalar now, or as a
    /// scalar that is an object now.
    fn removes(&self, name: &str, replaces: &BTreeSet<&str>) -> bool {
        if is_sub(name) {
            return false;
        }
        let replaced = replaces.contains("")
            || replaces.contains(name)
            || ancestors(name)
                .any(|above| replaces.contains(above) || self.fields.contains_key(above));
        replaced || first_below(&self.fields, name).is_some()
    }

    fn opaque(name: String) -> Written {
        Written {
            fields: Fields::from([(name.clone(), UNSET.to_owned())]),
            replaces: Vec::new(),
            opaque: Some(name),
        }
    }
}

impl Api {
    /// True if such a body is looked into: ids in it are replaced, its members are fields. `body` may be the beginning.
    pub fn looks_into(&self, kind: &str, media: Option<&str>, body: &[u8]) -> bool {
        !self.rule(kind).opaque && is_json_body(media, body)
    }

    /// What the body of a create writes.
    pub fn written_by_create(
        &self,
        kind: &str,
        media: Option<&str>,
        body: &[u8],
    ) -> Result<Written, FieldFault> {
        if body.trim_ascii().is_empty() {
            return Ok(Written::default());
        }
        if self.rule(kind).opaque || !is_json_body(media, body) {
            return Ok(Written::opaque(String::new()));
        }
        let mut fields = Fields::new();
        take_apart(&Node::read(body)?, "", &mut fields);
        self.drop_versions(&mut fields);
        Ok(Written {
            fields,
            replaces: vec![String::new()],
            opaque: None,
        })
    }

    /// What the body of an update writes. `desired` is what was written before: a patch may need it. Of what
    /// stands below the resource only PUT says what is there afterwards; another method writes no field.
    pub fn written_by_update(
        &self,
        item: &Item<'_>,
        method: &str,
        media: Option<&str>,
        body: &[u8],
        desired: &Fields,
    ) -> Result<Written, FieldFault> {
        let rule = self.rule(item.spot.kind);
        let json = !rule.opaque && is_json_body(media, body);
        if !item.sub.is_empty() {
            let name = format!("/{}", item.sub);
            return match method {
                "PUT" if json => {
                    let raw = Node::read(body)?.raw.to_owned();
                    Ok(Written {
                        fields: Fields::from([(name, raw)]),
                        ..Written::default()
                    })
                }
                "PUT" => Ok(Written::opaque(name)),
                _ => Ok(Written::default()),
            };
        }
        if body.trim_ascii().is_empty() {
            return Ok(Written::default());
        }
        if !json {
            return Ok(Written::opaque(String::new()));
        }
        let root = Node::read(body)?;
        let mut written = match form(rule, method, media) {
            UpdateForm::Whole => whole(&root),
            UpdateForm::Merge => merged(&root, desired),
            UpdateForm::Members => each_member(&root, rule, item.spot.kind),
            UpdateForm::JsonPatch => patch::read(&root, desired)?,
        };
        self.drop_versions(&mut written.fields);
        drop_own_id(&mut written.fields, rule, &percent_decoded(item.id));
        Ok(written)
    }

    /// Versions belong to one site.
    fn drop_versions(&self, fields: &mut Fields) {
        fields.retain(|name, _| {
            is_sub(name) || !members(name).any(|member| self.is_version(&member))
        });
    }
}

/// A body that repeats the id it is sent to does not write it.
pub(crate) fn drop_own_id(fields: &mut Fields, rule: &Rule, id: &str) {
    fields.retain(|name, value| {
        let last = name.rsplit('/').next().unwrap_or_default();
        let own = rule.id.iter().any(|field| field == last) && name.matches('/').count() <= 1;
        !own || Node::read(value.as_bytes())
            .ok()
            .and_then(|value| value.id())
            .as_deref()
            != Some(id)
    });
}

fn is_json_body(media: Option<&str>, body: &[u8]) -> bool {
    match media {
        Some(media) => is_json(media),
        None => matches!(body.trim_ascii_start().first(), Some(b'{' | b'[')),
    }
}

/// What the body of such an update is: by its own type, then as the profile says.
fn form(rule: &Rule, method: &str, media: Option<&str>) -> UpdateForm {
    let media = media.unwrap_or_default();
    if is_json_patch(media) {
        return UpdateForm::JsonPatch;
    }
    if is_merge_patch(media) {
        return UpdateForm::Merge;
    }
    let plain = |form: UpdateForm| form != UpdateForm::JsonPatch;
    let said = rule
        .updates
        .iter()
        .find(|way| way.method == method && plain(way.form));
    match (said, method) {
        (Some(way), _) => way.form,
        (None, "PUT") => UpdateForm::Whole,
        (None, _) => UpdateForm::Members,
    }
}

fn whole(root: &Node<'_>) -> Written {
    let mut fields = Fields::new();
    take_apart(root, "", &mut fields);
    Written {
        fields,
        replaces: vec![String::new()],
        opaque: None,
    }
}

/// RFC 7396.
fn merged(root: &Node<'_>, desired: &Fields) -> Written {
    let mut written = Written::default();
    take_apart(root, "", &mut written.fields);
    for (name, value) in &mut written.fields {
        if value == "null" {
            UNSET.clone_into(value);
            written.replaces.push(name.clone());
        }
    }
    // An empty object changes nothing of an object that is there.
    let there = |name: &str| first_below(desired, name).is_some();
    written
        .fields
        .retain(|name, value| value != "{}" || !there(name));
    written
}

fn each_member(root: &Node<'_>, rule: &Rule, kind: &str) -> Written {
    let mut written = Written::default();
    let (prefix, inner) = match wrap_of(root, rule, kind) {
        Some((name, inner)) => (below("", name), inner),
        None => (String::new(), root),
    };
    take_apart(inner, &prefix, &mut written.fields);
    for (key, _) in inner.members() {
        written
            .replaces
            .push(below(&prefix, &crate::json::decode(key)));
    }
    written
}

/// The wrapping member of a body, if it has one.
pub(crate) fn wrap_of<'n, 'a>(
    root: &'n Node<'a>,
    rule: &Rule,
    kind: &str,
) -> Option<(&'n str, &'n Node<'a>)> {
    let [(name, inner)] = root.members() else {
        return None;
    };
    let wraps = match rule.wrap.as_deref() {
        Some(wrap) => wrap == *name,
        None => kinds_agree(name, kind),
    };
    (wraps && inner.is_object()).then_some((*name, inner))
}

impl Rule {
    /// The wrapping member of fields, with its slash, if all of them have it.
    pub(crate) fn prefix_of(&self, fields: &Fields, kind: &str) -> String {
        let mut names = fields
            .iter()
            .filter(|(name, value)| !is_sub(name) && *value != UNSET);
        let first = names.next().and_then(|(name, _)| name.split_once('/'));
        let Some((first, _)) = first else {
            return String::new();
        };
        let wraps = match self.wrap.as_deref() {
            Some(wrap) => wrap == first,
            None => kinds_agree(first, kind),
        };
        let prefix = format!("{first}/");
        let all = fields
            .iter()
            .all(|(name, value)| is_sub(name) || value == UNSET || name.starts_with(&prefix));
        if wraps && all { prefix } else { String::new() }
    }
}
