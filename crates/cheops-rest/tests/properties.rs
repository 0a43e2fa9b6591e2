//! What holds for every body, path and header, and for all bytes that are none.

#![allow(clippy::unwrap_used, reason = "a test, and so may what it calls")]

mod common;

use std::borrow::Cow;
use std::ops::Range;

use cheops_rest::{Answer, Api, Body, CallKind, Fields, Id, Meaning, Side};
use common::World;
use proptest::prelude::*;

const LOCAL: &str = "9f6c1a52-7f0e-4a53-9f3e-0c1f3a9b2d11";
const META: &str = "72d5c1a0-0000-4000-8000-00000000000a";
const PROFILES: &[&str] = &[
    "rest",
    "openstack-image",
    "openstack-compute",
    "docker-registry",
    "pocketbase",
];

fn body<'b>(side: Side, kind: Option<&'b str>, media: &'b str, bytes: &'b [u8]) -> Body<'b> {
    Body {
        side,
        kind,
        media: Some(media),
        encoding: None,
        bytes,
    }
}

fn world() -> World {
    let replicant =
        |kind: &str, local: &str, meta: &str| (kind.to_owned(), local.to_owned(), meta.to_owned());
    World(vec![
        replicant("images", LOCAL, META),
        replicant("images", "7", "4503599627370497"),
    ])
}

/// A scalar, often an id.
fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(format!("\"{LOCAL}\"")),
        Just("7".to_owned()),
        Just("\"7\"".to_owned()),
        Just(format!("\"http://h/images/{LOCAL}?image_id={LOCAL}\"")),
        Just("\"\\/images\\/7\\/file\"".to_owned()),
        Just("\"\\u0037\"".to_owned()),
        Just("null".to_owned()),
        "-?[1-9][0-9]{0,3}(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        "\"[ -!#-\\[\\]-~é]{0,12}\"",
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("id"),
        Just("uuid"),
        Just("name"),
        Just("image_id"),
        Just("imageRef"),
        Just("self"),
        Just("links"),
        Just("image"),
        Just("images"),
        Just("items"),
        Just("size"),
        Just("i\\u0064"),
        Just("parent_id"),
    ]
    .prop_map(str::to_owned)
}

/// JSON with blanks, repeated members and ids everywhere.
fn json() -> impl Strategy<Value = String> {
    scalar().prop_recursive(4, 40, 6, |inner| {
        let blank = prop_oneof![Just(""), Just(" "), Just("\n\t")];
        prop_oneof![
            (
                proptest::collection::vec(inner.clone(), 0..5),
                blank.clone()
            )
                .prop_map(|(items, blank)| format!(
                    "[{blank}{}]",
                    items.join(&format!("{blank},"))
                )),
            (proptest::collection::vec((key(), inner), 0..6), blank).prop_map(
                |(members, blank)| {
                    let members: Vec<String> = members
                        .iter()
                        .map(|(key, value)| format!("{blank}\"{key}\"{blank}:{value}"))
                        .collect();
                    format!("{{{}{blank}}}", members.join(","))
                }
            ),
        ]
    })
}

/// Every id with its place, in order.
fn spans(api: &Api, body: &Body<'_>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    api.body_ids(body, |_, range| found.push(range)).unwrap();
    found.sort_by_key(|range| range.start);
    found
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn replacing_ids_by_themselves_changes_no_byte(text in json()) {
        let api = common::api("rest");
        for side in [Side::Request, Side::Answer] {
            let body = body(side, Some("images"), "application/json", text.as_bytes());
            let same = api.rewrite_body(&body, |id| Some(Cow::Owned(id.text.to_string()))).unwrap();
            prop_assert_eq!(&*same, text.as_bytes());
            prop_assert_eq!(&*api.rewrite_body(&body, |_| None).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn there_and_back_is_the_same(text in json()) {
        let (api, world) = (common::api("rest"), world());
        prop_assume!(!text.contains("\\u00"));
        let there = body(Side::Answer, Some("images"), "application/json", text.as_bytes());
        let meta = api.rewrite_body(&there, |id| world.to_meta(id)).unwrap();
        let back = body(Side::Answer, Some("images"), "application/json", &meta);
        let local = api.rewrite_body(&back, |id| world.to_local(id)).unwrap();
        prop_assert_eq!(&*local, text.as_bytes());
    }

    #[test]
    fn nothing_outside_the_ids_changes(text in json()) {
        let (api, world) = (common::api("rest"), world());
        let given = body(Side::Answer, Some("images"), "application/json", text.as_bytes());
        let spans = spans(&api, &given);
        for pair in spans.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start, "{:?}", spans);
        }
        let new = api.rewrite_body(&given, |id| world.to_meta(id)).unwrap();
        let new = String::from_utf8(new.into_owned()).unwrap();
        // What is between the ids has to be found in the same order, from the first byte to the last.
        let mut rest = new.as_str();
        let mut at = 0;
        for span in &spans {
            let between = &text[at..span.start];
            let found = rest.find(between);
            prop_assert!(found.is_some(), "{between:?} is not in {rest:?}");
            rest = &rest[found.unwrap() + between.len()..];
            at = span.end;
        }
        prop_assert!(rest.ends_with(&text[at..]));
        prop_assert!(serde_json::from_str::<serde_json::Value>(&new).is_ok());
    }

    #[test]
    fn an_answer_in_meta_ids_names_no_local_one(text in json()) {
        let (api, world) = (common::api("rest"), world());
        let given = body(Side::Answer, Some("images"), "application/json", text.as_bytes());
        let meta = api.rewrite_body(&given, |id| world.to_meta(id)).unwrap().into_owned();
        let again = body(Side::Answer, Some("images"), "application/json", &meta);
        let mut left = Vec::new();
        api.body_ids(&again, |id, _| {
            if world.to_meta(&id).is_some() {
                left.push(id.text.to_string());
            }
        }).unwrap();
        prop_assert_eq!(left, Vec::<String>::new());
    }

    #[test]
    fn our_json_is_theirs(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in json()) {
        let api = common::api("rest");
        for bytes in [bytes.as_slice(), text.as_bytes(), &text.as_bytes()[..text.len() / 2]] {
            let ours = api.rewrite_body(&body(Side::Answer, None, "application/json", bytes), |_| None).is_ok();
            let theirs = serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
            let blank = bytes.iter().all(u8::is_ascii_whitespace);
            // Control characters and unknown escapes in strings are passed on: services write them.
            prop_assert!(ours || !theirs || blank, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_is_taken_apart_and_made_again_is_the_same_value(text in json()) {
        let api = common::api("rest");
        let Ok(wanted @ serde_json::Value::Object(_)) = serde_json::from_str(&text) else { return Ok(()) };
        prop_assume!(!text.contains("self") && !text.contains("links"));
        let written = api.written_by_create("images", Some("application/json"), text.as_bytes()).unwrap();
        let calls = api.create_calls("images", "/images", &written.fields, None, None).unwrap();
        let cheops_rest::CallBody::Json(made) = &calls[0].body else { panic!("{calls:?}") };
        let made: serde_json::Value = serde_json::from_slice(made).unwrap();
        prop_assert_eq!(made, wanted);
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        text in "\\PC{0,60}",
        path in "(/[a-z0-9%?&=:.{}+-]{0,8}){0,6}",
        status in any::<u16>(),
    ) {
        for profile in PROFILES {
            everything(&common::api(profile), &bytes, &text, &path, status);
        }
    }

    #[test]
    fn no_json_makes_it_panic(text in json(), path in "(/(images|servers|7|file|v2)){0,5}", status in any::<u16>()) {
        for profile in PROFILES {
            everything(&common::api(profile), text.as_bytes(), &text, &path, status);
        }
    }
}

/// Calls whatever there is.
fn everything(api: &Api, bytes: &[u8], text: &str, path: &str, status: u16) {
    let map = |id: &Id<'_>| Some(Cow::Owned(format!("{}\"é", id.text)));
    for target in [text, path] {
        api.target_ids(target, |_, range| _ = &target[range]);
        let _ = api.rewrite_target(target, map);
        let _ = api.rewrite_header("location", target, map);
        let _ = api.rewrite_header("link", target, map);
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "X"] {
            let meaning = api.classify_knowing(method, target, |id| id.text.len() == 3);
            if let Meaning::Update { item, .. } = meaning {
                let desired = Fields::from([
                    ("tags".to_owned(), "[1]".to_owned()),
                    ("a/b".to_owned(), "1".to_owned()),
                ]);
                for media in [
                    "application/json",
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ] {
                    if let Ok(written) =
                        api.written_by_update(&item, method, Some(media), bytes, &desired)
                    {
                        let fields = written.over(&desired);
                        for way in api.updates(item.spot.kind) {
                            let _ = api.update_calls(
                                item.spot.kind,
                                way,
                                target,
                                &fields,
                                &[],
                                &desired,
                            );
                        }
                    }
                }
            }
        }
    }
    let answer = Answer {
        headers: &[("link", text), ("location", text)],
        body: bytes,
    };
    for kind in ["image", "images", "server", "record", "manifest"] {
        for side in [Side::Request, Side::Answer] {
            for media in [
                "application/json",
                "application/json-patch+json",
                "text/plain",
            ] {
                let _ = api.rewrite_body(&body(side, Some(kind), media, bytes), map);
            }
        }
        let _ = api.created(kind, None, bytes, &answer);
        let _ = api.class(CallKind::Create, status, bytes);
        let _ = api.ready(kind, bytes);
        let _ = api.marked(kind, bytes, text);
        let _ = api.with_id(kind, bytes, text);
        let _ = api.merge(kind, &[&[answer], &[answer, answer]]);
        let _ = api.diff(kind, &[bytes, text.as_bytes()], None);
        let fields = api
            .written_by_create(kind, None, bytes)
            .map(|written| written.fields)
            .unwrap_or_default();
        let _ = api.create_calls(kind, path, &fields, Some(text), Some(text));
        let mut search = api.search(api.doubt_by(kind), kind, path, &fields, None, text);
        let _ = search.read(api, status, &answer, |_| false);
        let _ = search.read(api, 200, &answer, |_| false);
        let _ = api.still_has(kind, bytes, &fields);
    }
}
