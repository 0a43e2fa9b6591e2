//! The tree of a scope, as written: names as typed, nothing looked up.

use cheops_model::{ServiceName, SiteName};
use serde::{Deserialize, Serialize};

/// Byte offsets into the text. Where a thing stands never makes two trees differ.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// From the first byte to one past the last.
    pub fn new(start: usize, end: usize) -> Span {
        Span { start, end }
    }

    /// From the start of this to the end of the other.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start,
            end: other.end,
        }
    }
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

/// A whole scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Its bindings, in the order written.
    pub bindings: Vec<Binding>,
}

/// `service: location`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The service, as typed.
    pub service: ServiceName,
    /// Where its name stands.
    pub span: Span,
    /// Where it runs.
    pub location: Location,
}

/// Where a service runs. Lists hold two members or more, never a list of the same operator:
/// build them with [`Location::first`], [`Location::span_over`] and [`Location::replicate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// One site.
    Site(SiteName, Span),
    /// The site that first received the request.
    Here(Span),
    /// `a; b`.
    First(Vec<Location>),
    /// `a + b`.
    Span(Vec<Location>),
    /// `a & b`.
    Replicate(Vec<Location>),
    /// `function(…)`.
    Call(Call),
}

/// A function and what it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function's name.
    pub function: Box<str>,
    /// Where its name stands.
    pub name_span: Span,
    /// Where the whole call stands.
    pub span: Span,
    /// In the order written.
    pub arguments: Vec<Argument>,
}

/// One argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A location.
    Location(Location),
    /// `key=value`.
    Pair(Pair),
    /// A number or a duration, as typed.
    Literal(Literal),
}

/// `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: Box<str>,
    /// Where the key stands.
    pub key_span: Span,
    /// The value, without quotes.
    pub value: Box<str>,
    /// Where the value stands.
    pub value_span: Span,
}

/// A number or a duration, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Its text.
    pub text: Box<str>,
    /// Where it stands.
    pub span: Span,
}

impl Location {
    /// `a; b; …`, a list in a list made one.
    pub fn first(of: Vec<Location>) -> Location {
        group(of, Location::First, |member| {
            matches!(member, Location::First(_))
        })
    }

    /// `a + b + …`, a list in a list made one.
    pub fn span_over(of: Vec<Location>) -> Location {
        group(of, Location::Span, |member| {
            matches!(member, Location::Span(_))
        })
    }

    /// `a & b & …`, a list in a list made one.
    pub fn replicate(of: Vec<Location>) -> Location {
        group(of, Location::Replicate, |member| {
            matches!(member, Location::Replicate(_))
        })
    }

    /// Where it stands, from its first name to its last.
    pub fn span(&self) -> Span {
        match self {
            Location::Site(_, span) | Location::Here(span) => *span,
            Location::First(of) | Location::Span(of) | Location::Replicate(of) => {
                match (of.first(), of.last()) {
                    (Some(first), Some(last)) => first.span().to(last.span()),
                    _ => Span::default(),
                }
            }
            Location::Call(call) => call.span,
        }
    }
}

/// A list of one is its member; a list of the same operator is opened.
fn group(
    mut of: Vec<Location>,
    make: fn(Vec<Location>) -> Location,
    same: fn(&Location) -> bool,
) -> Location {
    if of.len() == 1 {
        return of.remove(0);
    }
    if !of.iter().any(same) {
        return make(of);
    }
    let mut flat = Vec::with_capacity(of.len());
    for member in of {
        let opens = same(&member);
        match member {
            Location::First(of) | Location::Span(of) | Location::Replicate(of) if opens => {
                flat.extend(of);
            }
            _ => flat.push(member),
        }
    }
    make(flat)
}

impl Argument {
    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            Argument::Location(location) => location.span(),
            Argument::Pair(pair) => pair.key_span.to(pair.value_span),
            Argument::Literal(literal) => literal.span,
        }
    }
}
