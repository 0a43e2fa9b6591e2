//! Was a create done? The question to ask the service, and how its answers are read.

use std::borrow::Cow;

use cheops_model::profile::{Chosen, MatchRule};

use crate::api::Api;
use crate::calls::is_opaque;
use crate::created::Answer;
use crate::fields::{Fields, UNSET};
use crate::json::{Node, Of};
use crate::limits::PAGES_MAX;
use crate::listing::{next_page, shows_less_than_all};
use crate::rules::Rule;
use crate::tree::{is_sub, members};
use crate::url::percent_encode_into;

/// How doubt about a create is settled. As in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtBy {
    /// By our operation id in the resource.
    Mark,
    /// By what it has.
    Match,
    /// Not at all.
    Nothing,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is there, under this local id.
    Ours(String),
    /// It is not.
    None,
    /// More than one may be it, or there are more than can be looked at.
    Several,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// GET this, and hand its answer in.
    Ask(String),
    /// The answer says nothing. Ask the same later.
    AskAgain,
    /// That is all.
    Done(Found),
}

/// A search under way. Answers are handed in one by one, in the same form as the fields.
#[derive(Clone, Debug)]
pub struct Search {
    ask: String,
    kind: String,
    wanted: Wanted,
    found: Found,
    /// How many items were shown so far.
    shown: usize,
    pages: usize,
}

#[derive(Clone, Debug)]
enum Wanted {
    /// The members to it, and what it says.
    Mark(Vec<String>, String),
    /// The id it was to have.
    Id(String),
    /// Members, each with the JSON it has to have.
    Fields(Vec<(Vec<String>, String)>),
    /// What cannot be looked for.
    Nothing,
}

impl Api {
    /// How doubt about a create of that kind is settled.
    pub fn doubt_by(&self, kind: &str) -> DoubtBy {
        let rule = self.rule(kind);
        match (&rule.mark, &rule.matching) {
            _ if rule.chosen != Chosen::Never => DoubtBy::Mark,
            (Some(_), _) => DoubtBy::Mark,
            (None, Some(rule)) if !rule.allowed => DoubtBy::Nothing,
            (None, _) => DoubtBy::Match,
        }
    }

    /// Begins to look for a create with these fields, made by this operation. `chosen` is the id it was to
    /// have, if one was chosen: where clients may, that is a mark as good as ours.
    pub fn search(
        &self,
        how: DoubtBy,
        kind: &str,
        collection: &str,
        fields: &Fields,
        chosen: Option<&str>,
        operation: &str,
    ) -> Search {
        let rule = self.rule(kind);
        let expected = self.expected(rule, kind, fields);
        let says = rule
            .mark
            .as_ref()
            .map(|mark| mark.value.replace("{operation}", operation));
        let fill = |find: Option<&str>| fill(find?, says.as_deref(), &expected);
        let (wanted, ask) = match (how, chosen, &rule.mark) {
            (DoubtBy::Mark, Some(id), _) => {
                let item = rule.item(collection, id);
                (Wanted::Id(id.to_owned()), Some(item))
            }
            (DoubtBy::Mark, None, Some(mark)) => {
                let prefix = rule.prefix_of(fields, kind);
                let member = mark.member.strip_prefix(&prefix).unwrap_or(&mark.member);
                let path = members(member).collect();
                (
                    Wanted::Mark(path, says.clone().unwrap_or_default()),
                    fill(mark.find.as_deref()),
                )
            }
            (DoubtBy::Match, _, _) if !expected.is_empty() => {
                let find = rule.matching.as_ref().and_then(|rule| rule.find.as_deref());
                let ask = fill(find);
                (Wanted::Fields(expected), ask)
            }
            _ => (Wanted::Nothing, None),
        };
        let ask = match ask {
            Some(query) if query.starts_with('?') => format!("{collection}{query}"),
            Some(target) => target,
            None => collection.to_owned(),
        };
        let kind = kind.to_owned();
        Search {
            ask,
            kind,
            wanted,
            found: Found::None,
            shown: 0,
            pages: 0,
        }
    }

    /// True if a resource, as GET of it answers, still has all of these fields.
    pub fn still_has(&self, kind: &str, body: &[u8], fields: &Fields) -> bool {
        let rule = self.rule(kind);
        let Ok(root) = Node::read(body) else {
            return false;
        };
        let resource = rule.unwrapped(&root);
        self.expected(rule, kind, fields)
            .iter()
            .all(|(path, raw)| has(resource, path, raw))
    }

    /// Of these fields, those that a resource, as GET of it answers, does not show as they are. What it never
    /// shows counts as different.
    pub fn differing(&self, kind: &str, body: &[u8], fields: &Fields) -> Fields {
        let rule = self.rule(kind);
        let Ok(root) = Node::read(body) else {
            return fields.clone();
        };
        let (resource, expected) = (rule.unwrapped(&root), self.expected(rule, kind, fields));
        let prefix = rule.prefix_of(fields, kind);
        let shows = |name: &String| {
            let path: Vec<String> = members(name.strip_prefix(&prefix).unwrap_or(name)).collect();
            let mut shown = expected.iter().filter(|(other, _)| *other == path);
            !is_sub(name) && shown.any(|(path, raw)| has(resource, path, raw))
        };
        let differ = fields.iter().filter(|(name, _)| !shows(name));
        differ.map(|(n, v)| (n.clone(), v.clone())).collect()
    }

    /// What the resource has to show of these fields, below the wrapping member.
    fn expected(&self, rule: &Rule, kind: &str, fields: &Fields) -> Vec<(Vec<String>, String)> {
        let prefix = rule.prefix_of(fields, kind);
        let ignored = |member: &String| {
            let named = |rule: &MatchRule| rule.ignore.contains(member);
            self.is_version(member) || rule.matching.as_ref().is_some_and(named)
        };
        let shown = fields
            .iter()
            .filter(|(name, value)| !is_sub(name) && *value != UNSET && !is_opaque(value));
        let paths = shown.map(|(name, value)| {
            let path: Vec<String> = members(name.strip_prefix(&prefix).unwrap_or(name)).collect();
            (path, value.clone())
        });
        paths
            .filter(|(path, _)| !path.iter().any(ignored))
            .collect()
    }
}

/// A template with its names filled in; nothing if one is not there.
fn fill(template: &str, mark: Option<&str>, fields: &[(Vec<String>, String)]) -> Option<String> {
    let value = |name: &str| -> Option<String> {
        if name == "mark" {
            return mark.map(str::to_owned);
        }
        let (_, raw) = fields.iter().find(|(path, _)| path.join("/") == name)?;
        let node = Node::read(raw.as_bytes()).ok()?;
        node.scalar().map(Cow::into_owned)
    };
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        out.push_str(before);
        percent_encode_into(&value(name)?, &mut out);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

impl Search {
    /// What to GET first.
    pub fn ask(&self) -> &str {
        &self.ask
    }

    /// Reads an answer. `mapped`: is this id one of a replicant already?
    pub fn read(
        &mut self,
        api: &Api,
        status: u16,
        answer: &Answer<'_>,
        mapped: impl Fn(&str) -> bool,
    ) -> Step {
        match (&self.wanted, status) {
            (Wanted::Id(id), 200..=299) => return Step::Done(Found::Ours(id.clone())),
            (Wanted::Id(_), 404 | 410) => return Step::Done(Found::None),
            (Wanted::Nothing, _) => return Step::Done(Found::Several),
            // 204: there is nothing to list.
            (_, 204) => return Step::Done(self.found.clone()),
            (_, 200) => (),
            (_, _) => return Step::AskAgain,
        }
        let rule = api.rule(&self.kind);
        let Ok(root) = Node::read(answer.body) else {
            return Step::Done(Found::Several);
        };
        let Some(items) = rule.list_of(&root, &self.kind).and_then(Node::items) else {
            return Step::Done(Found::Several);
        };
        for item in items {
            self.look_at(rule, item, &mapped);
        }
        self.shown += items.len();
        self.pages += 1;
        match next_page(&root, answer.header("link")) {
            _ if self.found == Found::Several => Step::Done(Found::Several),
            Some(_) if self.pages >= PAGES_MAX || items.is_empty() => Step::Done(Found::Several),
            Some(next) => Step::Ask(self.joined(&next)),
            // What is not shown may be it.
            None if shows_less_than_all(&root, self.shown) => Step::Done(Found::Several),
            None => Step::Done(self.found.clone()),
        }
    }

    fn joined(&self, next: &str) -> String {
        match next.starts_with('?') {
            true => format!("{}{next}", self.ask.split('?').next().unwrap_or_default()),
            false => next.to_owned(),
        }
    }

    fn look_at(&mut self, rule: &Rule, item: &Node<'_>, mapped: impl Fn(&str) -> bool) {
        let resource = rule.unwrapped(item);
        let is_it = match &self.wanted {
            Wanted::Mark(path, says) => has_mark(resource, path, says),
            Wanted::Fields(fields) => fields.iter().all(|(path, raw)| has(resource, path, raw)),
            Wanted::Id(_) | Wanted::Nothing => false,
        };
        if !is_it {
            return;
        }
        let Some(id) = rule.own_id(resource) else {
            self.found = Found::Several;
            return;
        };
        if matches!(self.wanted, Wanted::Fields(_)) && mapped(&id) {
            return;
        }
        self.found = match &self.found {
            Found::None => Found::Ours(id),
            Found::Ours(same) if *same == id => return,
            Found::Ours(_) | Found::Several => Found::Several,
        };
    }
}

/// True if the resource has this there. What was written as `null` may be missing.
fn has(resource: &Node<'_>, path: &[String], raw: &str) -> bool {
    let mut node = resource;
    for member in path {
        match node.get(member) {
            Some(inner) => node = inner,
            None => return raw == "null",
        }
    }
    Node::read(raw.as_bytes()).is_ok_and(|wanted| node.same(&wanted))
}

/// `tags/-`: somewhere in that list.
fn has_mark(resource: &Node<'_>, path: &[String], says: &str) -> bool {
    let says_it =
        |node: &Node<'_>| matches!(node.of, Of::Text(_)) && node.scalar().as_deref() == Some(says);
    let mut node = resource;
    for member in path {
        if member == "-" {
            return node.items().unwrap_or_default().iter().any(says_it);
        }
        match node.get(member) {
            Some(inner) => node = inner,
            None => return false,
        }
    }
    says_it(node)
}
