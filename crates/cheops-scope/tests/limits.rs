//! Each limit at its edge and past it, and before every other error.

// A test may unwrap, and so may what it calls.
#![allow(clippy::unwrap_used)]

mod common;

use cheops_scope::limits::{
    BINDINGS_MAX, CHOICES_MAX, GROUP_SITES_MAX, NESTING_MAX, TEXT_BYTES_MAX,
};
use cheops_scope::{ErrorKind, Plan, Scope, parse, parse_bytes};

fn kind(text: &str) -> Option<ErrorKind> {
    parse(text)
        .and_then(Scope::check)
        .err()
        .map(|error| error.kind)
}

/// The plan of `s` in the world of 1,100 sites.
fn plan(text: &str) -> Result<Plan, ErrorKind> {
    let world = common::world("many");
    let resolved = parse(text)
        .and_then(Scope::check)
        .and_then(|scope| scope.resolve(&world))
        .map_err(|error| error.kind)?;
    Ok(resolved.plans[0].1.clone())
}

/// `count` different names of at most three letters, joined without blanks.
fn joined(count: usize, operator: &str) -> String {
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').collect();
    let name = |n: usize| match (n / letters.len(), letters[n % letters.len()]) {
        (0, last) => last.to_string(),
        (first, last) => format!("{}{last}", letters[first - 1]),
    };
    (0..count).map(name).collect::<Vec<_>>().join(operator)
}

#[test]
fn text_has_at_most_4_kib() {
    let padded = |length: usize| format!("{:length$}", "s: a");
    assert_eq!(kind(&padded(TEXT_BYTES_MAX)), None);
    assert_eq!(kind(&padded(TEXT_BYTES_MAX + 1)), Some(ErrorKind::TooLong));
    // Past the edge in the middle of a letter, the place is still one that can be shown.
    let text = format!("{}é", "x".repeat(TEXT_BYTES_MAX - 1));
    let error = parse(&text).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLong);
    assert!(text.is_char_boundary(error.position.start));
}

#[test]
fn bytes_that_are_too_long_are_too_long_before_they_are_not_text() {
    let kind = |length| parse_bytes(&vec![0xFF; length]).unwrap_err().kind;
    assert_eq!(kind(TEXT_BYTES_MAX), ErrorKind::Syntax);
    assert_eq!(kind(TEXT_BYTES_MAX + 1), ErrorKind::TooLong);
}

#[test]
fn a_scope_has_at_most_64_bindings() {
    let bindings = |count: usize| (0..count).map(|n| format!("s{n}: a,")).collect::<String>();
    assert_eq!(kind(&bindings(BINDINGS_MAX)), None);
    assert_eq!(
        kind(&bindings(BINDINGS_MAX + 1)),
        Some(ErrorKind::TooManyBindings)
    );
    let braced = format!("{{{}}}", bindings(BINDINGS_MAX + 1));
    assert_eq!(kind(&braced), Some(ErrorKind::TooManyBindings));
}

#[test]
fn a_scope_nests_at_most_32_deep() {
    let nested =
        |open: &str, depth: usize| format!("s: {}a{}", open.repeat(depth), ")".repeat(depth));
    for open in ["(", "none(", "b & ("] {
        assert_eq!(kind(&nested(open, NESTING_MAX)), None, "{open}");
        assert_eq!(
            kind(&nested(open, NESTING_MAX + 1)),
            Some(ErrorKind::TooDeep),
            "{open}"
        );
    }
    // Beside each other is not inside each other.
    let beside = vec!["(a)"; 2 * NESTING_MAX].join(";");
    assert_eq!(kind(&format!("s: {beside}")), None);
}

#[test]
fn one_and_or_cross_joins_at_most_1024_sites_as_typed() {
    for operator in ["&", "+", "%"] {
        let scope = |count| format!("s:{}", joined(count, operator));
        assert_eq!(kind(&scope(GROUP_SITES_MAX)), None, "{operator}");
        let past = kind(&scope(GROUP_SITES_MAX + 1));
        assert_eq!(past, Some(ErrorKind::TooManySites), "{operator}");
        let called = format!("s:strong({})", joined(GROUP_SITES_MAX + 1, operator));
        assert_eq!(kind(&called), Some(ErrorKind::TooManySites), "{operator}");
    }
}

#[test]
fn the_count_is_of_one_group_and_not_of_the_scope() {
    let half = "a&".repeat(600) + "a";
    assert_eq!(kind(&format!("s:{half},t:{half}")), None);
    assert_eq!(kind(&format!("s:{half};{half}")), None);
    assert_eq!(kind(&format!("s:{half}+{half}")), None);
    assert_eq!(kind(&format!("s:b;({half});{half}")), None);
    assert_eq!(
        kind(&format!("s:({half})&({half})")),
        Some(ErrorKind::TooManySites)
    );
    assert_eq!(
        kind(&format!("s:f({half},{half})")),
        Some(ErrorKind::UnknownFunction)
    );
    assert_eq!(kind(&format!("s:{}", joined(1300, ";"))), None);
}

#[test]
fn functions_join_at_most_1024_sites_too() {
    let Ok(Plan::Replicate { of, .. }) = plan("s: all(some=yes)") else {
        panic!("1,024 sites are a group")
    };
    assert_eq!(of.len(), GROUP_SITES_MAX);
    assert_eq!(plan("s: all(all=yes)"), Err(ErrorKind::TooManySites));
    assert_eq!(
        plan("s: all(some=yes) & n1024"),
        Err(ErrorKind::TooManySites)
    );
    assert_eq!(
        plan("s: replicas(2, all(some=yes); n1024)"),
        Err(ErrorKind::TooManySites)
    );
    // A site that is there already does not count again.
    assert!(plan("s: all(some=yes) & n0007 & all(some=yes)").is_ok());
    // In a cross, what is replicated is one part.
    assert!(plan("s: all(some=yes) + n1024").is_ok());
}

#[test]
fn around_and_any_keep_the_nearest_64() {
    let check = |text: &str, last: &str| match plan(text) {
        Ok(Plan::FirstOf(of)) => {
            assert_eq!(of.len(), CHOICES_MAX, "{text}");
            assert_eq!(of[0], Plan::At("n0000".parse().unwrap()), "{text}");
            assert_eq!(
                of[CHOICES_MAX - 1],
                Plan::At(last.parse().unwrap()),
                "{text}"
            );
        }
        other => panic!("{text}: {other:?}"),
    };
    check("s: around(n0000, 63ms)", "n0063");
    check("s: around(n0000, 64ms)", "n0063");
    check("s: around(n0000, 1h)", "n0063");
    check("s: any(few=yes)", "n0063");
    check("s: any(all=yes)", "n0063");
}

#[test]
fn limits_come_before_every_other_error() {
    let check = |text: String, expected| assert_eq!(kind(&text), Some(expected), "{text:.40}");
    let deep = "(".repeat(NESTING_MAX + 1);
    let wide = joined(GROUP_SITES_MAX + 1, "&");
    let many: String = "b: c,".repeat(BINDINGS_MAX + 1);
    for wrong in ["!", "a: a, a: a,", "a: nope(", "\"x\" \"y\" :", ", , ;"] {
        check(
            format!("{wrong}{}", " ".repeat(TEXT_BYTES_MAX)),
            ErrorKind::TooLong,
        );
        check(format!("{wrong} x: {deep}"), ErrorKind::TooDeep);
        check(format!("{wrong} x: {wide}"), ErrorKind::TooManySites);
        check(format!("{wrong} {many}"), ErrorKind::TooManyBindings);
    }
}

#[test]
fn what_stands_in_quotes_is_not_counted() {
    let quoted = |inner: &str, count: usize| format!("s: all(x=\"{}\")", inner.repeat(count));
    for inner in ["(", ":", "&", "+", "\\\"(", "\\\\("] {
        assert_eq!(kind(&quoted(inner, 1100)), None, "{inner}");
    }
}

#[test]
fn short_calls_cannot_name_half_a_million_sites() {
    let mut world = cheops_scope::World::builder("s0".parse().unwrap());
    for n in 0..1000 {
        let labels = [("a".to_owned(), "b".to_owned())].into_iter().collect();
        world.site_with(format!("s{n}").parse().unwrap(), labels, true);
    }
    world.service("x".parse().unwrap(), []);
    let world = world.build();
    let text = format!("x: {}", vec!["all(a=b)"; 400].join(";"));
    let error = parse(&text)
        .unwrap()
        .check()
        .unwrap()
        .resolve(&world)
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooManySites);
}
