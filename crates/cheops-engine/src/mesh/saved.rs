//! Known sites on disk, so that a site once known stays known after a restart.
//!
//! A cache of what peers said: a file that cannot be read is moved aside, never a reason not to
//! start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tracing::{error, warn};

use super::announcement::{Announcement, check_address};
use crate::files::{self, Access};
use crate::limits::SITES_MAX;

const FILE: &str = "sites.json";
const VERSION: u32 = 1;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Saved {
    version: u32,
    pub(super) sites: Vec<SavedSite>,
}

/// One known site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedSite {
    pub(super) site: SiteName,
    pub(super) advertise: Option<String>,
    pub(super) announcement: Option<Arc<Announcement>>,
}

impl Saved {
    pub(super) fn new(sites: Vec<SavedSite>) -> Saved {
        Saved {
            version: VERSION,
            sites,
        }
    }

    /// Reads the file of `folder`; nothing if there is none or it is of no use.
    pub(super) fn load(folder: &Path) -> Saved {
        let path = folder.join(FILE);
        match read(&path) {
            Ok(Some(saved)) => saved,
            Ok(None) => Saved::new(Vec::new()),
            Err(why) => {
                move_aside(&path, &why);
                Saved::new(Vec::new())
            }
        }
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let content = serde_json::to_vec(self).map_err(io::Error::other)?;
        files::replace(&folder.join(FILE), Access::Public, &content)
    }
}

/// Writes every value of `latest` that is still the latest when its turn comes; ends when the
/// sender is gone and the last value is written.
pub(super) async fn keep_saved(folder: PathBuf, mut latest: watch::Receiver<Arc<Saved>>) {
    while latest.changed().await.is_ok() {
        let saved = latest.borrow_and_update().clone();
        let folder = folder.clone();
        let written = tokio::task::spawn_blocking(move || saved.write(&folder)).await;
        if let Ok(Err(fault)) = written {
            error!(%fault, file = FILE, "the known sites could not be saved; free space or check the data folder");
        }
    }
}

fn read(path: &Path) -> Result<Option<Saved>, String> {
    let content = match fs::read(path) {
        Ok(content) => content,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(fault.to_string()),
    };
    let saved: Saved = serde_json::from_slice(&content).map_err(|fault| fault.to_string())?;
    check(&saved)?;
    Ok(Some(saved))
}

fn check(saved: &Saved) -> Result<(), String> {
    if saved.version != VERSION {
        return Err(format!("version {} is not {VERSION}", saved.version));
    }
    if saved.sites.len() > SITES_MAX {
        return Err(format!("more than {SITES_MAX} sites"));
    }
    for site in &saved.sites {
        let address = site
            .advertise
            .iter()
            .try_for_each(|address| check_address(address));
        let announcement = site.announcement.iter().try_for_each(|said| said.check());
        address
            .and(announcement)
            .map_err(|fault| format!("site {}: {fault}", site.site))?;
    }
    Ok(())
}

fn move_aside(path: &Path, why: &str) {
    let aside = (1u32..)
        .map(|n| path.with_file_name(format!("{FILE}.corrupt-{n}")))
        .find(|aside| aside.symlink_metadata().is_err())
        .expect("a folder has a free name");
    match fs::rename(path, &aside) {
        Ok(()) => {
            warn!(why, kept = %aside.display(), "the known sites could not be read; starting without")
        }
        Err(fault) => {
            warn!(why, %fault, "the known sites could not be read or moved aside; starting without");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Saved::load(folder.path()), Saved::new(Vec::new()));
        let saved: Saved = serde_json::from_str(include_str!("fixtures/sites-1.json")).unwrap();
        saved.write(folder.path()).unwrap();
        assert_eq!(Saved::load(folder.path()), saved);
        assert_eq!(saved.sites.len(), 2);
    }

    #[test]
    fn a_corrupt_file_is_moved_aside_each_time_under_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for (n, content) in [
            "",
            "{\"version\":1,\"si",
            "{\"version\":9,\"sites\":[]}",
            "\u{0}",
        ]
        .into_iter()
        .enumerate()
        {
            fs::write(&path, content).unwrap();
            assert_eq!(Saved::load(folder.path()), Saved::new(Vec::new()));
            assert!(!path.exists());
            let aside = folder.path().join(format!("{FILE}.corrupt-{}", n + 1));
            assert_eq!(fs::read_to_string(aside).unwrap(), content);
        }
    }
}
