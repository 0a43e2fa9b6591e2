//! Files that are either there whole or not there: written aside, flushed, then named.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Who may read a file.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    /// The owner only: keys.
    Private,
    /// Everybody.
    Public,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Access::Private => 0o600,
            Access::Public => 0o644,
        }
    }
}

/// Creates `path`; fails with `AlreadyExists` rather than overwrite. When this returns `Ok`, the
/// file survives a power cut.
pub(crate) fn create(path: &Path, access: Access, content: &[u8]) -> io::Result<()> {
    let aside = write_aside(path, access, content)?;
    // A hard link, unlike a rename, refuses a name that is taken.
    let linked = fs::hard_link(&aside, path);
    fs::remove_file(&aside)?;
    linked?;
    sync_folder_of(path)
}

/// Puts `content` in the place of whatever `path` was. When this returns `Ok`, the new content
/// survives a power cut; until then the old one does.
pub(crate) fn replace(path: &Path, access: Access, content: &[u8]) -> io::Result<()> {
    let aside = write_aside(path, access, content)?;
    fs::rename(&aside, path)?;
    sync_folder_of(path)
}

/// Makes the names inside `folder` survive a power cut.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A name in the folder of `path` that nobody else uses.
pub(crate) fn name_aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{:016x}.new", rand::random::<u64>()))
}

fn write_aside(path: &Path, access: Access, content: &[u8]) -> io::Result<PathBuf> {
    let aside = name_aside(path);
    // The mode is given at creation: a key is never readable by others, not even for an instant.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(access.mode())
        .open(&aside)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if let Err(fault) = written {
        let _ = fs::remove_file(&aside);
        return Err(fault);
    }
    Ok(aside)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => sync_folder(folder),
        _ => sync_folder(Path::new(".")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn creating_never_overwrites_and_leaves_nothing_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        create(&path, Access::Private, b"first").unwrap();
        let fault = create(&path, Access::Private, b"second").unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn replacing_leaves_the_new_content_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sites.json");
        replace(&path, Access::Public, b"one").unwrap();
        replace(&path, Access::Public, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
