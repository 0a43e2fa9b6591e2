//! Any bytes as a profile's request and answer: nothing may panic, no byte outside an id may change, and what is
//! rewritten is JSON where it was JSON. A look for ids as words misses none.

#![no_main]

use std::borrow::Cow;
use std::sync::LazyLock;

use cheops_rest::{Answer, Api, Body, CallKind, Fields, Id, Lengths, Meaning, Side, is_plain_id, may_name};
use libfuzzer_sys::fuzz_target;

static APIS: LazyLock<Vec<Api>> = LazyLock::new(|| {
    let profiles = [
        include_str!("../../profiles/rest.toml"),
        include_str!("../../profiles/openstack-image.toml"),
        include_str!("../../profiles/openstack-compute.toml"),
        include_str!("../../profiles/pocketbase.toml"),
    ];
    let read = |text: &&str| Api::compile(&toml::from_str(text).unwrap()).unwrap();
    profiles.iter().map(read).collect()
});

// The first line is a method and a target, the rest a body.
fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(&bytes[..end]);
    let (method, target) = line.split_once(' ').unwrap_or(("PATCH", &line));
    let body = bytes.get(end + 1..).unwrap_or_default();
    for api in APIS.iter() {
        one(api, method, target, body);
    }
});

fn one(api: &Api, method: &str, target: &str, bytes: &[u8]) {
    let meaning = api.classify(method, target);
    assert_eq!(api.rewrite_target(target, |_| None), target);
    let _ = api.rewrite_target(target, |id| Some(Cow::Owned(format!("{}é", id.text))));
    let _ = api.rewrite_header("link", target, |_| Some(Cow::Borrowed("7")));
    let kind = meaning.spot().map_or("image", |spot| spot.kind);
    let answer = Answer { headers: &[("location", target), ("link", target)], body: bytes };
    for (side, media) in [
        (Side::Request, "application/json"),
        (Side::Answer, "application/json"),
        (Side::Request, "application/json-patch+json"),
    ] {
        let body = Body { side, kind: Some(kind), media: Some(media), encoding: None, bytes };
        if let Ok(same) = api.rewrite_body(&body, |_| None) {
            assert_eq!(*same, *bytes);
            let new = api.rewrite_body(&body, |id| Some(Cow::Owned(format!("{}\"", id.text)))).unwrap();
            let again = Body { bytes: &new, ..body };
            assert!(api.rewrite_body(&again, |_| None).is_ok());
        }
        let _ = api.body_ids(&body, |id: Id<'_>, _| {
            let sought = id.text.as_bytes();
            assert!(!is_plain_id(&id.text) || may_name(bytes, Lengths::of(sought), |word| word == sought));
        });
    }
    let desired = Fields::from([("tags".to_owned(), "[1]".to_owned()), ("a/b".to_owned(), "1".to_owned())]);
    if let Meaning::Update { item, .. } = &meaning {
        for media in ["application/json", "application/json-patch+json", "application/merge-patch+json"] {
            if let Ok(written) = api.written_by_update(item, method, Some(media), bytes, &desired) {
                let fields = written.over(&desired);
                for way in api.updates(kind) {
                    let _ = api.update_calls(kind, way, target, &fields, &[], &desired);
                }
            }
        }
    }
    let fields = api.written_by_create(kind, None, bytes).map(|written| written.fields).unwrap_or_default();
    let _ = api.create_calls(kind, target, &fields, None, Some("9"));
    let _ = api.created(kind, None, bytes, &answer);
    let _ = api.class(CallKind::Create, 400, bytes);
    let _ = api.merge(kind, &[&[answer], &[answer]]);
    let _ = api.diff(kind, &[bytes, bytes], Some(&fields)).is_empty();
    let mut search = api.search(api.doubt_by(kind), kind, target, &fields, None, "9");
    let _ = search.read(api, 200, &answer, |_| false);
    let _ = api.still_has(kind, bytes, &fields);
}
