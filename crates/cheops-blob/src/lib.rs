//! Contents too long for a log: files named by their hash, either whole or not there.
//!
//! A content comes in as an [`Upload`] from a client, or as a [`Partial`] from another site, chunk by
//! chunk, each checked as it comes; it is named by its [`Reference`] once it is whole and on the disk.
//! A [`Reader`] gives it back, and checks every chunk again: a file that was changed or torn is
//! [`BlobError::Damaged`], never handed on.
//!
//! ```
//! use cheops_blob::{BlobStore, Room};
//!
//! let folder = tempfile::tempdir()?;
//! let store = BlobStore::open(folder.path(), Room::default())?;
//! let mut upload = store.begin(None)?;
//! upload.write(b"an image of a disk")?;
//! let pin = upload.finish()?; // Survives a power cut, and is not collected while the pin is held.
//! let mut reader = store.reader(pin.reference())?.expect("it is whole");
//! assert_eq!(reader.chunk(0)?, b"an image of a disk");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Choices. *The true BLAKE3 hash*: chunks are subtrees of BLAKE3's own tree, so the list of their
//! sums proves itself against the name of the content, and a wrong chunk is known before the next one
//! comes. *Blocking*: the engine keeps calls off its threads for requests. *In the clear*, readable by
//! the owner alone: the service beside the agent keeps the same bytes; credentials are not among them.
//! *No index*: the folder is the truth, whatever somebody does to it by hand.

mod collect;
mod error;
pub mod limits;
mod partial;
mod reader;
mod reference;
mod room;
mod store;
mod sums;
mod upload;

pub use collect::{Collected, Mark};
pub use error::BlobError;
pub use partial::Partial;
pub use reader::Reader;
pub use reference::{BadReference, Reference};
pub use room::Room;
pub use store::{BlobStore, Pin};
pub use sums::Sums;
pub use upload::Upload;
