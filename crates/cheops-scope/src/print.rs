//! The canonical form: what `cheops scope fmt` prints.
//!
//! No braces, no trailing comma, names as typed, quotes and parentheses only where needed, one
//! blank after `:` `,` `;` and on either side of `&` and `+`. It parses back to the same tree.

use std::fmt::{self, Display, Formatter, Write};

use crate::ast::{Argument, Binding, Call, Location, Scope};
use crate::lexer::{is_word, looks_numeric};

impl Display for Scope {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.bindings.is_empty() {
            return write!(f, "{{}}");
        }
        separated(f, &self.bindings, ", ", |f, binding| binding.fmt(f))
    }
}

impl Display for Binding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let service = self.service.as_str();
        if is_word(service) {
            write!(f, "{service}: ")?;
        } else {
            quote(f, service)?;
            f.write_str(": ")?;
        }
        print(f, &self.location, Place::TOP)
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        print(f, self, Place::TOP)
    }
}

/// How tightly the surrounding operator binds, and whether numbers would be read as numbers.
#[derive(Clone, Copy)]
struct Place {
    binds: u8,
    in_call: bool,
}

impl Place {
    const TOP: Place = Place {
        binds: 0,
        in_call: false,
    };
}

fn print(f: &mut Formatter<'_>, location: &Location, place: Place) -> fmt::Result {
    match location {
        Location::Site(name, _) => site(f, name.as_str(), place.in_call),
        Location::Here(_) => f.write_str("here"),
        Location::First(of) => joined(f, of, "; ", 1, place),
        Location::Span(of) => joined(f, of, " + ", 2, place),
        Location::Replicate(of) => joined(f, of, " & ", 3, place),
        Location::Call(call) => print_call(f, call),
    }
}

fn joined(
    f: &mut Formatter<'_>,
    of: &[Location],
    operator: &str,
    binds: u8,
    place: Place,
) -> fmt::Result {
    let inner = Place {
        binds,
        in_call: place.in_call,
    };
    let parens = place.binds >= binds;
    f.write_str(if parens { "(" } else { "" })?;
    separated(f, of, operator, |f, member| print(f, member, inner))?;
    f.write_str(if parens { ")" } else { "" })
}

fn print_call(f: &mut Formatter<'_>, call: &Call) -> fmt::Result {
    write!(f, "{}(", call.function)?;
    separated(f, &call.arguments, ", ", |f, argument| match argument {
        Argument::Location(location) => print(
            f,
            location,
            Place {
                binds: 0,
                in_call: true,
            },
        ),
        Argument::Literal(literal) => f.write_str(&literal.text),
        Argument::Pair(pair) => {
            write!(f, "{}=", pair.key)?;
            if is_word(&pair.value) {
                f.write_str(&pair.value)
            } else {
                quote(f, &pair.value)
            }
        }
    })?;
    f.write_char(')')
}

fn separated<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    separator: &str,
    mut each: impl FnMut(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { separator })?;
        each(f, item)?;
    }
    Ok(())
}

fn site(f: &mut Formatter<'_>, name: &str, in_call: bool) -> fmt::Result {
    let bare = name != "here" && name.split(' ').all(is_word) && !(in_call && looks_numeric(name));
    if bare {
        f.write_str(name)
    } else {
        quote(f, name)
    }
}

fn quote(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}
