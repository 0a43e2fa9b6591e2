//! An error as a person reads it: the line, a caret under the place, what could stand there.

use crate::ast::Span;
use crate::error::{ErrorKind, ScopeError};

/// Whether to colour: on a terminal only, and never the only sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// ANSI colours.
    Colour,
    /// Text alone.
    Plain,
}

/// How much of a long line is shown on either side of the place.
const AROUND_CHARS: usize = 60;

/// The diagnostic, ending in a line end.
pub fn render(error: &ScopeError, text: &str, paint: Paint) -> String {
    let excerpt = Excerpt::of(text, error.position);
    let gutter = format!("  {} | ", excerpt.line);
    let indent = " ".repeat(gutter.len() + excerpt.column);
    let carets = "^".repeat(excerpt.width);
    let mut notes = notes(error);
    let first = if notes.is_empty() {
        String::new()
    } else {
        format!(" {}", notes.remove(0))
    };
    let mut out = format!(
        "{}: {}\n{gutter}{}\n{indent}{}{first}\n",
        bold_red("error", paint),
        error.title,
        excerpt.shown,
        bold_red(&carets, paint),
    );
    for note in notes {
        out += &format!("{indent}{} {note}\n", " ".repeat(excerpt.width));
    }
    out
}

fn notes(error: &ScopeError) -> Vec<String> {
    let mut notes = Vec::new();
    if !error.expected.is_empty() {
        let label = match error.kind {
            ErrorKind::UnknownSite => "known sites:",
            ErrorKind::UnknownService => "known services:",
            ErrorKind::UnknownFunction => "functions:",
            _ => "expected",
        };
        notes.push(format!("{label} {}", error.expected.join(", ")));
    }
    notes.extend(
        error
            .suggestion
            .as_ref()
            .map(|meant| format!("did you mean `{meant}`?")),
    );
    notes
}

fn bold_red(text: &str, paint: Paint) -> String {
    match paint {
        Paint::Colour => format!("\x1b[1;31m{text}\x1b[0m"),
        Paint::Plain => text.to_owned(),
    }
}

/// The line an error stands in, cut where it is long.
struct Excerpt {
    line: usize,
    shown: String,
    column: usize,
    width: usize,
}

impl Excerpt {
    fn of(text: &str, at: Span) -> Excerpt {
        let start = text.floor_char_boundary(at.start.min(text.len()));
        let end = text.ceil_char_boundary(at.end.clamp(start, text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..]
            .find('\n')
            .map_or(text.len(), |newline| start + newline);
        let before: Vec<char> = printable(&text[line_start..start]);
        let place: Vec<char> = printable(&text[start..end.min(line_end)]);
        let after: Vec<char> = printable(&text[end.min(line_end)..line_end]);

        let skipped = before.len().saturating_sub(AROUND_CHARS);
        let lead = if skipped > 0 { "…" } else { "" };
        let width = place.len().clamp(1, AROUND_CHARS);
        let shown_after = after.len().min(AROUND_CHARS);
        let cut = place.len() > width || shown_after < after.len();
        let mut shown = lead.to_owned();
        shown.extend(&before[skipped..]);
        shown.extend(place.iter().take(width));
        if place.len() <= width {
            shown.extend(&after[..shown_after]);
        }
        shown += if cut { "…" } else { "" };
        let column = before.len() - skipped + lead.chars().count();
        Excerpt {
            line: text[..start].matches('\n').count() + 1,
            shown,
            column,
            width,
        }
    }
}

/// Control characters would move the caret, or the terminal.
fn printable(text: &str) -> Vec<char> {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
