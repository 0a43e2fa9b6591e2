//! What holds for every scope, and for every text that is none.

// A test may unwrap, and so may what it calls.
#![allow(clippy::unwrap_used)]

mod common;

use cheops_model::{ServiceName, SiteName};
use cheops_scope::{
    Argument, Binding, Call, Explanation, Literal, Location, Paint, Pair, Scope, ScopeError, Span,
    limits, parse, parse_bytes, render,
};
use proptest::prelude::*;

const NOWHERE: Span = Span { start: 0, end: 0 };

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn what_is_printed_parses_back_to_the_same_tree(scope in a_scope()) {
        let printed = scope.to_string();
        prop_assume!(printed.len() <= limits::TEXT_BYTES_MAX);
        let again = parse(&printed).map_err(|e| TestCaseError::fail(format!("{printed}: {e:?}")))?;
        prop_assert_eq!(&again, &scope, "{}", printed);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn blanks_and_line_ends_between_tokens_change_nothing(scope in a_scope()) {
        let printed = scope.to_string();
        if printed.len() > limits::TEXT_BYTES_MAX / 4 || printed.contains('"') {
            return Ok(());
        }
        let roomy = printed.replace(' ', "\r\n\t ").replace('(', " ( ").replace(')', " ) ");
        prop_assert_eq!(&parse(&roomy).unwrap(), &scope, "{}", roomy);
        let braced = if printed == "{}" { roomy } else { format!("{{{roomy},}}") };
        prop_assert_eq!(parse(&braced).unwrap(), scope);
    }

    #[test]
    fn older_spellings_mean_the_same(scope in a_scope()) {
        let printed = scope.to_string();
        if printed.len() > limits::TEXT_BYTES_MAX / 4 || printed.contains('"') {
            return Ok(());
        }
        let older = printed.replace('+', "%").replace(';', "||");
        prop_assert_eq!(parse(&older).unwrap(), scope);
    }

    #[test]
    fn resolving_is_pure_and_stays_in_the_world(text in a_scope_of_the_world()) {
        let world = common::world("sites");
        let Ok(checked) = parse(&text).and_then(Scope::check) else { return Ok(()) };
        let first = checked.resolve(&world);
        prop_assert_eq!(&first, &checked.resolve(&common::world("sites")));
        for (service, plan) in first.iter().flat_map(|resolved| &resolved.plans) {
            prop_assert!(world.service(service).is_some());
            for site in plan.sites() {
                prop_assert!(world.site(site.as_str()).is_some(), "{site}");
            }
        }
        if let Ok(explanation) = Explanation::of(&checked, &world) {
            prop_assert!(explanation.text().starts_with("scope  "));
        }
    }

    #[test]
    fn any_bytes_are_a_scope_or_an_error_within_them(
        bytes in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        if let Err(error) = parse_bytes(&bytes) {
            prop_assert!(error.position.start <= error.position.end);
            prop_assert!(error.position.end <= bytes.len());
            render(&error, &String::from_utf8_lossy(&bytes), Paint::Plain);
        }
    }

    #[test]
    fn any_text_is_a_scope_or_an_error_within_it(text in "\\PC{0,120}") {
        read(&text)?;
    }

    #[test]
    fn token_soup_is_a_scope_or_an_error_within_it(text in token_soup()) {
        read(&text)?;
    }

    #[test]
    fn an_error_is_shown_beside_any_text(text in token_soup(), other in "(?s).{0,80}") {
        let world = common::world("sites");
        let result = parse(&text).and_then(Scope::check).and_then(|scope| scope.resolve(&world));
        if let Err(error) = result {
            let shown = render(&error, &other, Paint::Plain);
            prop_assert!(shown.starts_with("error: ") && shown.ends_with('\n'));
            prop_assert!(!render(&error, &other, Paint::Colour).is_empty());
        }
    }
}

/// Takes a text as far as it goes; an error has to lie within it.
fn read(text: &str) -> Result<(), TestCaseError> {
    let world = common::world("sites");
    let result = parse(text)
        .and_then(Scope::check)
        .and_then(|scope| scope.resolve(&world));
    match result {
        Ok(_) => {
            let scope = parse(text).expect("it was read before");
            let printed = scope.to_string();
            prop_assert_eq!(parse(&printed).expect("it was read before"), scope);
        }
        Err(error) => within(&error, text)?,
    }
    Ok(())
}

fn within(error: &ScopeError, text: &str) -> Result<(), TestCaseError> {
    let Span { start, end } = error.position;
    prop_assert!(start <= end && end <= text.len(), "{:?}", error);
    prop_assert!(
        text.is_char_boundary(start) && text.is_char_boundary(end),
        "{:?}",
        error
    );
    let shown = render(error, text, Paint::Plain);
    prop_assert!(shown.lines().count() >= 3, "{}", shown);
    // Nothing typed may move the cursor or colour the terminal.
    prop_assert!(
        !shown.chars().any(|c| c.is_control() && c != '\n'),
        "{:?}",
        shown
    );
    Ok(())
}

/// The language's own tokens, in any order.
fn token_soup() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "image",
        "compute",
        "site1",
        "site2",
        "DC",
        "1",
        "here",
        "around",
        "all",
        "any",
        "none",
        "weak",
        "eventual",
        "causal",
        "transactional",
        "strong",
        "replicas",
        "ttl",
        "24h",
        "10ms",
        "region",
        "west",
        "read",
        "local",
        "failover",
        "auto",
        "on-conflict",
        "custom.x",
        "wait",
        "\"here\"",
        "\"10\"",
        "\"a b\"",
        "\"",
        "\\",
        "{",
        "}",
        "(",
        ")",
        "(",
        ")",
        ":",
        ":",
        ",",
        "=",
        ";",
        "||",
        "|",
        "+",
        "%",
        "&",
        "&",
        " ",
        "\n",
        "\t",
        "é",
        "\u{9b}",
        "2",
        "0",
        "1.5",
        "image: ",
        "strong(",
        "all(region=",
        "around(site1, ",
        "replicas(2, ",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

/// Texts that mostly resolve in the world `sites`.
fn a_scope_of_the_world() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "site1",
        "site2",
        "site3",
        "site4",
        "here",
        "all(region=west)",
        "any(disk=ssd)",
        "around(site1, 10ms)",
        "around(here, 1s)",
        "all(region=north)",
        "site5",
    ])
    .prop_map(str::to_owned);
    let location = leaf.prop_recursive(5, 30, 4, |inner| {
        let group = |operator: &'static str| {
            let members = prop::collection::vec(inner.clone(), 2..4);
            members.prop_map(move |of| format!("({})", of.join(operator)))
        };
        let function = prop::sample::select(vec![
            ("none(", ")"),
            ("eventual(", ", ttl=1h)"),
            ("causal(", ")"),
            ("strong(", ")"),
            ("transactional(", ", wait=1s)"),
            ("replicas(1, ", ")"),
            ("replicas(3, ", ")"),
        ]);
        let call = (function, inner.clone())
            .prop_map(|((open, close), inner)| format!("{open}{inner}{close}"));
        prop_oneof![group(" & "), group(" + "), group("; "), call]
    });
    (location.clone(), location).prop_map(|(a, b)| format!("image: {a}, Nova: {b}"))
}

fn a_scope() -> impl Strategy<Value = Scope> {
    let binding = (a_name(), a_location()).prop_map(|(service, location)| Binding {
        service: ServiceName::new(&service).expect("it is a name"),
        span: NOWHERE,
        location,
    });
    prop::collection::vec(binding, 0..4).prop_map(|bindings| Scope { bindings })
}

/// Built as everybody has to build them: lists through the functions of `Location`.
fn a_location() -> impl Strategy<Value = Location> {
    let site = a_name()
        .prop_map(|name| Location::Site(SiteName::new(&name).expect("it is a name"), NOWHERE));
    let leaf = prop_oneof![6 => site, 1 => Just(Location::Here(NOWHERE))];
    leaf.prop_recursive(6, 24, 4, |inner| {
        let members = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            members().prop_map(Location::first),
            members().prop_map(Location::span_over),
            members().prop_map(Location::replicate),
            a_call(inner.clone()),
        ]
    })
}

fn a_call(inner: impl Strategy<Value = Location> + Clone) -> impl Strategy<Value = Location> {
    let argument = prop_oneof![
        3 => inner.prop_map(Argument::Location),
        1 => a_pair(),
        1 => "[0-9]{1,3}(\\.[0-9]{1,2})?(us|ms|s|m|h|d)?".prop_map(|text| {
            Argument::Literal(Literal { text: text.into(), span: NOWHERE })
        }),
    ];
    (
        "[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,6}",
        prop::collection::vec(argument, 0..4),
    )
        .prop_map(|(function, arguments)| {
            Location::Call(Call {
                function: function.into(),
                name_span: NOWHERE,
                span: NOWHERE,
                arguments,
            })
        })
}

fn a_pair() -> impl Strategy<Value = Argument> {
    let value = prop_oneof![
        "[a-z0-9_][a-z0-9_.-]{0,6}",
        "[\"\\\\ a-zé=,;&(){}]{0,8}",
        "\\PC{0,8}",
    ];
    ("[a-zA-Z0-9_][a-z_.-]{0,6}", value).prop_map(|(key, value)| {
        Argument::Pair(Pair {
            key: key.into(),
            key_span: NOWHERE,
            value: value.into(),
            value_span: NOWHERE,
        })
    })
}

fn a_name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9_.-]{1,6}( [a-zA-Z0-9_.-]{1,4}){0,2}",
        2 => "[0-9]{1,3}(\\.[0-9]{1,2})?(us|ms|s|m|h|d|)",
        1 => prop::sample::select(vec!["here", "all", "around", "10 ms", "-edge", "a -b", ".", "1."])
            .prop_map(str::to_owned),
        1 => "[a-z]{64}",
    ]
}
