//! The marker: a small file beside the database that vouches for it.
//!
//! It says which life the database is in and how many transactions it has seen at least. A
//! database that was put back to an older state has seen fewer. The marker also says which file it
//! is itself (inode and time of birth, which no copy keeps): put back along with the database, or
//! copied to another machine, it is not itself any more. What none of this can see is the whole
//! disk put back, as a snapshot of a virtual machine does, and a copy of the database that was
//! younger than [`MARK_INTERVAL`](crate::limits::MARK_INTERVAL) when the agent ended.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::files;
use crate::record::{self, First, Record};
use crate::{Incarnation, Opening};

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The life of the database.
    pub incarnation: Incarnation,
    /// Transactions it has seen, at least.
    pub sequence: u64,
    /// The inode of the marker itself.
    pub inode: u64,
    /// When the marker itself was made, in nanoseconds since 1970, where the file system knows.
    pub born_ns: Option<u64>,
}

impl Record for Mark {
    const KIND: [u8; 4] = *b"MARK";
    const VERSION: u16 = 1;
    type Previous = First;
    fn migrate(first: First) -> Mark {
        match first {}
    }
}

/// The file.
pub(super) struct Marker {
    path: PathBuf,
}

impl Marker {
    pub(super) fn at(path: &Path) -> Marker {
        let path = path.to_path_buf();
        Marker { path }
    }

    pub(super) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Compares what the database says with what the marker says.
    pub(super) fn judge(&self, incarnation: Incarnation, sequence: u64) -> io::Result<Opening> {
        let (bytes, metadata) = match fs::read(&self.path) {
            Ok(bytes) => (bytes, fs::metadata(&self.path)?),
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
                return Ok(Opening::Unvouched);
            }
            Err(fault) => return Err(fault),
        };
        let Ok(mark) = record::decode::<Mark>(&bytes) else {
            return Ok(Opening::Unvouched);
        };
        if (mark.inode, mark.born_ns) != identity(&metadata) {
            return Ok(Opening::Copied);
        }
        if mark.incarnation != incarnation || mark.sequence > sequence {
            return Ok(Opening::RolledBack);
        }
        Ok(Opening::Continued)
    }

    /// Vouches for the database. Only ever called with what is durable there already.
    pub(super) fn write(&self, incarnation: Incarnation, sequence: u64) -> io::Result<()> {
        files::replace(&self.path, |file: &File| {
            let (inode, born_ns) = identity(&file.metadata()?);
            Ok(record::encode(&Mark {
                incarnation,
                sequence,
                inode,
                born_ns,
            }))
        })
    }
}

fn identity(metadata: &Metadata) -> (u64, Option<u64>) {
    let born = metadata.created().ok();
    let since = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born_ns = since.and_then(|since| u64::try_from(since.as_nanos()).ok());
    (metadata.ino(), born_ns)
}
