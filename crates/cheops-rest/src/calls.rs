//! Calls that write given fields: to make a resource again, to bring one to what clients wrote.

use std::collections::BTreeSet;

use cheops_model::profile::{Chosen, CreateBy, UpdateForm};

use crate::api::Api;
use crate::fields::{Fields, UNSET};
use crate::json::{Node, quoted};
use crate::rules::Rule;
use crate::tree::{below, is_sub, is_within, members, put_together};

/// A request to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// In capitals.
    pub method: String,
    /// Path and query, in the form (meta-id or local) that the arguments had.
    pub target: String,
    /// Besides those every call has.
    pub headers: Vec<(String, String)>,
    /// What to send.
    pub body: CallBody,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallBody {
    /// Nothing.
    None,
    /// JSON; the content type is among the headers.
    Json(Vec<u8>),
    /// What the caller keeps under the reference that is the field's value. Its content type is the caller's
    /// to know.
    Opaque(String),
}

/// One way to write fields, as a profile names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// PUT, PATCH or POST.
    pub method: String,
    /// The content type.
    pub media: String,
    /// What the body is.
    pub form: UpdateForm,
}

/// A field that this API cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field `{0}` cannot be written by itself")]
pub struct CannotWrite(pub String);

impl Api {
    /// The ways to change a resource of that kind, the best first. If a service answers 405, 415 or 501 to
    /// one, nothing was done and the next may be tried. None: it cannot be changed.
    pub fn updates(&self, kind: &str) -> &[Update] {
        &self.rule(kind).updates
    }

    /// The calls that write `changed` ([`UNSET`] takes a field away, and so does a name in `unset`) to the
    /// item at that path. `desired` is everything clients wrote, `changed` applied: a way that writes
    /// whole members, or the whole, needs it. Fields that can only be given while creating are left alone.
    pub fn update_calls(
        &self,
        kind: &str,
        way: &Update,
        item: &str,
        changed: &Fields,
        unset: &[String],
        desired: &Fields,
    ) -> Result<Vec<Call>, CannotWrite> {
        let rule = self.rule(kind);
        let mut calls = Vec::new();
        let gone = |name: &str| unset.iter().any(|each| each == name);
        let wanted: Fields = desired
            .iter()
            .chain(changed)
            .filter(|(name, _)| !gone(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if let Some(opaque) = changed.get("").filter(|value| is_opaque(value)) {
            calls.push(opaque_call("PUT", item.to_owned(), opaque));
        } else if let Some(body) = self.update_body(rule, kind, way.form, changed, unset, &wanted) {
            calls.push(Call {
                method: way.method.clone(),
                target: item.to_owned(),
                headers: vec![content_type(&way.media)],
                body: CallBody::Json(body.into_bytes()),
            });
        }
        for name in changed.keys().chain(unset).filter(|name| is_sub(name)) {
            match changed.get(name) {
                Some(value) if value != UNSET && !gone(name) => {
                    calls.push(sub_call(item, name, value))
                }
                _ => return Err(CannotWrite(name.clone())),
            }
        }
        Ok(calls)
    }

    /// Nothing where nothing is left to write.
    fn update_body(
        &self,
        rule: &Rule,
        kind: &str,
        form: UpdateForm,
        changed: &Fields,
        unset: &[String],
        wanted: &Fields,
    ) -> Option<String> {
        let all: Fields = wanted
            .iter()
            .chain(changed)
            .map(|(name, _)| (name.clone(), "0".to_owned()))
            .collect();
        let prefix = rule.prefix_of(&all, kind);
        let fixed = |name: &str| {
            let first = members(name.strip_prefix(&prefix).unwrap_or(name)).next();
            first.is_some_and(|member| {
                rule.fixed.has(&member) || self.own.has(&member) || rule.own.has(&member)
            })
        };
        let touched = changed.keys().chain(unset);
        let touched: BTreeSet<&str> = touched
            .map(String::as_str)
            .filter(|name| !is_sub(name) && !fixed(name))
            .collect();
        if touched.is_empty() {
            return None;
        }
        let value_of = |name: &str| {
            wanted
                .get(name)
                .map(String::as_str)
                .filter(|value| *value != UNSET)
        };
        Some(match form {
            UpdateForm::Whole => put_together(pairs(wanted)),
            UpdateForm::Merge => {
                let written = touched
                    .iter()
                    .map(|name| (*name, value_of(name).unwrap_or("null")));
                put_together(written)
            }
            UpdateForm::Members => {
                let tops = tops(&touched, &prefix);
                let mut written: Vec<(&str, &str)> = Vec::new();
                for top in &tops {
                    let within = pairs(wanted)
                        .filter(|(name, value)| is_within(name, top) && *value != UNSET);
                    let before = written.len();
                    written.extend(within);
                    if written.len() == before {
                        written.push((top, "null"));
                    }
                }
                put_together(written)
            }
            UpdateForm::JsonPatch => {
                let operations = tops(&touched, &prefix)
                    .into_iter()
                    .map(|top| patch_operation(&top, wanted));
                format!("[{}]", operations.collect::<Vec<_>>().join(","))
            }
        })
    }

    /// The calls that make a resource with these fields: the create, then one for each field below it, whose
    /// targets have `{id}` for the id that the first one's answer names. `chosen` is the id it has to have,
    /// `operation` our mark, put where the profile says.
    pub fn create_calls(
        &self,
        kind: &str,
        collection: &str,
        fields: &Fields,
        chosen: Option<&str>,
        operation: Option<&str>,
    ) -> Result<Vec<Call>, CannotWrite> {
        let rule = self.rule(kind);
        let mut headers = Vec::new();
        let (method, target) = match (rule.create, chosen) {
            (CreateBy::Put | CreateBy::Either, Some(id)) => {
                // What exists already is never overwritten.
                headers.push(("if-none-match".to_owned(), "*".to_owned()));
                ("PUT", rule.item(collection, id))
            }
            (CreateBy::Post | CreateBy::Either, _) => ("POST", collection.to_owned()),
            (CreateBy::Put, None) => return Err(CannotWrite("id".to_owned())),
            (CreateBy::Never, _) => return Err(CannotWrite(String::new())),
        };
        let create = match fields.get("").filter(|value| is_opaque(value)) {
            Some(reference) => Call {
                headers,
                ..opaque_call(method, target, reference)
            },
            None => {
                let mut body = put_together(pairs(fields));
                if let (Some(id), "POST") = (chosen, method) {
                    body = with_chosen(rule, kind, fields, body, id);
                }
                if let Some(operation) = operation {
                    body = String::from_utf8(self.marked(kind, body.as_bytes(), operation))
                        .unwrap_or(body);
                }
                headers.push(content_type("application/json"));
                Call {
                    method: method.to_owned(),
                    target,
                    headers,
                    body: CallBody::Json(body.into_bytes()),
                }
            }
        };
        let subs = fields
            .iter()
            .filter(|(name, value)| is_sub(name) && *value != UNSET);
        let subs = subs.map(|(name, value)| sub_call(&format!("{collection}/{{id}}"), name, value));
        Ok(std::iter::once(create).chain(subs).collect())
    }
}

fn pairs(fields: &Fields) -> impl Iterator<Item = (&str, &str)> {
    fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
}

/// The members of the resource itself in which these fields are.
fn tops(touched: &BTreeSet<&str>, prefix: &str) -> BTreeSet<String> {
    let top = |name: &&str| {
        let inner = name.strip_prefix(prefix).unwrap_or(name);
        let end = name.len() - inner.len() + inner.find('/').unwrap_or(inner.len());
        name[..end].to_owned()
    };
    touched.iter().map(top).collect()
}

/// `add` also replaces (RFC 6902, 4.1).
fn patch_operation(top: &str, wanted: &Fields) -> String {
    let within = pairs(wanted).filter(|(name, value)| is_within(name, top) && *value != UNSET);
    let inner: Vec<(&str, &str)> = within
        .map(|(name, value)| (name[top.len()..].trim_start_matches('/'), value))
        .collect();
    let path = quoted(&format!("/{top}"));
    match inner.is_empty() {
        true => format!("{{\"op\":\"remove\",\"path\":{path}}}"),
        false => format!(
            "{{\"op\":\"add\",\"path\":{path},\"value\":{}}}",
            put_together(inner)
        ),
    }
}

/// Puts the chosen id in the body, if it is not there.
fn with_chosen(rule: &Rule, kind: &str, fields: &Fields, body: String, id: &str) -> String {
    let (true, Some(member)) = (rule.chosen != Chosen::Never, rule.id.first()) else {
        return body;
    };
    let prefix = rule.prefix_of(fields, kind);
    let name = format!("{prefix}{}", below("", member));
    if fields.contains_key(&name) {
        return body;
    }
    let id = quoted(id);
    put_together(pairs(fields).chain([(name.as_str(), id.as_str())]))
}

fn content_type(media: &str) -> (String, String) {
    ("content-type".to_owned(), media.to_owned())
}

/// No JSON text, so a reference.
pub(crate) fn is_opaque(value: &str) -> bool {
    value != UNSET && Node::read(value.as_bytes()).is_err()
}

fn opaque_call(method: &str, target: String, reference: &str) -> Call {
    Call {
        method: method.to_owned(),
        target,
        headers: Vec::new(),
        body: CallBody::Opaque(reference.to_owned()),
    }
}

fn sub_call(item: &str, name: &str, value: &str) -> Call {
    let target = format!("{item}{name}");
    match is_opaque(value) {
        true => opaque_call("PUT", target, value),
        false => Call {
            method: "PUT".to_owned(),
            target,
            headers: vec![content_type("application/json")],
            body: CallBody::Json(value.as_bytes().to_vec()),
        },
    }
}
