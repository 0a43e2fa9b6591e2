//! Tokens → tree, by recursive descent.
//!
//! Hand-written: every error has to name its place and what could stand there, and a scope is read
//! on the path of a request.

use std::borrow::Cow;

use cheops_model::{NameFault, ServiceName, SiteName};

use crate::ast::{Argument, Binding, Call, Literal, Location, Pair, Scope, Span};
use crate::error::{ErrorKind, ScopeError};
use crate::lexer::{Lexer, Token, TokenKind, looks_numeric, unquote};
use crate::limits;

/// Parses a scope: limits and grammar. Functions and names are looked at later.
pub fn parse(text: &str) -> Result<Scope, ScopeError> {
    limits::check(text)?;
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    Parser {
        lexer,
        token,
        calls: 0,
    }
    .scope()
}

/// Parses bytes from outside, which may not even be text.
pub fn parse_bytes(bytes: &[u8]) -> Result<Scope, ScopeError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text),
        Err(_) if bytes.len() > limits::TEXT_BYTES_MAX => {
            Err(limits::too_long(limits::TEXT_BYTES_MAX, bytes.len()))
        }
        Err(error) => {
            let start = error.valid_up_to();
            let end = start + error.error_len().unwrap_or(bytes.len() - start);
            let title = "a scope is UTF-8 text";
            Err(
                ScopeError::new(ErrorKind::Syntax, Span::new(start, end), title)
                    .expecting(["UTF-8 text"]),
            )
        }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    /// How many calls surround the token: inside one, numbers are numbers and not sites.
    calls: usize,
}

type Parsed<T> = Result<T, ScopeError>;

impl Parser<'_> {
    fn scope(mut self) -> Parsed<Scope> {
        let braced = self.take(TokenKind::OpenBrace)?.is_some();
        let close = if braced {
            TokenKind::CloseBrace
        } else {
            TokenKind::End
        };
        let mut bindings = Vec::new();
        if !(braced && self.token.kind == close) {
            bindings.push(self.binding()?);
        }
        while !bindings.is_empty() && self.token.kind != close {
            if self.take(TokenKind::Comma)?.is_none() {
                return Err(self.unexpected(&after_location(close)));
            }
            if self.token.kind != close {
                bindings.push(self.binding()?);
            }
        }
        self.expect(close)?;
        if self.token.kind != TokenKind::End {
            return Err(self.unexpected(&["the end of the scope"]));
        }
        Ok(Scope { bindings })
    }

    fn binding(&mut self) -> Parsed<Binding> {
        let token = self.token;
        let service = match token.kind {
            TokenKind::Word => Cow::Borrowed(self.text(token)),
            TokenKind::Quoted => Cow::Owned(unquote(self.text(token))),
            _ => return Err(self.unexpected(&["a service"])),
        };
        let name = ServiceName::new(&service).map_err(|fault| bad_name(&service, fault, token))?;
        self.advance()?;
        if self.token.kind != TokenKind::Colon {
            return Err(self.unexpected(&["`:`"]));
        }
        self.advance()?;
        Ok(Binding {
            service: name,
            span: token.span,
            location: self.location()?,
        })
    }

    fn location(&mut self) -> Parsed<Location> {
        let first = self.cross()?;
        if self.token.kind != TokenKind::Otherwise {
            return Ok(first);
        }
        let mut of = vec![first];
        while self.take(TokenKind::Otherwise)?.is_some() {
            of.push(self.cross()?);
        }
        Ok(Location::first(of))
    }

    fn cross(&mut self) -> Parsed<Location> {
        let first = self.replica()?;
        if self.token.kind != TokenKind::Cross {
            return Ok(first);
        }
        let mut of = vec![first];
        while self.take(TokenKind::Cross)?.is_some() {
            of.push(self.replica()?);
        }
        bounded(Location::span_over(of))
    }

    fn replica(&mut self) -> Parsed<Location> {
        let first = self.primary()?;
        if self.token.kind != TokenKind::Replica {
            return Ok(first);
        }
        let mut of = vec![first];
        while self.take(TokenKind::Replica)?.is_some() {
            of.push(self.primary()?);
        }
        bounded(Location::replicate(of))
    }

    fn primary(&mut self) -> Parsed<Location> {
        let token = self.token;
        match token.kind {
            TokenKind::OpenParen => {
                self.advance()?;
                let inner = self.location()?;
                self.expect(TokenKind::CloseParen)?;
                Ok(inner)
            }
            TokenKind::Quoted => {
                let text = unquote(self.text(token));
                self.advance()?;
                let name = SiteName::new(&text).map_err(|fault| bad_name(&text, fault, token))?;
                Ok(Location::Site(name, token.span))
            }
            TokenKind::Word => self.name_or_call(),
            _ => Err(self.unexpected(&["a site", "a function", "`(`"])),
        }
    }

    fn name_or_call(&mut self) -> Parsed<Location> {
        let first = self.token;
        self.advance()?;
        if self.token.kind == TokenKind::OpenParen {
            return self.call(first);
        }
        let name = self.rest_of_name(first)?;
        let text = self.text(name);
        if self.calls > 0 && looks_numeric(text) {
            let title = format!("`{text}` is a number here, not a site");
            let quoted = format!("\"{text}\"");
            return Err(ScopeError::new(ErrorKind::Syntax, name.span, title)
                .expecting(["a site", "a function", "`(`"])
                .suggesting(Some(quoted)));
        }
        site(text, name)
    }

    /// Further words of a bare name: `DC 1`.
    fn rest_of_name(&mut self, first: Token) -> Parsed<Token> {
        let mut name = first;
        while self.token.kind == TokenKind::Word {
            name.span.end = self.token.span.end;
            self.advance()?;
        }
        Ok(name)
    }

    fn call(&mut self, function: Token) -> Parsed<Location> {
        self.expect(TokenKind::OpenParen)?;
        self.calls += 1;
        let mut arguments = Vec::new();
        if self.token.kind != TokenKind::CloseParen {
            arguments.push(self.argument()?);
            while self.take(TokenKind::Comma)?.is_some() {
                arguments.push(self.argument()?);
            }
        }
        let close = self.token.span;
        if self.token.kind != TokenKind::CloseParen {
            return Err(self.unexpected(&["`,`", "`)`", "an operator"]));
        }
        self.calls -= 1;
        self.advance()?;
        Ok(Location::Call(Call {
            function: self.text(function).into(),
            name_span: function.span,
            span: function.span.to(close),
            arguments,
        }))
    }

    fn argument(&mut self) -> Parsed<Argument> {
        let first = self.token;
        if first.kind != TokenKind::Word {
            return Ok(Argument::Location(self.location()?));
        }
        // One word decides what it is by what follows it, so look one token ahead.
        match self.lexer.clone().next()?.kind {
            TokenKind::Equals => self.pair(),
            TokenKind::Comma | TokenKind::CloseParen if looks_numeric(self.text(first)) => {
                self.advance()?;
                let text = self.text(first).into();
                Ok(Argument::Literal(Literal {
                    text,
                    span: first.span,
                }))
            }
            _ => Ok(Argument::Location(self.location()?)),
        }
    }

    fn pair(&mut self) -> Parsed<Argument> {
        let key = self.token;
        self.advance()?;
        self.expect(TokenKind::Equals)?;
        let token = self.token;
        let value = match token.kind {
            TokenKind::Word => self.text(token).into(),
            TokenKind::Quoted => unquote(self.text(token)).into(),
            _ => return Err(self.unexpected(&["a value"])),
        };
        self.advance()?;
        let (key_span, value_span) = (key.span, token.span);
        Ok(Argument::Pair(Pair {
            key: self.text(key).into(),
            key_span,
            value,
            value_span,
        }))
    }

    fn text(&self, token: Token) -> &str {
        &self.lexer.text[token.span.start..token.span.end]
    }

    fn advance(&mut self) -> Parsed<()> {
        self.token = self.lexer.next()?;
        Ok(())
    }

    fn take(&mut self, kind: TokenKind) -> Parsed<Option<Token>> {
        if self.token.kind != kind {
            return Ok(None);
        }
        let token = self.token;
        if kind != TokenKind::End {
            self.advance()?;
        }
        Ok(Some(token))
    }

    fn expect(&mut self, kind: TokenKind) -> Parsed<Token> {
        match self.take(kind)? {
            Some(token) => Ok(token),
            None => Err(self.unexpected(&[spelled(kind)])),
        }
    }

    fn unexpected(&self, expected: &[&str]) -> ScopeError {
        let title = match self.token.kind {
            TokenKind::End => format!("expected {}, found the end", or(expected)),
            _ => format!(
                "expected {}, found `{}`",
                or(expected),
                self.text(self.token)
            ),
        };
        ScopeError::new(ErrorKind::Syntax, self.token.span, title)
            .expecting(expected.iter().copied())
            .suggesting(self.meant(expected))
    }

    /// The few slips that have one obvious mending.
    fn meant(&self, expected: &[&str]) -> Option<String> {
        match (self.token.kind, self.text(self.token)) {
            (TokenKind::Equals, _) if expected == ["`:`"] => Some(":".into()),
            (TokenKind::Word, "and") => Some("&".into()),
            (TokenKind::Word, "or") => Some(";".into()),
            _ => None,
        }
    }
}

fn site(text: &str, token: Token) -> Parsed<Location> {
    if text == "here" {
        return Ok(Location::Here(token.span));
    }
    let single_blanks;
    let name = if text.bytes().any(|b| b.is_ascii_whitespace()) {
        single_blanks = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        &single_blanks
    } else {
        text
    };
    let name = SiteName::new(name).map_err(|fault| bad_name(name, fault, token))?;
    Ok(Location::Site(name, token.span))
}

/// The prescan counts what is written; opened parentheses can still join two lists into one.
fn bounded(group: Location) -> Parsed<Location> {
    let past = match &group {
        Location::Span(of) | Location::Replicate(of) => of.get(limits::GROUP_SITES_MAX),
        _ => None,
    };
    match past {
        Some(member) => Err(limits::too_many_sites(member.span())),
        None => Ok(group),
    }
}

fn bad_name(text: &str, fault: NameFault, token: Token) -> ScopeError {
    let meant = match fault {
        NameFault::StrayBlank => Some(
            text.split(' ')
                .filter(|w| !w.is_empty())
                .collect::<Vec<_>>()
                .join(" "),
        ),
        NameFault::Empty | NameFault::TooLong | NameFault::BadCharacter(_) => None,
    };
    ScopeError::new(ErrorKind::Syntax, token.span, fault.to_string())
        .expecting(["a name"])
        .suggesting(meant.filter(|name| !name.is_empty()))
}

fn after_location(close: TokenKind) -> [&'static str; 3] {
    ["`,`", "an operator", spelled(close)]
}

fn spelled(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Word => "a word",
        TokenKind::Quoted => "a quoted name",
        TokenKind::OpenBrace => "`{`",
        TokenKind::CloseBrace => "`}`",
        TokenKind::OpenParen => "`(`",
        TokenKind::CloseParen => "`)`",
        TokenKind::Colon => "`:`",
        TokenKind::Comma => "`,`",
        TokenKind::Equals => "`=`",
        TokenKind::Otherwise => "`;`",
        TokenKind::Cross => "`+`",
        TokenKind::Replica => "`&`",
        TokenKind::End => "the end of the scope",
    }
}

fn or(expected: &[&str]) -> String {
    match expected {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}
