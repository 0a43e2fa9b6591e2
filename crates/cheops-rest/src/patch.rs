//! JSON patches (RFC 6902) as the fields they write.

use crate::fields::{FieldFault, Fields, UNSET, Written};
use crate::json::Node;
use crate::tree::{is_within, put_together, take_apart};

/// Reads a list of operations over what was written before.
pub(crate) fn read(root: &Node<'_>, desired: &Fields) -> Result<Written, FieldFault> {
    let Some(operations) = root.items() else {
        return Err(FieldFault::Unclear(
            "a patch is a list of operations".to_owned(),
        ));
    };
    let mut now = desired.clone();
    let mut written = Written::default();
    for operation in operations {
        let text = |name: &str| {
            operation
                .get(name)
                .and_then(Node::scalar)
                .unwrap_or_default()
        };
        let path = name_of(&text("path"))?;
        match text("op").as_ref() {
            word @ ("add" | "replace") => {
                let Some(value) = operation.get("value") else {
                    return Err(FieldFault::Unclear(format!("nothing to put at `{path}`")));
                };
                if word == "replace" && element(&path, &now).is_some() {
                    take(&path, &mut now, &mut written)?;
                }
                put(&path, value.raw, &mut now, &mut written)?;
            }
            "remove" => take(&path, &mut now, &mut written)?,
            "copy" | "move" => {
                let from = name_of(&text("from"))?;
                let value = value_at(&from, &now)?;
                if text("op") == "move" {
                    take(&from, &mut now, &mut written)?;
                }
                put(&path, &value, &mut now, &mut written)?;
            }
            "test" => (),
            other => {
                return Err(FieldFault::Unclear(format!(
                    "{other:?} is no patch operation"
                )));
            }
        }
    }
    Ok(written)
}

/// `/a/b` → `a/b`; both escape alike, but for names that are empty.
fn name_of(pointer: &str) -> Result<String, FieldFault> {
    match pointer.strip_prefix('/') {
        Some(name) if !name.is_empty() => {
            let parts = name
                .split('/')
                .map(|part| if part.is_empty() { "~2" } else { part });
            Ok(parts.collect::<Vec<_>>().join("/"))
        }
        _ => Err(FieldFault::Unclear(format!("{pointer:?} names no member"))),
    }
}

fn put(path: &str, raw: &str, now: &mut Fields, written: &mut Written) -> Result<(), FieldFault> {
    if let Some((list, at)) = element(path, now) {
        let changed = with_element(&now[&list], at, Some(raw)).ok_or_else(|| beyond(path))?;
        return put(&list, &changed, now, written);
    }
    if path.ends_with("/-") {
        return Err(beyond(path));
    }
    clear(path, now, written);
    let value = Node::read(raw.as_bytes())?;
    let mut fields = Fields::new();
    take_apart(&value, path, &mut fields);
    now.extend(fields.clone());
    written.fields.extend(fields);
    written.replaces.push(path.to_owned());
    Ok(())
}

fn take(path: &str, now: &mut Fields, written: &mut Written) -> Result<(), FieldFault> {
    if let Some((list, at)) = element(path, now) {
        let changed = with_element(&now[&list], at, None).ok_or_else(|| beyond(path))?;
        return put(&list, &changed, now, written);
    }
    clear(path, now, written);
    written.fields.insert(path.to_owned(), UNSET.to_owned());
    written.replaces.push(path.to_owned());
    Ok(())
}

fn clear(path: &str, now: &mut Fields, written: &mut Written) {
    now.retain(|field, _| !is_within(field, path));
    written.fields.retain(|field, _| !is_within(field, path));
}

fn beyond(path: &str) -> FieldFault {
    FieldFault::Unclear(format!(
        "no client wrote the list at `{path}`; write it as a whole"
    ))
}

/// The list and the place in it, if the path goes into one that a client wrote.
fn element<'p>(path: &'p str, now: &Fields) -> Option<(String, &'p str)> {
    let (list, at) = path.rsplit_once('/')?;
    let is_list = now.get(list).is_some_and(|raw| raw.starts_with('['));
    is_list.then(|| (list.to_owned(), at))
}

/// The list with `new` at that place, or without what is there.
fn with_element(list: &str, at: &str, new: Option<&str>) -> Option<String> {
    let list = Node::read(list.as_bytes()).ok()?;
    let mut items: Vec<&str> = list.items()?.iter().map(|item| item.raw).collect();
    match (at, new) {
        ("-", Some(new)) => items.push(new),
        (at, new) => {
            let at: usize = at.parse().ok().filter(|at| *at <= items.len())?;
            match new {
                Some(new) => items.insert(at, new),
                None if at < items.len() => drop(items.remove(at)),
                None => return None,
            }
        }
    }
    Some(format!("[{}]", items.join(",")))
}

/// What a client wrote there.
fn value_at(path: &str, now: &Fields) -> Result<String, FieldFault> {
    let within = now
        .iter()
        .filter(|(field, value)| is_within(field, path) && *value != UNSET);
    let inner: Vec<(&str, &str)> = within
        .map(|(field, value)| (field[path.len()..].trim_start_matches('/'), value.as_str()))
        .collect();
    if inner.is_empty() {
        return Err(FieldFault::Unclear(format!("no client wrote `{path}`")));
    }
    Ok(put_together(inner))
}
