//! What may have been meant: the known name nearest to an unknown one.

/// The nearest candidate, if it is near enough that a slip explains it. Ties go to the first.
pub(crate) fn nearest<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let allowed = (typed.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate.len().abs_diff(typed.len()) > allowed {
            continue;
        }
        let distance = distance(typed, candidate);
        // As many edits as letters is another name, not a slip.
        let slip = distance <= allowed && distance < candidate.len().max(typed.len());
        if slip && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate.to_owned())
}

/// Edits between two texts without regard to case; two neighbours swapped count as one.
fn distance(a: &str, b: &str) -> usize {
    let lower = |text: &str| text.to_ascii_lowercase().into_bytes();
    let (a, b) = (lower(a), lower(b));
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["site1", "site2", "around", "DC 1"];
        assert_eq!(nearest("site4", known).as_deref(), Some("site1"));
        assert_eq!(nearest("SITE2", known).as_deref(), Some("site2"));
        assert_eq!(nearest("aruond", known).as_deref(), Some("around"));
        assert_eq!(nearest("DC1", known).as_deref(), Some("DC 1"));
        assert_eq!(nearest("paris", known), None);
        assert_eq!(nearest("z", ["a", "b"]), None);
    }
}
