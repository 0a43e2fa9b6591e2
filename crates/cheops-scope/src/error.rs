//! Errors a person can act on: what is wrong, where, what was expected, what may have been meant.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ast::Span;

/// What went wrong; the words are part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The text is not a scope.
    Syntax,
    /// A site that nobody has heard of.
    UnknownSite,
    /// A service that no site runs.
    UnknownService,
    /// A function that does not exist.
    UnknownFunction,
    /// A service bound twice.
    DuplicateService,
    /// An argument of the wrong kind, out of range, unknown or too many.
    BadArgument,
    /// A function without an argument it needs.
    MissingArgument,
    /// No site has these labels.
    NoMatch,
    /// More text than a scope may have.
    TooLong,
    /// More nesting than a scope may have.
    TooDeep,
    /// More sites in one `&` or `+` than a scope may have.
    TooManySites,
    /// More bindings than a scope may have.
    TooManyBindings,
}

impl ErrorKind {
    /// Every kind, for documents and tests.
    pub const ALL: [ErrorKind; 12] = [
        ErrorKind::Syntax,
        ErrorKind::UnknownSite,
        ErrorKind::UnknownService,
        ErrorKind::UnknownFunction,
        ErrorKind::DuplicateService,
        ErrorKind::BadArgument,
        ErrorKind::MissingArgument,
        ErrorKind::NoMatch,
        ErrorKind::TooLong,
        ErrorKind::TooDeep,
        ErrorKind::TooManySites,
        ErrorKind::TooManyBindings,
    ];

    /// The word of the contract.
    pub fn word(self) -> &'static str {
        match self {
            ErrorKind::Syntax => "syntax",
            ErrorKind::UnknownSite => "unknown-site",
            ErrorKind::UnknownService => "unknown-service",
            ErrorKind::UnknownFunction => "unknown-function",
            ErrorKind::DuplicateService => "duplicate-service",
            ErrorKind::BadArgument => "bad-argument",
            ErrorKind::MissingArgument => "missing-argument",
            ErrorKind::NoMatch => "no-match",
            ErrorKind::TooLong => "too-long",
            ErrorKind::TooDeep => "too-deep",
            ErrorKind::TooManySites => "too-many-sites",
            ErrorKind::TooManyBindings => "too-many-bindings",
        }
    }
}

/// One error. As JSON it is the object of the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeError {
    /// What went wrong.
    #[serde(rename = "type")]
    pub kind: ErrorKind,
    /// One sentence.
    pub title: String,
    /// Byte offsets of the name or argument at fault.
    pub position: Span,
    /// What could stand there.
    pub expected: Vec<String>,
    /// What may have been meant.
    pub suggestion: Option<String>,
}

impl ScopeError {
    pub(crate) fn new(kind: ErrorKind, position: Span, title: impl Into<String>) -> ScopeError {
        ScopeError {
            kind,
            title: title.into(),
            position,
            expected: Vec::new(),
            suggestion: None,
        }
    }

    pub(crate) fn expecting<S: Into<String>>(mut self, what: impl IntoIterator<Item = S>) -> Self {
        self.expected = what.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn suggesting(mut self, what: Option<String>) -> ScopeError {
        self.suggestion = what;
        self
    }
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)
    }
}

impl std::error::Error for ScopeError {}
