//! Text → tokens, one at a time, without allocating.

use crate::ast::Span;
use crate::error::{ErrorKind, ScopeError};

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    /// With its quotes.
    Quoted,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    Colon,
    Comma,
    Equals,
    /// `;`, or `||` in older texts.
    Otherwise,
    /// `+`, or `%` in older texts.
    Cross,
    /// `&`.
    Replica,
    End,
}

#[derive(Clone)]
pub(crate) struct Lexer<'a> {
    pub(crate) text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    pub(crate) fn next(&mut self) -> Result<Token, ScopeError> {
        let bytes = self.text.as_bytes();
        while bytes
            .get(self.at)
            .is_some_and(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))
        {
            self.at += 1;
        }
        let start = self.at;
        let Some(&byte) = bytes.get(start) else {
            return Ok(Token {
                kind: TokenKind::End,
                span: Span::new(start, start),
            });
        };
        let kind = match byte {
            b'{' => TokenKind::OpenBrace,
            b'}' => TokenKind::CloseBrace,
            b'(' => TokenKind::OpenParen,
            b')' => TokenKind::CloseParen,
            b':' => TokenKind::Colon,
            b',' => TokenKind::Comma,
            b'=' => TokenKind::Equals,
            b';' => TokenKind::Otherwise,
            b'+' | b'%' => TokenKind::Cross,
            b'&' => TokenKind::Replica,
            b'|' if bytes.get(start + 1) == Some(&b'|') => {
                self.at += 1;
                TokenKind::Otherwise
            }
            b'"' => return self.quoted(start),
            _ if starts_word(byte) => return Ok(self.word(start)),
            _ => return Err(self.stray(start)),
        };
        self.at += 1;
        Ok(Token {
            kind,
            span: Span::new(start, self.at),
        })
    }

    fn word(&mut self, start: usize) -> Token {
        let rest = &self.text.as_bytes()[start..];
        self.at = start
            + rest
                .iter()
                .position(|b| !continues_word(*b))
                .unwrap_or(rest.len());
        Token {
            kind: TokenKind::Word,
            span: Span::new(start, self.at),
        }
    }

    fn quoted(&mut self, start: usize) -> Result<Token, ScopeError> {
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') if matches!(bytes.get(at + 1), Some(b'"' | b'\\')) => at += 2,
                Some(b'\\') => {
                    let title = "in quotes, `\\` stands before `\"` or `\\` only";
                    let here = Span::new(at, at + 1);
                    return Err(ScopeError::new(ErrorKind::Syntax, here, title)
                        .expecting(["`\\\"`", "`\\\\`"]));
                }
                Some(byte) if byte.is_ascii_control() => return Err(control(at, 1)),
                // U+0080 to U+009F: control characters too, some terminals obey them.
                Some(0xC2) if matches!(bytes.get(at + 1), Some(0x80..=0x9F)) => {
                    return Err(control(at, 2));
                }
                Some(_) => at += 1,
                None => {
                    let open = Span::new(start, bytes.len());
                    return Err(ScopeError::new(
                        ErrorKind::Syntax,
                        open,
                        "the quote is not closed",
                    )
                    .expecting(["`\"`"])
                    .suggesting(Some(format!("{}\"", self.text[start..].trim_end()))));
                }
            }
        }
        self.at = at + 1;
        Ok(Token {
            kind: TokenKind::Quoted,
            span: Span::new(start, self.at),
        })
    }

    fn stray(&self, start: usize) -> ScopeError {
        let stray = self.text[start..].chars().next().unwrap_or_default();
        let meant = match stray {
            '|' => Some("||".to_owned()),
            '\'' => Some("\"".to_owned()),
            _ => None,
        };
        let title = format!("{stray:?} has no meaning in a scope");
        let at = Span::new(start, start + stray.len_utf8());
        ScopeError::new(ErrorKind::Syntax, at, title)
            .expecting(["a name", "an operator"])
            .suggesting(meant)
    }
}

fn control(at: usize, length: usize) -> ScopeError {
    let title = "control characters cannot be written, not even in quotes";
    ScopeError::new(ErrorKind::Syntax, Span::new(at, at + length), title).expecting(["`\"`"])
}

pub(crate) fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

pub(crate) fn continues_word(byte: u8) -> bool {
    starts_word(byte) || matches!(byte, b'-' | b'.')
}

/// True if the text can stand without quotes as one word.
pub(crate) fn is_word(text: &str) -> bool {
    text.as_bytes().first().is_some_and(|b| starts_word(*b)) && text.bytes().all(continues_word)
}

/// True for what is read as a number or a duration inside a call.
pub(crate) fn looks_numeric(word: &str) -> bool {
    if !word.as_bytes().first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let number = match word.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(word),
    };
    number || cheops_model::duration::looks_like_duration(word)
}

/// What stands between the quotes.
pub(crate) fn unquote(quoted: &str) -> String {
    let inner = &quoted[1..quoted.len() - 1];
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    text
}
