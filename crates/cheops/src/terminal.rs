//! The only place that prints. A reader that went away (`cheops … | head`) is no error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, SystemTime};

use cheops_scope::Paint;

/// Prints to standard output, with a line end.
pub(crate) fn print(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end_matches('\n'));
}

/// Prints to standard error, with a line end.
pub(crate) fn error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.trim_end_matches('\n'));
}

/// Colour on a terminal only, and not where the user asked for none.
pub(crate) fn error_paint() -> Paint {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && std::io::stderr().is_terminal() {
        Paint::Colour
    } else {
        Paint::Plain
    }
}

/// Rows as aligned columns, two blanks apart, with no blanks at the ends of lines.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N)
        .map(|column| width(column).unwrap_or_default())
        .collect();
    let line = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// How long ago an RFC 3339 time was.
pub(crate) fn since(rfc3339: &str) -> Option<Duration> {
    let format = &time::format_description::well_known::Rfc3339;
    let at = time::OffsetDateTime::parse(rfc3339, format).ok()?;
    SystemTime::now().duration_since(at.into()).ok()
}

/// `4s`, `12m`, `3h`, `9d`.
pub(crate) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
