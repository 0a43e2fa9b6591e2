//! `cheops lint`: profiles and configurations, checked before any agent runs.
//!
//! What a file is, its keys say: a configuration has a `site`, a profile a `name`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use cheops_model::Profile;
use cheops_rest::Api;
use serde::Serialize;
use toml::de::DeTable;

use crate::cli::{Format, FormatArgs};
use crate::config::Config;
use crate::terminal;

/// Something to be mended, or to look at.
#[derive(Serialize)]
struct Finding {
    file: String,
    /// From 1; none where the whole file is meant.
    line: Option<usize>,
    key: Option<String>,
    level: Level,
    fault: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Level {
    /// It works, and is probably not meant.
    Attention,
    /// It cannot be used.
    Failed,
}

pub(crate) fn run(files: &[PathBuf], format: &FormatArgs) -> anyhow::Result<ExitCode> {
    let mut findings = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        findings.extend(look_at(file, &text));
    }
    match format.format {
        Format::Json => terminal::print(&serde_json::to_string_pretty(&findings)?),
        Format::Text => findings
            .iter()
            .for_each(|finding| terminal::error(&finding.text())),
    }
    Ok(match findings.iter().map(|finding| finding.level).max() {
        None => ExitCode::SUCCESS,
        Some(Level::Attention) => ExitCode::from(1),
        Some(Level::Failed) => ExitCode::from(2),
    })
}

fn look_at(file: &Path, text: &str) -> Vec<Finding> {
    let name = file.display().to_string();
    let finding = |key: Option<String>, line: Option<usize>, level: Level, fault: String| Finding {
        line: line.or_else(|| key.as_deref().and_then(|key| line_of_key(text, key))),
        file: name.clone(),
        key,
        level,
        fault,
    };
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(fault) => {
            let line = fault.span().map(|span| line_at(text, span.start));
            return vec![finding(
                None,
                line,
                Level::Failed,
                fault.message().to_owned(),
            )];
        }
    };
    if table.get_ref().contains_key("site") {
        let Err(fault) = Config::load(file) else {
            return Vec::new();
        };
        let told = Untitled(&fault).to_string();
        return vec![finding(key_in(&told), line_in(&told), Level::Failed, told)];
    }
    if !table.get_ref().contains_key("name") {
        let fault = "has neither a `site`, as a configuration has, nor a `name`, as a profile has";
        return vec![finding(None, None, Level::Failed, fault.to_owned())];
    }
    let profile: Profile = match toml::from_str(text) {
        Ok(profile) => profile,
        Err(fault) => {
            let line = fault.span().map(|span| line_at(text, span.start));
            return vec![finding(
                None,
                line,
                Level::Failed,
                fault.message().to_owned(),
            )];
        }
    };
    if let Err(fault) = Api::compile(&profile) {
        return vec![finding(Some(fault.key), None, Level::Failed, fault.fault)];
    }
    let odd = odd(file, &profile).into_iter();
    odd.map(|(key, fault)| finding(Some(key), None, Level::Attention, fault))
        .collect()
}

/// What works and is probably not meant.
fn odd(file: &Path, profile: &Profile) -> Vec<(String, String)> {
    let mut odd = Vec::new();
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    if stem.is_some_and(|stem| stem != profile.name) {
        odd.push((
            "name".to_owned(),
            format!("{:?} is not what the file is called", profile.name),
        ));
    }
    for (n, collection) in profile.collections.iter().enumerate() {
        let key = |part: &str| format!("collection[{n}].{part}");
        if collection.mark.is_some()
            && collection
                .matching
                .as_ref()
                .is_some_and(|rule| !rule.allowed)
        {
            odd.push((key("match"), "is not used: `mark` comes first".to_owned()));
        }
        if collection.opaque && (collection.wrap.is_some() || collection.mark.is_some()) {
            odd.push((
                key("opaque"),
                "bodies are not looked into, so `wrap` and `mark` mean nothing".to_owned(),
            ));
        }
    }
    odd
}

impl Finding {
    fn text(&self) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let word = match self.level {
            Level::Attention => "attention",
            Level::Failed => "error",
        };
        // A configuration's fault names its key itself.
        let key = self
            .key
            .as_ref()
            .filter(|key| !self.fault.contains(key.as_str()));
        let key = key.map(|key| format!("key `{key}`: ")).unwrap_or_default();
        format!("{}{line}: {word}: {key}{}", self.file, self.fault)
    }
}

/// An error without its first part, the file, which every finding has already.
struct Untitled<'a>(&'a anyhow::Error);

impl std::fmt::Display for Untitled<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self.0.chain().skip(1).map(ToString::to_string).collect();
        f.write_str(&parts.join(": "))
    }
}

/// The key that a fault names: ``key `a.b`: …``.
fn key_in(fault: &str) -> Option<String> {
    let (_, rest) = fault.split_once("key `")?;
    Some(rest.split_once('`')?.0.to_owned())
}

/// The line that a fault names: `at line 3, …`.
fn line_in(fault: &str) -> Option<usize> {
    let (_, rest) = fault.split_once("at line ")?;
    rest.split(',').next()?.parse().ok()
}

/// Where `collection[2].path` is written, or as much of it as there is.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut at = None;
    let mut inside: &DeTable<'_> = table.get_ref();
    for part in key.split('.') {
        let (name, index) = match part.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let Some((written, mut value)) = inside.get_key_value(name) else {
            break;
        };
        at = Some(written.span().start);
        if let Some(index) = index {
            let Some(item) = value.get_ref().as_array().and_then(|list| list.get(index)) else {
                break;
            };
            at = Some(item.span().start);
            value = item;
        }
        match value.get_ref().as_table() {
            Some(table) => inside = table,
            None => break,
        }
    }
    at.map(|at| line_at(text, at))
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text[..at.min(text.len())].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        let findings = look_at(Path::new("x.toml"), text);
        findings
            .iter()
            .map(Finding::text)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn faults_of_a_profile_name_file_line_and_key() {
        assert_eq!(told("name = \"x\"\n"), "");
        let text = "name = \"x\"\n\n[[collection]]\npath = \"/a\"\n[[collection]]\nkind = \"b\"\npath = \"b\"\n";
        let fault = "x.toml:7: error: key `collection[1].path`: \"b\" does not begin with `/`";
        assert_eq!(told(text), fault);
        let misspelt = told("name = \"x\"\n[[collection]]\npath = \"/a\"\nkin = \"a\"\n");
        assert!(
            misspelt.starts_with("x.toml:4: error: unknown field `kin`"),
            "{misspelt}"
        );
        assert!(told("name = \n").starts_with("x.toml:1: error: "));
        assert!(told("x = 1\n").contains("neither a `site`"));
        assert!(told("name = \"y\"\n").starts_with("x.toml:1: attention: key `name`: "));
    }

    #[test]
    fn keys_are_found_where_they_are_written() {
        let text = "a = 1\n[b]\nc = { d = 2 }\n[[e]]\nf = 1\n[[e]]\nf = 2\n";
        for (key, line) in [
            ("a", 1),
            ("b.c", 3),
            ("b.c.d", 3),
            ("e[1].f", 7),
            ("e[1]", 6),
            ("b.x", 2),
        ] {
            assert_eq!(line_of_key(text, key), Some(line), "{key}");
        }
        assert_eq!(line_of_key(text, "x"), None);
    }
}
