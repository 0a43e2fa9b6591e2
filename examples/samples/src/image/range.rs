//! The `Range` header, as far as it is served: one range of bytes.

use std::ops::Range;

use hyper::header::{HeaderMap, RANGE};

/// What part of a file a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    Part(Range<u64>),
    /// Nothing of the file lies in the range.
    Nothing,
}

/// Reads the header. What is not understood counts as absent, as RFC 9110 asks for.
pub(crate) fn wanted(headers: &HeaderMap, bytes: u64) -> Wanted {
    let text = headers
        .get(RANGE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let Some((first, last)) = text
        .strip_prefix("bytes=")
        .and_then(|ends| ends.split_once('-'))
    else {
        return Wanted::All;
    };
    match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first > last => Wanted::All,
        (Ok(first), Ok(last)) => part(first, last.saturating_add(1), bytes),
        (Ok(first), Err(_)) if last.trim().is_empty() => part(first, bytes, bytes),
        (Err(_), Ok(count)) if first.trim().is_empty() => part(
            if count == 0 {
                bytes
            } else {
                bytes.saturating_sub(count)
            },
            bytes,
            bytes,
        ),
        _ => Wanted::All,
    }
}

fn part(start: u64, end: u64, bytes: u64) -> Wanted {
    if start >= bytes {
        return Wanted::Nothing;
    }
    Wanted::Part(start..end.min(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &'static str, expected: Wanted) {
        let headers = HeaderMap::from_iter([(RANGE, header.parse().unwrap())]);
        assert_eq!(wanted(&headers, 10), expected, "{header}");
    }

    #[test]
    fn single_ranges_are_cut_to_the_file() {
        check("bytes=2-4", Wanted::Part(2..5));
        check("bytes=2-", Wanted::Part(2..10));
        check("bytes=2-99", Wanted::Part(2..10));
        check("bytes=-3", Wanted::Part(7..10));
        check("bytes=-99", Wanted::Part(0..10));
        check("bytes=9-18446744073709551615", Wanted::Part(9..10));
    }

    #[test]
    fn ranges_beyond_the_file_hold_nothing() {
        check("bytes=10-", Wanted::Nothing);
        check("bytes=-0", Wanted::Nothing);
    }

    #[test]
    fn what_is_not_understood_counts_as_absent() {
        check("", Wanted::All);
        check("bytes=4-2", Wanted::All);
        check("bytes=1-2,4-5", Wanted::All);
        check("lines=1-2", Wanted::All);
        check("bytes=-", Wanted::All);
    }
}
