//! Golden files: requests and answers of real APIs, and what becomes of them. Reviewed by hand.
//!
//! A file is a list of sections. After `=== name` stand `profile NAME`, `replicant KIND LOCAL META` and the
//! lines of a request (`> `) and of its answer (`< `). What follows is what the code makes of it.
//! `UPDATE_GOLDEN=1 cargo test -p cheops-rest --test golden` writes it anew.

#![allow(clippy::unwrap_used, reason = "a test, and so may what it calls")]

mod common;

use std::fmt::Write;
use std::path::Path;

use cheops_rest::{Answer, Api, Body, CallKind, Fields, Meaning, Side};
use common::World;

#[test]
fn requests_and_answers_become_what_they_should() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut count = 0;
    for file in files {
        let expected = std::fs::read_to_string(&file).unwrap();
        let mut found = String::new();
        for section in sections(&expected) {
            let _ = writeln!(found, "{}{}", section.given, section.result());
            count += 1;
        }
        compare(&file, &expected, &found);
    }
    assert!(count >= 40, "{count}");
}

#[derive(Default)]
struct Section {
    given: String,
    profile: String,
    world: World,
    request: Vec<String>,
    answer: Vec<String>,
}

fn sections(file: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in file.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        if bare.starts_with("=== ") {
            sections.push(Section::default());
        }
        let section = sections.last_mut().expect("a file begins with a section");
        let mut words = bare.split(' ');
        match words.next().unwrap() {
            "===" => (),
            "profile" => section.profile = words.next().unwrap().to_owned(),
            "replicant" => {
                let mut word = || words.next().unwrap().to_owned();
                section.world.0.push((word(), word(), word()));
            }
            ">" => section
                .request
                .push(bare.get(2..).unwrap_or_default().to_owned()),
            "<" => section
                .answer
                .push(bare.get(2..).unwrap_or_default().to_owned()),
            _ => continue,
        }
        section.given += line;
    }
    sections
}

/// First line, headers, body.
struct Message {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Message {
    fn read(lines: &[String]) -> Option<Message> {
        let (line, rest) = lines.split_first()?;
        let blank = rest.iter().position(String::is_empty).unwrap_or(rest.len());
        let split = |line: &String| {
            line.split_once(": ")
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
        };
        Some(Message {
            line: line.clone(),
            headers: rest[..blank].iter().filter_map(split).collect(),
            body: rest.get(blank + 1..).unwrap_or_default().join("\n"),
        })
    }

    fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn body<'b>(&'b self, side: Side, kind: Option<&'b str>) -> Body<'b> {
        Body {
            side,
            kind,
            media: self.header("content-type"),
            encoding: self.header("content-encoding"),
            bytes: self.body.as_bytes(),
        }
    }
}

impl Section {
    fn result(&self) -> String {
        let api = common::api(&self.profile);
        let request = Message::read(&self.request).expect("a section has a request");
        let (method, target) = request.line.split_once(' ').unwrap();
        let known = |id: &cheops_rest::Id<'_>| self.world.to_local(id).is_some();
        let meaning = api.classify_knowing(method, target, known);
        let kind = meaning.spot().map(|spot| spot.kind);
        let mut out = String::new();
        let _ = writeln!(out, "means    {}", shown(&meaning));
        self.request_ids(&api, target, &request, kind, &mut out);
        self.local(&api, &request, method, target, kind, &mut out);
        writes(&api, &meaning, &request, method, &mut out);
        if let Some(answer) = Message::read(&self.answer) {
            self.answer(&api, &answer, &request, &meaning, &mut out);
        }
        out
    }

    fn request_ids(
        &self,
        api: &Api,
        target: &str,
        request: &Message,
        kind: Option<&str>,
        out: &mut String,
    ) {
        let mut found = Vec::new();
        api.target_ids(target, |id, range| {
            found.push(format!("{:?} {}", id.place, &target[range]))
        });
        let fault = api.body_ids(&request.body(Side::Request, kind), |id, range| {
            found.push(format!("{:?} {}", id.place, &request.body[range]));
        });
        let _ = writeln!(out, "ids      {}", found.join(", "));
        if let Err(fault) = fault {
            let _ = writeln!(out, "fault    {fault}");
        }
    }

    fn local(
        &self,
        api: &Api,
        request: &Message,
        method: &str,
        target: &str,
        kind: Option<&str>,
        out: &mut String,
    ) {
        let map = |id: &cheops_rest::Id<'_>| self.world.to_local(id);
        let local = api.rewrite_target(target, map);
        if local != target {
            let _ = writeln!(out, "local    {method} {local}");
        }
        if let Ok(body) = api.rewrite_body(&request.body(Side::Request, kind), map)
            && *body != *request.body.as_bytes()
        {
            let body = String::from_utf8(body.into_owned()).unwrap();
            body.lines()
                .for_each(|line| _ = writeln!(out, "local    {line}"));
        }
    }

    fn answer(
        &self,
        api: &Api,
        answer: &Message,
        request: &Message,
        meaning: &Meaning<'_>,
        out: &mut String,
    ) {
        let kind = meaning.spot().map(|spot| spot.kind);
        let status: u16 = answer.line.parse().unwrap();
        let _ = writeln!(
            out,
            "class    {:?}",
            api.class(meaning.call(), status, answer.body.as_bytes())
        );
        let map = |id: &cheops_rest::Id<'_>| self.world.to_meta(id);
        if meaning.call() == CallKind::Create {
            let kind = kind.unwrap();
            let headers: Vec<(&str, &str)> = answer
                .headers
                .iter()
                .map(|(a, b)| (a.as_str(), b.as_str()))
                .collect();
            let answer = Answer {
                headers: &headers,
                body: answer.body.as_bytes(),
            };
            let created = api.created(kind, None, request.body.as_bytes(), &answer);
            let _ = writeln!(out, "created  {created:?}");
        }
        for (name, value) in &answer.headers {
            let new = api.rewrite_header(name, value, map);
            if new != *value {
                let _ = writeln!(out, "meta     {name}: {new}");
            }
        }
        match api.rewrite_body(&answer.body(Side::Answer, kind), map) {
            Ok(body) if *body != *answer.body.as_bytes() => {
                let body = String::from_utf8(body.into_owned()).unwrap();
                body.lines()
                    .for_each(|line| _ = writeln!(out, "meta     {line}"));
            }
            Ok(_) => (),
            Err(fault) => _ = writeln!(out, "fault    {fault}"),
        }
    }
}

fn writes(api: &Api, meaning: &Meaning<'_>, request: &Message, method: &str, out: &mut String) {
    let media = request.header("content-type");
    let body = request.body.as_bytes();
    let written = match meaning {
        Meaning::Create { spot, .. } => api.written_by_create(spot.kind, media, body),
        Meaning::Update { item, .. } => {
            api.written_by_update(item, method, media, body, &Fields::new())
        }
        _ => return,
    };
    match written {
        Ok(written) => {
            for (name, value) in &written.fields {
                let _ = writeln!(out, "writes   {name:?} = {value}");
            }
            if let Some(opaque) = written.opaque {
                let _ = writeln!(out, "opaque   {opaque:?}");
            }
        }
        Err(fault) => _ = writeln!(out, "fault    {fault}"),
    }
}

fn shown(meaning: &Meaning<'_>) -> String {
    let mut text = format!("{:?}", meaning.call()).to_lowercase();
    if matches!(meaning, Meaning::List(_)) {
        "list".clone_into(&mut text);
    }
    if let Some(spot) = meaning.spot() {
        let _ = write!(text, " {} of {}", spot.kind, spot.collection);
        if let Some((kind, id)) = spot.parent {
            let _ = write!(text, ", below {kind} {id}");
        }
    }
    if let Some(item) = meaning.item() {
        let _ = write!(text, ", id {}", item.id);
        if !item.sub.is_empty() {
            let _ = write!(text, ", its {}", item.sub);
        }
        if item.repeatable {
            text += ", repeatable";
        }
    }
    if let Meaning::Update {
        absent: cheops_rest::Absent::Made,
        ..
    } = meaning
    {
        text += ", made if absent";
    }
    text
}

fn compare(path: &Path, expected: &str, found: &str) {
    if expected == found {
        return;
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(path, found).unwrap();
    }
    let differs = expected
        .split("=== ")
        .zip(found.split("=== "))
        .find(|(old, new)| old != new);
    let (old, new) = differs.unwrap_or((expected, found));
    panic!(
        "{} has changed (UPDATE_GOLDEN=1 writes it anew):\nexpected {old}\nfound {new}",
        path.display()
    );
}
