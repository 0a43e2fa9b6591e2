//! A look for ids as words misses none that rewriting finds, however it is written.

#![allow(clippy::unwrap_used, reason = "a test, and so may what it calls")]

mod common;

use std::borrow::Cow;
use std::sync::LazyLock;

use cheops_model::profile::Reach;
use cheops_rest::{Api, Body, Id, Lengths, Side, is_plain_id, may_name};
use proptest::prelude::*;

const UUID: &str = "9f6c1a52-7f0e-4a53-9f3e-0c1f3a9b2d11";
const PROFILES: &[&str] = &[
    "rest",
    "openstack-image",
    "openstack-compute",
    "docker-registry",
    "pocketbase",
];

/// Ids, what stands between them, and the ways in which either can be written.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        UUID,
        "7",
        "42",
        "a-b",
        "r.2_x~",
        "images",
        "image_id",
        "id",
        "library/alpine",
        "sha256:ab",
        "/",
        "/",
        "/",
        "?",
        "&",
        "=",
        ",",
        "#",
        ":",
        "@",
        " ",
        "<",
        ">",
        "-",
        ".",
        "http://h",
        "é",
        "\\/",
        "\\u002f",
        "\\u002F",
        "\\u0026",
        "\\u0037",
        "\\u002d",
        "\\x",
        "\\7",
        "\\n",
        "\\t",
        "\\\"",
        "\\\\",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\ud83d\\u0037",
        "%37",
        "%2d",
        "%2F",
        "%20",
        "%",
        "%zz",
        "/images/%37",
        "/images/a%2Db",
        "/images/\\u0037",
        "\\/images\\/7",
        "/images?image_id=%37,42",
    ])
}

fn scalar() -> impl Strategy<Value = String> {
    let text =
        prop::collection::vec(piece(), 0..6).prop_map(|text| format!("\"{}\"", text.concat()));
    let number = prop::sample::select(vec!["7", "42", "-7", "7.5", "7e1", "742", "null", "true"]);
    prop_oneof![4 => text, 1 => number.prop_map(str::to_owned)]
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "id", "uuid", "name", "image_id", "imageRef", "self", "links", "href", "next", "image",
        "images", "items", "size", "i\\u0064", "records", "7",
    ])
}

fn json() -> impl Strategy<Value = String> {
    scalar().prop_recursive(4, 40, 6, |inner| {
        let blank = || prop::sample::select(vec!["", " ", "\n\t"]);
        let list = (prop::collection::vec(inner.clone(), 0..5), blank());
        let object = (prop::collection::vec((key(), inner), 0..6), blank());
        prop_oneof![
            list.prop_map(|(items, blank)| format!(
                "[{blank}{}]",
                items.join(&format!("{blank},"))
            )),
            object.prop_map(|(members, blank)| {
                let member =
                    |(key, value): &(&str, String)| format!("{blank}\"{key}\"{blank}:{value}");
                let members: Vec<String> = members.iter().map(member).collect();
                format!("{{{}{blank}}}", members.join(","))
            }),
        ]
    })
}

/// Every way in which ids are looked for.
static APIS: LazyLock<Vec<Api>> = LazyLock::new(|| {
    let mut apis: Vec<Api> = PROFILES.iter().map(|name| common::api(name)).collect();
    for reach in [Reach::Named, Reach::Unmistakable, Reach::Everywhere] {
        let mut profile = common::profile("rest");
        profile.ids.reach = reach;
        apis.push(Api::compile(&profile).unwrap());
    }
    apis
});

fn body<'b>(kind: Option<&'b str>, bytes: &'b [u8]) -> Body<'b> {
    Body {
        side: Side::Answer,
        kind,
        media: Some("application/json"),
        encoding: None,
        bytes,
    }
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    for (api, kind) in APIS
        .iter()
        .flat_map(|api| [(api, None), (api, Some("images"))])
    {
        let body = body(kind, bytes);
        let mut missed = Vec::new();
        let mut look = |id: Id<'_>| {
            let sought = id.text.as_bytes();
            if is_plain_id(&id.text) && !may_name(bytes, Lengths::of(sought), |word| word == sought)
            {
                missed.push(id.text.to_string());
            }
        };
        let _ = api.body_ids(&body, |id, _| look(id));
        prop_assert_eq!(missed, Vec::<String>::new());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3_000) })]

    #[test]
    fn whatever_rewriting_finds_is_seen(text in json()) {
        check(text.as_bytes())?;
    }

    #[test]
    fn whatever_is_found_in_half_a_body_or_none_is_seen(
        text in json(),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        cut in any::<prop::sample::Index>(),
    ) {
        check(&text.as_bytes()[..cut.index(text.len() + 1)])?;
        check(&bytes)?;
    }

    #[test]
    fn a_body_in_which_nothing_is_seen_stays_what_it_is(
        text in json(),
        ids in prop::collection::btree_set(prop::sample::select(vec![UUID, "7", "42", "a-b", "r.2_x~", "x"]), 0..4),
    ) {
        let lengths = ids.iter().fold(0, |all, id| all | Lengths::of(id.as_bytes()).0);
        let is_one = |word: &[u8]| ids.iter().any(|id| id.as_bytes() == word);
        if may_name(text.as_bytes(), Lengths(lengths), is_one) {
            return Ok(());
        }
        for api in APIS.iter() {
            let map = |id: &Id<'_>| ids.contains(&*id.text).then_some(Cow::Borrowed("other"));
            let same = api.rewrite_body(&body(Some("images"), text.as_bytes()), map);
            prop_assert_eq!(&*same.unwrap(), text.as_bytes());
        }
    }
}
