//! Durations as people write them: `10ms`, `1.5s`, `24h`.

use std::time::Duration;

const UNITS: [(&str, u64); 6] = [
    // Longer endings first: `ms` also ends in `s`.
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// True if the text has the form of a duration, whether or not its value can be held.
pub fn looks_like_duration(text: &str) -> bool {
    split(text).is_some()
}

/// Reads a duration; `None` if it is not one, or longer than 584 years.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (whole, fraction, unit_ns) = split(text)?;
    let mut total = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit_ns);
    let mut scale = u128::from(unit_ns);
    for digit in fraction.bytes() {
        scale /= 10;
        total += scale * u128::from(digit - b'0');
    }
    Some(Duration::from_nanos(u64::try_from(total).ok()?))
}

/// Whole part, digits after the point, nanoseconds per unit.
fn split(text: &str) -> Option<(&str, &str, u64)> {
    let (number, unit_ns) = UNITS
        .iter()
        .find_map(|(ending, ns)| text.strip_suffix(ending).map(|number| (number, *ns)))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let written = !whole.is_empty() && (number.len() == whole.len() || !fraction.is_empty());
    (written && digits(whole) && digits(fraction)).then_some((whole, fraction, unit_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        let check = |text: &str, ns: u64| {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_nanos(ns)),
                "{text}"
            );
        };
        check("7us", 7_000);
        check("10ms", 10_000_000);
        check("1.5s", 1_500_000_000);
        check("2m", 120_000_000_000);
        check("24h", 86_400_000_000_000);
        check("1d", 86_400_000_000_000);
        check("0.0005us", 0);
    }

    #[test]
    fn what_is_not_a_duration_is_not_guessed() {
        for text in [
            "", "ms", "10", "-1s", "1.s", ".5s", "1e3s", "10 ms", "10Ms", "1.2.3s",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert!(looks_like_duration("99999999999999999999d"));
        assert_eq!(parse_duration("99999999999999999999d"), None);
    }
}
