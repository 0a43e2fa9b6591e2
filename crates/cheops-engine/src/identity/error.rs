//! What can be wrong with an identity, by what is to be done about it.

use std::io;
use std::path::PathBuf;

use super::MeshName;

/// Why an identity could not be made or loaded.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Choose another mesh name.
    #[error("`{name}` cannot name a mesh: {fault}")]
    BadMeshName {
        /// What was asked for.
        name: String,
        /// What is wrong with it.
        fault: MeshNameFault,
    },
    /// Choose another site name.
    #[error("site `{site}` cannot have a folder of that name; choose another name for it")]
    NotAFolder {
        /// What was asked for.
        site: String,
    },
    /// Use the folder's own mesh name, or another folder.
    #[error(
        "{} belongs to mesh `{found}`, not `{asked}`; name that mesh, or choose another folder",
        dir.display()
    )]
    OtherMesh {
        /// The folder.
        dir: PathBuf,
        /// The mesh it belongs to.
        found: MeshName,
        /// The mesh asked for.
        asked: MeshName,
    },
    /// Put the CA's key back.
    #[error(
        "{} is missing, and no site can be added without it; put it back, or make a new mesh in another folder",
        path.display()
    )]
    CaKeyMissing {
        /// The key file.
        path: PathBuf,
    },
    /// Make the identity.
    #[error("{} is missing; run `cheops init --mesh NAME --out DIR --site SITE`", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Close the file to others.
    #[error("{0} can be read by others (mode {mode:03o}); run `chmod 600 {0}`", path.display())]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Put the right file back, or make the site's identity anew.
    #[error(
        "{}: {why}; put the right file back, or move the folder away and run `cheops init` again",
        path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Check the clock, or make the site's identity anew.
    #[error(
        "{} is {why}; check this machine's clock, or move the folder away and run `cheops init` again",
        path.display()
    )]
    NotInForce {
        /// The certificate file.
        path: PathBuf,
        /// `expired` or `not valid yet`.
        why: &'static str,
    },
    /// See to the file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Report it: key or certificate could not be made.
    #[error("making a key or certificate failed: {0}")]
    Making(#[from] rcgen::Error),
}

/// Why a text is not the name of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeshNameFault {
    /// Empty or too long.
    #[error("it has 1 to 63 characters")]
    Length,
    /// A character that is not allowed.
    #[error("it has letters, digits, `-`, `_` and `.`, not {0:?}")]
    BadCharacter(char),
    /// It does not begin or end with a letter or digit.
    #[error("it begins and ends with a letter or digit")]
    Ends,
}

/// Why a peer's certificate, though its signature is good, does not say which site of ours it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerFault {
    /// None was shown.
    #[error("the peer showed no certificate")]
    NoCertificate,
    /// Not a certificate.
    #[error("the peer's certificate cannot be read")]
    Malformed,
    /// Not made by `cheops init`.
    #[error("the peer's certificate does not name one site (it says `{found}`)")]
    NoSite {
        /// The names found.
        found: String,
    },
    /// A site, but not of this mesh.
    #[error("the peer belongs to mesh `{found}`, not `{ours}`")]
    OtherMesh {
        /// Its mesh.
        found: MeshName,
        /// Ours.
        ours: MeshName,
    },
}
