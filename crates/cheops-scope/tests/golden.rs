//! Golden files: scopes and what becomes of them, reviewed by hand against the language.
//!
//! A file is a list of sections. After `=== name` stand a world and the text of a scope: `> ` a
//! line of it, `+ ` more of the same line, `*N ` the same N times. What follows is what the code
//! makes of it. `UPDATE_GOLDEN=1 cargo test -p cheops-scope --test golden` writes it anew.

// A test may unwrap, and so may what it calls.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use cheops_scope::{Checked, ErrorKind, Explanation, Paint, Resolved, ScopeError, World};
use cheops_scope::{parse, render};

#[test]
fn good_scopes_give_their_canonical_form_and_plans() {
    let sections = check("good", |section| {
        let world = common::world(&section.world);
        let (checked, resolved) = resolve(&section.text, &world)
            .unwrap_or_else(|error| panic!("{}: {error:?}", section.name));
        let mut out = format!("canonical {}\n", checked.scope());
        for (service, plan) in &resolved.plans {
            let _ = writeln!(out, "{service} {}", serde_json::to_string(plan).unwrap());
        }
        out
    });
    assert!(sections.len() >= 60, "{}", sections.len());
}

#[test]
fn bad_scopes_are_explained_to_people_and_programs() {
    let mut seen = BTreeSet::new();
    let sections = check("bad", |section| {
        let world = common::world(&section.world);
        let Err(error) = resolve(&section.text, &world) else {
            panic!("{} is a good scope", section.name)
        };
        seen.insert(error.kind.word());
        let json = serde_json::to_string(&error).unwrap();
        format!("{}{json}\n", render(&error, &section.text, Paint::Plain))
    });
    assert!(sections.len() >= 40, "{}", sections.len());
    for kind in ErrorKind::ALL {
        assert!(seen.contains(kind.word()), "no example of {}", kind.word());
    }
}

#[test]
fn explanations_say_what_a_cut_does() {
    check("explain", |section| {
        let world = common::world(&section.world);
        let checked = parse(&section.text).unwrap().check().unwrap();
        Explanation::of(&checked, &world).unwrap().text()
    });
}

fn resolve(text: &str, world: &World) -> Result<(Checked, Resolved), ScopeError> {
    let checked = parse(text)?.check()?;
    let resolved = checked.resolve(world)?;
    Ok((checked, resolved))
}

/// Every golden file whose name starts with `group`, section by section.
fn check(group: &str, mut actual: impl FnMut(&Section) -> String) -> Vec<Section> {
    let mut all = Vec::new();
    for path in files(group) {
        let expected = std::fs::read_to_string(&path).unwrap();
        let (head, sections) = sections(&expected);
        let mut found = head;
        for section in &sections {
            let _ = writeln!(found, "{}{}", section.given, actual(section));
        }
        compare(&path, &expected, &found);
        all.extend(sections);
    }
    let names: BTreeSet<_> = all.iter().map(|section| &section.name).collect();
    assert_eq!(names.len(), all.len(), "two sections have one name");
    all
}

fn files(group: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(group)
    });
    paths.sort();
    assert!(!paths.is_empty(), "no golden file for {group}");
    paths
}

struct Section {
    name: String,
    /// The lines that say what is to be read, as they stand.
    given: String,
    world: String,
    text: String,
}

/// What stands before the first section, and the sections.
fn sections(file: &str) -> (String, Vec<Section>) {
    let mut head = String::new();
    let mut sections: Vec<Section> = Vec::new();
    for line in file.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        if let Some(name) = bare.strip_prefix("=== ") {
            sections.push(Section {
                name: name.to_owned(),
                given: line.to_owned(),
                world: String::new(),
                text: String::new(),
            });
        } else if let Some(section) = sections.last_mut() {
            if section.read(bare) {
                section.given += line;
            }
        } else {
            head += line;
        }
    }
    (head, sections)
}

impl Section {
    /// True if the line says what is to be read, false if it is a result.
    fn read(&mut self, line: &str) -> bool {
        if let Some(world) = line.strip_prefix("world ") {
            self.world = world.to_owned();
        } else if let Some(text) = line.strip_prefix("> ") {
            self.text += if self.text.is_empty() { "" } else { "\n" };
            self.text += text;
        } else if let Some(text) = line.strip_prefix("+ ") {
            self.text += text;
        } else if let Some((count, text)) = line.strip_prefix('*').and_then(|l| l.split_once(' ')) {
            self.text += &text.repeat(count.parse().unwrap());
        } else {
            return false;
        }
        true
    }
}

fn compare(path: &Path, expected: &str, found: &str) {
    if expected == found {
        return;
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(path, found).unwrap();
    }
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    panic!(
        "{file} has changed (UPDATE_GOLDEN=1 writes it anew):\n{}",
        diff(expected, found)
    );
}

/// The sections that differ: what was expected with `-`, what came with `+`.
fn diff(expected: &str, found: &str) -> String {
    let split = |text: &str| -> Vec<String> { text.split("=== ").map(str::to_owned).collect() };
    let mut out = String::new();
    for (old, new) in split(expected).iter().zip(&split(found)) {
        if old == new {
            continue;
        }
        let _ = writeln!(out, "=== {}", new.lines().next().unwrap_or_default());
        let lost = old
            .lines()
            .filter(|line| !new.lines().any(|other| other == *line));
        let came = new
            .lines()
            .filter(|line| !old.lines().any(|other| other == *line));
        lost.for_each(|line| _ = writeln!(out, "- {line}"));
        came.for_each(|line| _ = writeln!(out, "+ {line}"));
    }
    out
}
