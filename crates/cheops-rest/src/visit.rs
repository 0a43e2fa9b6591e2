//! A walk over a JSON body that stops wherever an id may stand.

use std::ops::Range;

use cheops_model::profile::Reach;

use crate::api::Api;
use crate::id::{Id, Place, is_unmistakable, kinds_agree};
use crate::json::{Node, NotJson, Of, Scanner, decode, decode_with_offsets, is_integer};
use crate::limits::DEPTH_MAX;
use crate::rewrite::Side;
use crate::rules::Rule;
use crate::splice::Dress;
use crate::url::is_url;

/// Members that say nothing of what they hold.
const WRAPS: &[&str] = &[
    "items",
    "item",
    "data",
    "results",
    "result",
    "records",
    "record",
    "entries",
    "entry",
    "values",
    "value",
    "list",
    "objects",
    "object",
    "resources",
    "resource",
    "content",
    "metadata",
    "_embedded",
];

pub(crate) struct Walk<'a, F> {
    api: &'a Api,
    rule: Option<&'a Rule>,
    side: Side,
    scanner: Scanner<'a>,
    visit: F,
}

/// What a value is, by the member it stands in.
#[derive(Clone, Copy)]
struct Role<'a> {
    is: Is,
    /// Of the id, if it is one; of objects, if it holds some.
    kind: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Nothing,
    Own,
    Ref,
    Link,
}

/// What may be the id of an object.
struct Candidate<'a> {
    raw: &'a str,
    start: usize,
    dress: Dress,
}

impl<'a, F: FnMut(Id<'_>, Range<usize>, Dress)> Walk<'a, F> {
    pub(crate) fn new(
        api: &'a Api,
        kind: Option<&'a str>,
        side: Side,
        text: &'a str,
        visit: F,
    ) -> Walk<'a, F> {
        Walk {
            api,
            rule: kind.map(|kind| api.rule(kind)),
            side,
            scanner: Scanner::new(text),
            visit,
        }
    }

    /// A whole body.
    pub(crate) fn body(mut self, kind: Option<&'a str>) -> Result<(), NotJson> {
        self.value(
            Role {
                is: Is::Nothing,
                kind,
            },
            0,
        )?;
        self.scanner.end()
    }

    /// A list of patch operations: a value is what the path beside it says.
    pub(crate) fn patch(mut self, kind: Option<&'a str>) -> Result<(), NotJson> {
        if self.scanner.peek() != b'[' {
            return self.body(kind);
        }
        let whole = Node::read(self.scanner.text.as_bytes())?;
        for operation in whole.items().unwrap_or_default() {
            let role = self.patched(operation.get("path"), kind);
            for (key, value) in operation.members() {
                if decode(key) == "value" {
                    self.scanner.at = value.start;
                    self.value(role, 1)?;
                }
            }
        }
        Ok(())
    }

    /// What the value at that path of a patch is. A name with escapes is none of ours.
    fn patched(&self, path: Option<&Node<'a>>, kind: Option<&'a str>) -> Role<'a> {
        let Some(Of::Text(path)) = path.map(|path| &path.of) else {
            return Role {
                is: Is::Nothing,
                kind,
            };
        };
        let named = |part: &&str| *part != "-" && part.parse::<usize>().is_err();
        let last = path.rsplit('/').find(named).unwrap_or_default();
        match self.own_rank(last, kind) {
            Some(_) => Role { is: Is::Own, kind },
            None => self.member(
                last,
                Role {
                    is: Is::Nothing,
                    kind,
                },
            ),
        }
    }

    fn value(&mut self, role: Role<'a>, depth: usize) -> Result<(), NotJson> {
        if depth > DEPTH_MAX {
            return self.scanner.fault();
        }
        match self.scanner.peek() {
            b'{' => self.object(role, depth),
            b'[' => self.list(role, depth),
            b'"' => {
                let start = self.scanner.at + 1;
                let raw = self.scanner.string()?;
                self.text(raw, start, role);
                Ok(())
            }
            _ => {
                let start = self.scanner.at;
                let raw = self.scanner.word()?;
                if matches!(role.is, Is::Own | Is::Ref) && is_integer(raw) {
                    self.show(raw, start, role, Dress::Integer);
                }
                Ok(())
            }
        }
    }

    fn list(&mut self, role: Role<'a>, depth: usize) -> Result<(), NotJson> {
        self.scanner.take(b'[');
        if self.scanner.take_end(b']') {
            return Ok(());
        }
        loop {
            self.value(role, depth + 1)?;
            self.scanner.blanks();
            if !self.scanner.take(b',') {
                return self.scanner.close(b']');
            }
        }
    }

    fn object(&mut self, role: Role<'a>, depth: usize) -> Result<(), NotJson> {
        let mut best = usize::MAX;
        let mut first: Option<Candidate<'a>> = None;
        let mut others: Vec<Candidate<'a>> = Vec::new();
        self.scanner.take(b'{');
        if self.scanner.take_end(b'}') {
            return Ok(());
        }
        loop {
            let raw_key = self.scanner.key()?;
            match self.own_rank(raw_key, role.kind) {
                Some(rank) if matches!(self.scanner.peek(), b'"' | b'0'..=b'9') => {
                    let candidate = self.candidate()?;
                    if rank < best {
                        best = rank;
                        others.clear();
                        first = Some(candidate);
                    } else if rank == best {
                        others.push(candidate);
                    }
                }
                Some(_) | None => {
                    let inner = self.member(raw_key, role);
                    self.value(inner, depth + 1)?;
                }
            }
            self.scanner.blanks();
            if !self.scanner.take(b',') {
                break;
            }
        }
        self.scanner.close(b'}')?;
        for candidate in first.into_iter().chain(others) {
            self.own(&candidate, role.kind);
        }
        Ok(())
    }

    /// How good a name this is for the member that holds the object's own id.
    fn own_rank(&self, raw_key: &str, kind: Option<&str>) -> Option<usize> {
        let fields = match (self.rule, kind) {
            (Some(rule), Some(kind)) if kinds_agree(kind, &rule.kind) => &rule.id,
            _ => &self.api.ids.fields,
        };
        let rank = fields.iter().position(|field| field == raw_key)?;
        // Where names are ids, clients choose them, and they are the same everywhere.
        (self.side == Side::Answer || raw_key != "name").then_some(rank)
    }

    fn candidate(&mut self) -> Result<Candidate<'a>, NotJson> {
        let start = self.scanner.at;
        if self.scanner.peek() == b'"' {
            let raw = self.scanner.string()?;
            return Ok(Candidate {
                raw,
                start: start + 1,
                dress: Dress::Text,
            });
        }
        let raw = self.scanner.word()?;
        Ok(Candidate {
            raw,
            start,
            dress: Dress::Integer,
        })
    }

    fn own(&mut self, candidate: &Candidate<'a>, kind: Option<&'a str>) {
        let role = Role { is: Is::Own, kind };
        match candidate.dress {
            Dress::Text => self.text(candidate.raw, candidate.start, role),
            _ if is_integer(candidate.raw) => {
                self.show(candidate.raw, candidate.start, role, Dress::Integer)
            }
            _ => (),
        }
    }

    fn member(&self, raw_key: &'a str, outer: Role<'a>) -> Role<'a> {
        if raw_key.contains('\\') {
            let is = role(self.api, self.rule, &decode(raw_key), None).is;
            return Role { is, kind: None };
        }
        let role = role(self.api, self.rule, raw_key, outer.kind);
        // What is below `links` is links, whatever it is called.
        match (role.is, outer.is) {
            (Is::Nothing, Is::Link) => Role {
                is: Is::Link,
                ..role
            },
            _ => role,
        }
    }

    fn text(&mut self, raw: &str, start: usize, role: Role<'_>) {
        match role.is {
            Is::Own | Is::Ref if !has_slash(raw) => self.show(raw, start, role, Dress::Text),
            Is::Own | Is::Ref | Is::Link if has_slash(raw) || raw.starts_with('?') => {
                self.link(raw, start, role)
            }
            Is::Own | Is::Ref | Is::Link | Is::Nothing => {
                if self.api.ids.reach == Reach::Unmistakable && is_unmistakable(raw) {
                    let id = Id {
                        text: raw.into(),
                        kind: None,
                        place: Place::Text,
                    };
                    (self.visit)(id, start..start + raw.len(), Dress::Text);
                }
            }
        }
    }

    fn show(&mut self, raw: &str, start: usize, role: Role<'_>, dress: Dress) {
        let text = if dress == Dress::Text {
            decode(raw)
        } else {
            raw.into()
        };
        let place = if role.is == Is::Own {
            Place::Own
        } else {
            Place::Ref
        };
        if !text.is_empty() {
            (self.visit)(
                Id {
                    text,
                    kind: role.kind,
                    place,
                },
                start..start + raw.len(),
                dress,
            );
        }
    }

    /// A URL; or an id that has a slash in it.
    fn link(&mut self, raw: &str, start: usize, role: Role<'_>) {
        let visit = &mut self.visit;
        let (url, offsets) = match raw.contains('\\') {
            true => {
                let (url, offsets) = decode_with_offsets(raw);
                (std::borrow::Cow::Owned(url), Some(offsets))
            }
            false => (std::borrow::Cow::Borrowed(raw), None),
        };
        if role.is != Is::Link && !is_url(&url) {
            let place = if role.is == Is::Own {
                Place::Own
            } else {
                Place::Ref
            };
            let id = Id {
                text: url,
                kind: role.kind,
                place,
            };
            return visit(id, start..start + raw.len(), Dress::Text);
        }
        self.api.url_ids(&url, Place::Link, |id, range, dress| {
            let range = match &offsets {
                Some(offsets) => offsets[range.start]..offsets[range.end],
                None => range,
            };
            visit(id, start + range.start..start + range.end, dress);
        });
    }
}

fn has_slash(raw: &str) -> bool {
    raw.bytes().any(|byte| byte == b'/')
}

fn role<'n>(
    api: &'n Api,
    rule: Option<&'n Rule>,
    key: &'n str,
    outer: Option<&'n str>,
) -> Role<'n> {
    if let Some(kind) = api.ids.refs.kind(key, outer) {
        return Role { is: Is::Ref, kind };
    }
    let wrap = rule
        .is_some_and(|rule| rule.wrap.as_deref() == Some(key) || rule.list.as_deref() == Some(key));
    let kind = if wrap || WRAPS.contains(&key) {
        outer
    } else {
        Some(key)
    };
    let is = if api.ids.links.has(key) {
        Is::Link
    } else {
        Is::Nothing
    };
    Role { is, kind }
}
