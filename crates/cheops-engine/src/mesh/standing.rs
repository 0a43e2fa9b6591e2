//! What operators decided, and what this site was told of itself, on disk before it is answered.

use std::fs;
use std::io;
use std::path::Path;

use cheops_core::membership::Standing;
use cheops_model::SiteName;
use serde::{Deserialize, Serialize};
use tracing::error;

use crate::files::{self, Access};

const FILE: &str = "standing.json";
const VERSION: u32 = 1;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Decisions {
    version: u32,
    /// This site refuses mutations from elsewhere.
    pub(super) held: bool,
    /// The parent that an operator chose, in place of the configured one.
    pub(super) moved_under: Option<Moved>,
    /// The start number of the last start.
    pub(super) started: u64,
    pub(super) standings: Vec<(SiteName, Standing<SiteName>)>,
}

/// Where an operator moved this site to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moved {
    /// The new parent; none is the top.
    pub(super) parent: Option<SiteName>,
    /// What was configured then: another configuration stands over an older decision.
    pub(super) configured: Option<SiteName>,
}

impl Default for Decisions {
    fn default() -> Decisions {
        Decisions {
            version: VERSION,
            held: false,
            moved_under: None,
            started: 0,
            standings: Vec::new(),
        }
    }
}

impl Decisions {
    /// Reads the file of `folder`. Unlike known sites, decisions are not a cache: a file that
    /// cannot be read is a reason not to start.
    pub(super) fn load(folder: &Path) -> io::Result<Decisions> {
        let content = match fs::read(folder.join(FILE)) {
            Ok(content) => content,
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
                return Ok(Decisions::default());
            }
            Err(fault) => return Err(fault),
        };
        let decisions: Decisions = serde_json::from_slice(&content).map_err(io::Error::other)?;
        if decisions.version != VERSION {
            let found = decisions.version;
            return Err(io::Error::other(format!(
                "{FILE}: version {found} is not {VERSION}"
            )));
        }
        Ok(decisions)
    }

    /// When this returns `Ok`, it survives a power cut.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let content = serde_json::to_vec(self).map_err(io::Error::other)?;
        let written = files::replace(&folder.join(FILE), Access::Public, &content);
        if let Err(fault) = &written {
            error!(%fault, file = FILE, "decisions about sites could not be saved; free space or check the data folder");
        }
        written
    }

    /// The parent of this site: configured, or moved to since it was configured so.
    pub(super) fn parent(&self, configured: Option<SiteName>) -> Option<SiteName> {
        match &self.moved_under {
            Some(moved) if moved.configured == configured => moved.parent.clone(),
            _ => configured,
        }
    }
}

#[cfg(test)]
mod tests {
    use cheops_core::membership::StandingWord;

    use super::*;

    #[test]
    fn decisions_are_read_back_and_a_broken_file_is_no_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            Decisions::load(folder.path()).unwrap(),
            Decisions::default()
        );
        let site = |name: &str| SiteName::new(name).unwrap();
        let standing = Standing {
            version: 3,
            by: site("site1"),
            word: StandingWord::Fenced,
        };
        let decisions = Decisions {
            held: true,
            moved_under: Some(Moved {
                parent: Some(site("DC 1")),
                configured: None,
            }),
            started: 9,
            standings: vec![(site("site2"), standing)],
            ..Decisions::default()
        };
        decisions.write(folder.path()).unwrap();
        assert_eq!(Decisions::load(folder.path()).unwrap(), decisions);
        let fixture = include_str!("fixtures/standing-1.json");
        assert_eq!(
            serde_json::from_str::<Decisions>(fixture).unwrap(),
            decisions
        );
        assert_eq!(decisions.parent(None), Some(site("DC 1")));
        assert_eq!(decisions.parent(Some(site("new"))), Some(site("new")));
        fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(Decisions::load(folder.path()).is_err());
    }
}
