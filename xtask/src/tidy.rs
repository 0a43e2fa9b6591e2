//! `cargo xtask tidy`: the rules of ARCHITECTURE.md that a machine can check.
//!
//! Layers (a crate depends on lower layers only), purity (some crates know no clock, socket, file
//! or thread), and habits (module docs, no stubs, no machine paths). It also runs as a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

/// The layer of every crate. A crate depends on lower ones only: never up, never sideways.
const LAYERS: &[(&str, u32)] = &[
    ("cheops-model", 1),
    ("cheops-plot", 1),
    ("cheops-scope", 2),
    ("cheops-core", 2),
    ("cheops-blob", 2),
    ("cheops-store", 2),
    ("cheops-relay", 2),
    ("cheops-rest", 2),
    ("cheops-samples", 2),
    ("cheops-engine", 3),
    ("cheops-proxy", 4),
    ("cheops-control", 4),
    ("cheops-sim", 4),
    ("cheops-sim-sites", 4),
    ("cheops", 5),
    ("xtask", 5),
];

/// Crates that are computation alone, and what betrays that one is not.
const PURE: &[&str] = &[
    "cheops-model",
    "cheops-plot",
    "cheops-scope",
    "cheops-core",
    "cheops-rest",
];
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::env",
    "Instant::now",
    "SystemTime::now",
    "tokio",
    "std::io",
];

/// Longer files hold more than one idea.
const LINES_MAX: usize = 600;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let faults = faults(&root)?;
    let report: String = faults
        .iter()
        .map(|fault| format!("tidy: {fault}\n"))
        .collect();
    std::io::Write::write_all(&mut std::io::stderr().lock(), report.as_bytes())?;
    Ok(if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for manifest in manifests(root)? {
        layers(&manifest, &mut faults)?;
    }
    for file in sources(root)? {
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        let name = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        faults.extend(habits(&name, &text));
        faults.extend(purity(&name, &text));
    }
    Ok(faults)
}

fn manifests(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![root.join("xtask/Cargo.toml")];
    for folder in ["crates", "examples"].map(|folder| root.join(folder)) {
        if !folder.exists() {
            continue;
        }
        for entry in fs::read_dir(folder)? {
            found.push(entry?.path().join("Cargo.toml"));
        }
    }
    found.retain(|manifest| manifest.exists());
    found.sort();
    Ok(found)
}

fn layers(manifest: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let parsed: toml::Table = toml::from_str(&fs::read_to_string(manifest)?)?;
    let package = parsed
        .get("package")
        .and_then(|package| package.get("name"));
    let name = package.and_then(|name| name.as_str()).unwrap_or_default();
    let Some(layer) = layer_of(name) else {
        faults.push(format!(
            "{name}: has no layer; give it one in xtask/src/tidy.rs and a reason in docs/adr"
        ));
        return Ok(());
    };
    let Some(dependencies) = parsed
        .get("dependencies")
        .and_then(|table| table.as_table())
    else {
        return Ok(());
    };
    for dependency in dependencies.keys() {
        if layer_of(dependency).is_some_and(|other| other >= layer) {
            faults.push(format!(
                "{name} depends on {dependency}, which is not of a lower layer"
            ));
        }
    }
    Ok(())
}

fn layer_of(name: &str) -> Option<u32> {
    LAYERS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, layer)| *layer)
}

fn sources(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = ["crates", "examples", "xtask"]
        .iter()
        .map(|folder| root.join(folder))
        .collect();
    while let Some(folder) = folders.pop() {
        if !folder.exists() {
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn habits(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//!") && !text.starts_with("#!") {
        faults.push(format!(
            "{name}: does not open with `//!`: what is it, what is it not?"
        ));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        faults.push(format!("{name}: {lines} lines; a file holds one idea"));
    }
    // Written in two parts so that this file does not accuse itself.
    let stubs = [
        ["todo", "!("],
        ["unimplemented", "!("],
        ["#[ign", "ore"],
        ["FIX", "ME"],
    ];
    for stub in stubs.map(|parts| parts.concat()) {
        if text.contains(&stub) {
            faults.push(format!(
                "{name}: `{stub}`: what is not done is not pretended"
            ));
        }
    }
    faults
}

fn purity(name: &str, text: &str) -> Vec<String> {
    let pure = PURE
        .iter()
        .any(|of| name.starts_with(&format!("crates/{of}/src/")));
    if !pure {
        return Vec::new();
    }
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let uncommented: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    IMPURE
        .iter()
        .filter(|word| uncommented.contains(**word))
        .map(|word| format!("{name}: `{word}` in a crate that knows no runtime, clock or file"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert_eq!(faults(&root).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn impurity_long_files_and_stubs_are_seen() {
        let pure = "crates/cheops-core/src/x.rs";
        assert_eq!(purity(pure, "//! x\nuse std::net::TcpStream;").len(), 1);
        assert_eq!(
            purity("crates/cheops-engine/src/x.rs", "//! x\nuse tokio::net;").len(),
            0
        );
        assert_eq!(habits("x.rs", "fn main() {}").len(), 1);
        assert_eq!(
            habits("x.rs", &format!("//! x\n{}", "\n".repeat(LINES_MAX))).len(),
            1
        );
        assert_eq!(
            habits("x.rs", &["//! x\n", "to", "do!()"].concat()).len(),
            1
        );
    }
}
