//! Any bytes: no panic, errors within the text, and whatever is a scope prints and parses back.

#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use cheops_scope::{Explanation, Paint, ScopeError, World, parse, parse_bytes, render};
use libfuzzer_sys::fuzz_target;

static WORLD: LazyLock<World> = LazyLock::new(world);

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let scope = match parse_bytes(bytes) {
        Ok(scope) => scope,
        Err(error) => return show(&error, bytes, &text),
    };
    let printed = scope.to_string();
    // Blanks that the canonical form adds may take a long text past the limit.
    if printed.len() <= cheops_scope::limits::TEXT_BYTES_MAX {
        let again = parse(&printed).expect("the canonical form is a scope");
        assert_eq!(again, scope, "{printed}");
        assert_eq!(again.to_string(), printed);
    }
    let checked = match scope.check() {
        Ok(checked) => checked,
        Err(error) => return show(&error, bytes, &text),
    };
    match Explanation::of(&checked, &WORLD) {
        Ok(explanation) => {
            explanation.text();
            for (_, plan) in checked.resolve(&WORLD).expect("it was explained").plans {
                plan.for_each_site(&mut |site| assert!(WORLD.site(site.as_str()).is_some()));
            }
        }
        Err(error) => show(&error, bytes, &text),
    }
});

fn show(error: &ScopeError, bytes: &[u8], text: &str) {
    let at = error.position;
    assert!(at.start <= at.end && at.end <= bytes.len(), "{error:?}");
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(
            text.is_char_boundary(at.start) && text.is_char_boundary(at.end),
            "{error:?}"
        );
    }
    render(error, text, Paint::Plain);
    render(error, text, Paint::Colour);
}

fn world() -> World {
    let name = |text: &str| text.parse().expect("it is a name");
    let mut world = World::builder(name("site1"));
    for (site, region) in [
        ("site1", "west"),
        ("site2", "west"),
        ("site3", "east"),
        ("DC 1", ""),
    ] {
        let labels = [("region".to_owned(), region.to_owned())];
        world.site_with(name(site), labels.into_iter().collect(), site != "site3");
    }
    for site in ["a", "b", "c", "10", "10ms", "here"] {
        world.site(name(site));
    }
    world.round_trip(name("site1"), name("site2"), Duration::from_millis(5));
    world.round_trip(name("site1"), name("a"), Duration::ZERO);
    world.service(
        "image".parse().expect("a name"),
        ["glance".parse().expect("a name")],
    );
    world.service("compute".parse().expect("a name"), []);
    world.service("s".parse().expect("a name"), []);
    world.service("t".parse().expect("a name"), []);
    world.build()
}
