//! What clients wrote, written again: updates, creates, searches, merged lists, differences.

#![allow(clippy::unwrap_used, reason = "a test, and so may what it calls")]

mod common;

use cheops_rest::{Answer, Api, CallBody, Fields, Found, Meaning, MergeFault, Step, UNSET};

fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn update(
    api: &Api,
    method: &str,
    target: &str,
    media: &str,
    body: &str,
    desired: &Fields,
) -> Fields {
    let Meaning::Update { item, .. } = api.classify(method, target) else {
        panic!("{method} {target}")
    };
    let written = api
        .written_by_update(&item, method, Some(media), body.as_bytes(), desired)
        .unwrap();
    written.over(desired)
}

/// Method, target and body of each call.
fn calls(
    api: &Api,
    kind: &str,
    item: &str,
    changed: &[(&str, &str)],
    desired: &[(&str, &str)],
) -> Vec<String> {
    let way = &api.updates(kind)[0];
    let made = api
        .update_calls(kind, way, item, &fields(changed), &[], &fields(desired))
        .unwrap();
    made.iter().map(shown).collect()
}

fn shown(call: &cheops_rest::Call) -> String {
    let body = match &call.body {
        CallBody::None => String::new(),
        CallBody::Json(body) => String::from_utf8(body.clone()).unwrap(),
        CallBody::Opaque(reference) => format!("<{reference}>"),
    };
    format!("{} {} {body}", call.method, call.target)
}

#[test]
fn a_put_of_the_whole_takes_away_what_it_does_not_name() {
    let api = common::api("rest");
    let before = fields(&[("name", "\"a\""), ("props/x", "1"), ("/file", "blob:1")]);
    let after = update(
        &api,
        "PUT",
        "/images/7",
        "application/json",
        r#"{"name": "b"}"#,
        &before,
    );
    assert_eq!(after, fields(&[("name", "\"b\""), ("props/x", UNSET)]));
}

#[test]
fn a_member_is_replaced_as_a_whole_and_a_merge_goes_into_it() {
    let api = common::api("rest");
    let before = fields(&[("name", "\"a\""), ("props/x", "1"), ("props/y", "2")]);
    let body = r#"{"props": {"x": 3}}"#;
    let replaced = update(
        &api,
        "PATCH",
        "/images/7",
        "application/json",
        body,
        &before,
    );
    assert_eq!(replaced, fields(&[("props/x", "3"), ("props/y", UNSET)]));
    let merged = update(
        &api,
        "PATCH",
        "/images/7",
        "application/merge-patch+json",
        body,
        &before,
    );
    assert_eq!(merged, fields(&[("props/x", "3")]));
    let scalar = update(
        &api,
        "PATCH",
        "/images/7",
        "application/json",
        r#"{"props": 1}"#,
        &before,
    );
    assert_eq!(
        scalar,
        fields(&[("props", "1"), ("props/x", UNSET), ("props/y", UNSET)])
    );
    let gone = update(
        &api,
        "PATCH",
        "/images/7",
        "application/merge-patch+json",
        r#"{"props": null}"#,
        &before,
    );
    assert_eq!(
        gone,
        fields(&[("props", UNSET), ("props/x", UNSET), ("props/y", UNSET)])
    );
}

#[test]
fn operations_of_a_patch_are_done_one_after_the_other() {
    let api = common::api("rest");
    let before = fields(&[("tags", r#"["a","b"]"#), ("props/x", "1"), ("old", "0")]);
    let patch = r#"[
        {"op": "test", "path": "/old", "value": 0},
        {"op": "add", "path": "/tags/-", "value": "c"},
        {"op": "remove", "path": "/tags/0"},
        {"op": "replace", "path": "/tags/0", "value": "B"},
        {"op": "move", "from": "/props", "path": "/moved"},
        {"op": "copy", "from": "/moved/x", "path": "/copied"},
        {"op": "remove", "path": "/old"}
    ]"#;
    let after = update(
        &api,
        "PATCH",
        "/images/7",
        "application/json-patch+json",
        patch,
        &before,
    );
    let wanted = [
        ("copied", "1"),
        ("moved/x", "1"),
        ("old", UNSET),
        ("props", UNSET),
        ("props/x", UNSET),
        ("tags", r#"["B","c"]"#),
    ];
    assert_eq!(after, fields(&wanted));
}

#[test]
fn versions_and_the_id_itself_are_not_written() {
    let api = common::api("rest");
    let body = r#"{"id": "7", "resourceVersion": "12", "metadata": {"generation": 3, "a": 1}}"#;
    let after = update(
        &api,
        "PUT",
        "/images/7",
        "application/json",
        body,
        &Fields::new(),
    );
    assert_eq!(after, fields(&[("metadata/a", "1")]));
}

#[test]
fn updates_have_the_form_the_profile_says() {
    let desired = [("name", "\"a\""), ("props/x", "1"), ("props/y", "2")];
    let rest = common::api("rest");
    let changed = [("props/x", "1"), ("old", UNSET)];
    let made = calls(&rest, "images", "/images/7", &changed, &desired);
    assert_eq!(
        made,
        [r#"PATCH /images/7 {"old":null,"props":{"x":1,"y":2}}"#]
    );
    let whole = &rest.updates("images")[1];
    let made = rest
        .update_calls(
            "images",
            whole,
            "/images/7",
            &fields(&changed),
            &[],
            &fields(&desired),
        )
        .unwrap();
    assert_eq!(
        shown(&made[0]),
        r#"PUT /images/7 {"name":"a","props":{"x":1,"y":2}}"#
    );
    let glance = common::api("openstack-image");
    let made = calls(
        &glance,
        "image",
        "/v2/images/u",
        &[("name", "\"a\""), ("old", UNSET), ("/file", "blob:1")],
        &desired,
    );
    let patch = r#"PATCH /v2/images/u [{"op":"add","path":"/name","value":"a"},{"op":"remove","path":"/old"}]"#;
    assert_eq!(made, [patch, "PUT /v2/images/u/file <blob:1>"]);
    let nova = common::api("openstack-compute");
    let desired = [("server/name", "\"a\""), ("server/imageRef", "\"i\"")];
    let made = calls(&nova, "server", "/v2.1/servers/u", &desired, &desired);
    assert_eq!(made, [r#"PUT /v2.1/servers/u {"server":{"name":"a"}}"#]);
    let merge = "name = \"x\"\n[[collection]]\npath = \"/a\"\nupdate = [{ method = \"PATCH\", form = \"merge\" }]";
    let made = calls(
        &common::compile(merge),
        "a",
        "/a/7",
        &changed,
        &[("props/x", "1")],
    );
    assert_eq!(made, [r#"PATCH /a/7 {"old":null,"props":{"x":1}}"#]);
}

#[test]
fn what_is_below_a_resource_cannot_be_taken_away() {
    let api = common::api("rest");
    let way = &api.updates("images")[0];
    let made = api.update_calls(
        "images",
        way,
        "/images/7",
        &Fields::new(),
        &["/file".to_owned()],
        &Fields::new(),
    );
    assert_eq!(made.unwrap_err().0, "/file");
}

#[test]
fn a_resource_is_made_again() {
    let glance = common::api("openstack-image");
    let has = fields(&[("name", "\"a\""), ("gone", UNSET), ("/file", "blob:1")]);
    let made = glance
        .create_calls("image", "/v2/images", &has, Some("u-1"), Some("9"))
        .unwrap();
    let made: Vec<String> = made.iter().map(shown).collect();
    assert_eq!(
        made,
        [
            r#"POST /v2/images {"id":"u-1","name":"a"}"#,
            "PUT /v2/images/{id}/file <blob:1>"
        ]
    );
    let nova = common::api("openstack-compute");
    let made = nova
        .create_calls(
            "server",
            "/v2.1/servers",
            &fields(&[("server/name", "\"a\"")]),
            None,
            Some("9"),
        )
        .unwrap();
    assert_eq!(
        shown(&made[0]),
        r#"POST /v2.1/servers {"server":{"name":"a","metadata":{"cheops":"9"}}}"#
    );
    let registry = common::api("docker-registry");
    let made = registry
        .create_calls(
            "manifest",
            "/v2/a/manifests",
            &fields(&[("", "blob:2")]),
            Some("v1"),
            None,
        )
        .unwrap();
    assert_eq!(shown(&made[0]), "PUT /v2/a/manifests/v1 <blob:2>");
    assert_eq!(
        made[0].headers,
        [("if-none-match".to_owned(), "*".to_owned())]
    );
    assert!(
        nova.create_calls("trait", "/x", &Fields::new(), None, None)
            .is_ok()
    );
    let placement = common::api("openstack-placement");
    assert!(
        placement
            .create_calls("trait", "/traits", &Fields::new(), None, None)
            .is_err()
    );
}

fn found(api: &Api, kind: &str, has: &[(&str, &str)], list: &str) -> Step {
    let how = api.doubt_by(kind);
    let mut search = api.search(how, kind, "/things", &fields(has), None, "9");
    let answer = Answer {
        headers: &[],
        body: list.as_bytes(),
    };
    search.read(api, 200, &answer, |id| id == "1")
}

#[test]
fn a_lost_create_is_found_by_what_it_has() {
    let api = common::api("rest");
    let has = [("name", "\"a\""), ("props/x", "1.0"), ("none", "null")];
    let item = |id: &str, x: &str| {
        format!(r#"{{"id":{id},"name":"a","props":{{"x":{x},"y":2}},"status":"new"}}"#)
    };
    let list = |items: &[String]| format!(r#"{{"things":[{}]}}"#, items.join(","));
    let find = |items: &[String]| found(&api, "things", &has, &list(items));
    assert_eq!(find(&[]), Step::Done(Found::None));
    assert_eq!(
        find(&[item("1", "1"), item("2", "1"), item("3", "2")]),
        Step::Done(Found::Ours("2".to_owned()))
    );
    assert_eq!(
        find(&[item("2", "1"), item("3", "1")]),
        Step::Done(Found::Several)
    );
    assert_eq!(find(&[item("1", "1")]), Step::Done(Found::None));
    // A list that shows less than there is proves nothing.
    let part = r#"{"things":[], "total": 40}"#;
    assert_eq!(
        found(&api, "things", &has, part),
        Step::Done(Found::Several)
    );
    // A create of nothing in particular could be anything.
    assert_eq!(found(&api, "things", &[], "[]"), Step::Done(Found::Several));
    assert!(api.still_has("things", item("2", "1").as_bytes(), &fields(&has)));
    assert!(!api.still_has("things", item("2", "7").as_bytes(), &fields(&has)));
}

#[test]
fn a_search_goes_from_page_to_page() {
    let api = common::api("rest");
    let has = fields(&[("name", "\"a\"")]);
    let mut search = api.search(api.doubt_by("things"), "things", "/things", &has, None, "9");
    assert_eq!(search.ask(), "/things");
    let read = |search: &mut cheops_rest::Search, status: u16, header: &str, body: &str| {
        let answer = Answer {
            headers: &[("Link", header)],
            body: body.as_bytes(),
        };
        search.read(&api, status, &answer, |_| false)
    };
    assert_eq!(read(&mut search, 503, "", ""), Step::AskAgain);
    let first = read(
        &mut search,
        200,
        "<http://h/things?page=2>; rel=\"next\"",
        r#"[{"id":1,"name":"b"}]"#,
    );
    assert_eq!(first, Step::Ask("/things?page=2".to_owned()));
    let second = read(
        &mut search,
        200,
        "",
        r#"{"things":[{"id":2,"name":"a"}],"next":"?page=3"}"#,
    );
    assert_eq!(second, Step::Ask("/things?page=3".to_owned()));
    assert_eq!(
        read(&mut search, 200, "", "[]"),
        Step::Done(Found::Ours("2".to_owned()))
    );
}

#[test]
fn a_lost_create_is_found_by_its_mark_or_its_chosen_id() {
    let nova = common::api("openstack-compute");
    let has = fields(&[("server/name", "\"a b\"")]);
    let mut search = nova.search(
        nova.doubt_by("server"),
        "server",
        "/v2.1/servers",
        &has,
        None,
        "9",
    );
    assert_eq!(search.ask(), "/v2.1/servers/detail?name=a%20b");
    let list = br#"{"servers":[{"id":"x","name":"a b","metadata":{}},{"id":"y","metadata":{"cheops":"9"}}]}"#;
    let step = search.read(
        &nova,
        200,
        &Answer {
            headers: &[],
            body: list,
        },
        |_| true,
    );
    assert_eq!(step, Step::Done(Found::Ours("y".to_owned())));
    let glance = common::api("openstack-image");
    let by_id = || {
        glance.search(
            glance.doubt_by("image"),
            "image",
            "/v2/images",
            &Fields::new(),
            Some("u-1"),
            "9",
        )
    };
    assert_eq!(by_id().ask(), "/v2/images/u-1");
    let answer = Answer {
        headers: &[],
        body: b"",
    };
    assert_eq!(
        by_id().read(&glance, 200, &answer, |_| true),
        Step::Done(Found::Ours("u-1".to_owned()))
    );
    assert_eq!(
        by_id().read(&glance, 404, &answer, |_| true),
        Step::Done(Found::None)
    );
    assert_eq!(
        by_id().read(&glance, 500, &answer, |_| true),
        Step::AskAgain
    );
}

fn merged(api: &Api, kind: &str, sites: &[&[&str]]) -> Result<String, MergeFault> {
    let answers: Vec<Vec<Answer<'_>>> = sites
        .iter()
        .map(|pages| {
            pages
                .iter()
                .map(|body| Answer {
                    headers: &[],
                    body: body.as_bytes(),
                })
                .collect()
        })
        .collect();
    let sites: Vec<&[Answer<'_>]> = answers.iter().map(Vec::as_slice).collect();
    api.merge(kind, &sites)
        .map(|body| String::from_utf8(body).unwrap())
}

#[test]
fn lists_of_several_sites_become_one() {
    let api = common::api("rest");
    let one = r#"{ "images" : [ {"id": 7} , {"id":8, "x": 1.0} ], "total": 2 }"#;
    let two = r#"{"images":[{"id":8,"x":2},{"id":9}]}"#;
    let both = r#"{ "images" : [ {"id": 7} , {"id":8, "x": 1.0} ,{"id":9}], "total": 2 }"#;
    assert_eq!(merged(&api, "images", &[&[one], &[two]]).unwrap(), both);
    assert_eq!(merged(&api, "images", &[&[one]]).unwrap(), one);
    assert_eq!(
        merged(&api, "images", &[&["[]"], &[r#"[{"id":9}]"#]]).unwrap(),
        r#"[{"id":9}]"#
    );
    assert_eq!(
        merged(&api, "images", &[&[one], &["{}"]]),
        Err(MergeFault::NoList(1))
    );
    assert_eq!(
        merged(&api, "images", &[&["oops"]]),
        Err(MergeFault::NoList(0))
    );
    assert_eq!(merged(&api, "images", &[]), Err(MergeFault::NoList(0)));
}

#[test]
fn pages_are_fetched_before_lists_are_merged() {
    let api = common::api("openstack-compute");
    let first = r#"{"servers":[{"id":"a"}],"servers_links":[{"rel":"next","href":"http://h/v2.1/servers?marker=a"}]}"#;
    let second = r#"{"servers":[{"id":"b"}]}"#;
    let fault = merged(&api, "server", &[&[second], &[first]]).unwrap_err();
    assert_eq!(
        fault,
        MergeFault::Paged {
            site: 1,
            next: "/v2.1/servers?marker=a".to_owned()
        }
    );
    let all = merged(&api, "server", &[&[first, second], &[second]]).unwrap();
    assert_eq!(
        all,
        r#"{"servers":[{"id":"a"},{"id":"b"}],"servers_links":[]}"#
    );
    let pocketbase = common::api("pocketbase");
    let page = |id: &str| format!(r#"{{"items":[{{"id":"{id}"}}],"page":1,"totalItems":1}}"#);
    let all = merged(&pocketbase, "record", &[&[&page("a")], &[&page("b")]]).unwrap();
    assert_eq!(
        all,
        r#"{"items":[{"id":"a"},{"id":"b"}],"page":1,"totalItems":2}"#
    );
}

#[test]
fn differences_are_those_of_what_clients_wrote() {
    let api = common::api("openstack-network");
    let one = br#"{"network":{"id":"m","name":"a","mtu":1500,"status":"ACTIVE","tags":["x"],"revision_number":1,"note":null}}"#;
    let two = br#"{"network":{"name":"b","id":"m","mtu":9000,"status":"DOWN","tags":[ "x" ],"revision_number":7}}"#;
    let names = |written: Option<&Fields>| -> Vec<String> {
        api.diff("network", &[one, two], written)
            .into_iter()
            .map(|each| each.field)
            .collect()
    };
    assert_eq!(names(None), ["mtu", "name"]);
    let written = fields(&[("network/name", "\"a\""), ("network/tags", "[\"x\"]")]);
    assert_eq!(names(Some(&written)), ["name"]);
    let difference = &api.diff("network", &[one, two], Some(&written))[0];
    assert_eq!(
        difference.values,
        [Some("\"a\"".to_owned()), Some("\"b\"".to_owned())]
    );
    assert_eq!(api.diff("network", &[one, one], None), []);
}
