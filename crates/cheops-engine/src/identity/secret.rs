//! What all agents of a mesh know and nobody else: 32 bytes that ids and datagrams are keyed with.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use rustls_pki_types::CertificateDer;

use super::MESH_KEY_FILE;
use super::error::IdentityError;
use super::load::{check_private, unread, unusable};

const BYTES: usize = 32;

/// The secret of a mesh. Keys for one use each are made from it; it is never used itself.
#[derive(Clone)]
pub struct MeshSecret([u8; BYTES]);

impl MeshSecret {
    pub(crate) fn generate() -> MeshSecret {
        MeshSecret(rand::random())
    }

    /// As it stands in `mesh.key`.
    pub(super) fn to_text(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    }

    /// Reads `mesh.key` of `dir`. Identities of before there was one have none: for them it follows
    /// from the CA's certificate, which is no secret, and the log says so.
    pub(super) fn load(dir: &Path, ca: &CertificateDer<'_>) -> Result<MeshSecret, IdentityError> {
        let path = dir.join(MESH_KEY_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
                tracing::warn!(
                    "{} is missing: whoever has ca.pem can forge ids and datagrams of this mesh; run `cheops init` again where the authority is, and copy the file here",
                    path.display()
                );
                return Ok(MeshSecret(blake3::derive_key(
                    "cheops mesh secret of a mesh without one",
                    ca,
                )));
            }
            Err(fault) => return Err(unread(&path, fault)),
        };
        check_private(&path)?;
        MeshSecret::parse(&text)
            .ok_or_else(|| unusable(&path, "this is not the key of a mesh: 64 hex digits"))
    }

    fn parse(text: &str) -> Option<MeshSecret> {
        let text = text.trim_end();
        if text.len() != 2 * BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(MeshSecret(bytes))
    }

    /// The key for one use, the same on every site of the mesh. Uses have distinct names.
    pub fn key_for(&self, use_name: &str) -> [u8; BYTES] {
        blake3::derive_key(use_name, &self.0)
    }
}

/// Without the bytes.
impl fmt::Debug for MeshSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeshSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written_and_shown_to_nobody() {
        let secret = MeshSecret::generate();
        let read = MeshSecret::parse(&secret.to_text()).unwrap();
        assert_eq!(read.key_for("ids"), secret.key_for("ids"));
        assert_ne!(secret.key_for("ids"), secret.key_for("datagrams"));
        assert_eq!(format!("{secret:?}"), "MeshSecret");
        for wrong in ["", "12", &"g".repeat(64), &"0".repeat(63), &"é".repeat(32)] {
            assert!(MeshSecret::parse(wrong).is_none(), "{wrong}");
        }
    }
}
