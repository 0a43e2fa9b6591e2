//! Bounds of a scope, checked before anything else looks at the text.
//!
//! They keep parsing linear in time and memory whatever the bytes are, and stop a scope from
//! fanning one request out over more sites than a person could have meant.

use crate::ast::Span;
use crate::error::{ErrorKind, ScopeError};
use crate::lexer::continues_word;

/// A scope rides in one header value; proxies commonly refuse larger ones.
pub const TEXT_BYTES_MAX: usize = 4096;
/// More services than any application of the field has in one workflow.
pub const BINDINGS_MAX: usize = 64;
/// Parentheses and calls inside each other; bounds the recursion of the parser.
pub const NESTING_MAX: usize = 32;
/// Sites joined by one `&` or `+`: each is a write of the same request.
pub const GROUP_SITES_MAX: usize = 1024;
/// Sites named by all plans of one scope: every binding at its bound. Past it, `too-many-sites`:
/// calls are short, and a few hundred of them could name half a million.
pub const PLAN_SITES_MAX: usize = BINDINGS_MAX * GROUP_SITES_MAX;
/// `around` and `any` keep the nearest: nobody waits for a 65th try.
pub const CHOICES_MAX: usize = 64;
/// How many names an error lists; after them it says how many more there are.
pub(crate) const EXPECTED_MAX: usize = 16;

/// Looks at the bytes once, without parsing.
pub(crate) fn check(text: &str) -> Result<(), ScopeError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(too_long(
            text.floor_char_boundary(TEXT_BYTES_MAX),
            text.len(),
        ));
    }
    // No shorter text can reach any of the other bounds.
    if text.len() <= NESTING_MAX {
        return Ok(());
    }
    let levels = [Level::default(); NESTING_MAX + 1];
    Scan {
        levels,
        depth: 0,
        bindings: 0,
        name: (0, 0),
    }
    .run(text)
}

/// What one nesting level has seen of the operators that join sites.
#[derive(Clone, Copy, Default)]
struct Level {
    replicas: usize,
    parts: usize,
}

struct Scan {
    levels: [Level; NESTING_MAX + 1],
    depth: usize,
    bindings: usize,
    /// The last run of bytes that are not delimiters: the name an error points at.
    name: (usize, usize),
}

impl Scan {
    fn run(mut self, text: &str) -> Result<(), ScopeError> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let end = match bytes[at] {
                b'"' => quoted_end(bytes, at),
                _ => at + 1,
            };
            self.see(bytes, at, end)?;
            at = end;
        }
        Ok(())
    }

    fn see(&mut self, bytes: &[u8], at: usize, end: usize) -> Result<(), ScopeError> {
        match bytes[at] {
            b'(' => self.open(at)?,
            b')' => self.depth = self.depth.saturating_sub(1),
            b':' => self.bind()?,
            b'&' => self.join(bytes, end, |level| &mut level.replicas)?,
            b'+' | b'%' => {
                self.levels[self.depth].replicas = 0;
                self.join(bytes, end, |level| &mut level.parts)?;
            }
            b';' | b'|' | b',' => self.levels[self.depth] = Level::default(),
            b' ' | b'\t' | b'\r' | b'\n' | b'{' | b'}' | b'=' => (),
            _ => self.name = (if self.name.1 == at { self.name.0 } else { at }, end),
        }
        Ok(())
    }

    fn open(&mut self, at: usize) -> Result<(), ScopeError> {
        if self.depth == NESTING_MAX {
            let title = format!("a scope nests at most {NESTING_MAX} deep");
            let at = Span::new(at, at + 1);
            return Err(ScopeError::new(ErrorKind::TooDeep, at, title)
                .expecting([format!("at most {NESTING_MAX} levels")]));
        }
        self.depth += 1;
        self.levels[self.depth] = Level::default();
        Ok(())
    }

    fn bind(&mut self) -> Result<(), ScopeError> {
        self.levels[self.depth] = Level::default();
        // At any depth: a parenthesis that is not closed does not hide what follows it.
        self.bindings += 1;
        if self.bindings > BINDINGS_MAX {
            let title = format!("a scope binds at most {BINDINGS_MAX} services");
            let at = Span::new(self.name.0, self.name.1);
            return Err(ScopeError::new(ErrorKind::TooManyBindings, at, title)
                .expecting([format!("at most {BINDINGS_MAX} services")]));
        }
        Ok(())
    }

    fn join(
        &mut self,
        bytes: &[u8],
        after: usize,
        count: fn(&mut Level) -> &mut usize,
    ) -> Result<(), ScopeError> {
        let joined = count(&mut self.levels[self.depth]);
        *joined += 1;
        if *joined + 1 > GROUP_SITES_MAX {
            return Err(too_many_sites(member_from(bytes, after)));
        }
        Ok(())
    }
}

/// The name that follows an operator, blanks between left out; its first word if it has more.
fn member_from(bytes: &[u8], after: usize) -> Span {
    let from = |at: usize, stop: fn(&u8) -> bool| {
        let rest = bytes[at..].iter().position(stop);
        rest.map_or(bytes.len(), |found| at + found)
    };
    let start = from(after, |b| !b.is_ascii_whitespace());
    let end = match bytes.get(start) {
        Some(b'"') => quoted_end(bytes, start),
        _ => from(start, |b| b.is_ascii() && !continues_word(*b)),
    };
    Span::new(start, end)
}

/// Too long by what stands after `fits`.
pub(crate) fn too_long(fits: usize, length: usize) -> ScopeError {
    let title = format!("a scope has at most {TEXT_BYTES_MAX} bytes, this one {length}");
    ScopeError::new(ErrorKind::TooLong, Span::new(fits, length), title)
        .expecting([format!("at most {TEXT_BYTES_MAX} bytes")])
}

pub(crate) fn too_many_sites(at: Span) -> ScopeError {
    let title = format!("at most {GROUP_SITES_MAX} sites are joined by one `&` or `+`");
    ScopeError::new(ErrorKind::TooManySites, at, title)
        .expecting([format!("at most {GROUP_SITES_MAX} sites")])
}

/// One past the closing quote, or the end of the text.
fn quoted_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}
