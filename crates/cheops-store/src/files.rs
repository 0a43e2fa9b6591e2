//! Files and folders that survive a power cut, readable by their owner only: bodies and sealed
//! credentials are in them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Creates `folder` and what is missing above it.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    sync_folder_of(folder)
}

/// Opens `path` for writing, creating it if need be.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.mode(0o600).open(path)
}

/// Puts a file in the place of whatever `path` was; `content` may look at the file it goes into.
pub(crate) fn replace(
    path: &Path,
    content: impl FnOnce(&File) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    let aside = name_aside(path);
    let written = write_aside(&aside, content).and_then(|()| fs::rename(&aside, path));
    if let Err(fault) = written {
        let _ = fs::remove_file(&aside);
        return Err(fault);
    }
    sync_folder_of(path)
}

/// A name in the folder of `path` that nobody else uses.
pub(crate) fn name_aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{:016x}.new", rand::random::<u64>()))
}

/// Makes the names inside `folder` survive a power cut.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes the name of `path` survive a power cut.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => sync_folder(folder),
        _ => sync_folder(Path::new(".")),
    }
}

/// Removes `path` if it is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn write_aside(aside: &Path, content: impl FnOnce(&File) -> io::Result<Vec<u8>>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(aside)?;
    let content = content(&file)?;
    file.write_all(&content)?;
    file.sync_all()
}
