//! Records encrypted at rest: what clients sent, their credentials among it, is never on disk in
//! the clear.
//!
//! The key is made once, in a file beside the store that only its owner may read; a backup of the
//! store does not hold it. Every run of an agent writes with a key of its own, made of that one and
//! a salt that stands in front of each value, so that a counter is enough to never use a nonce twice.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::files::{self, Access};

const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 16;
const COUNTER_BYTES: usize = 8;
const USE: &str = "cheops records at rest";

type Salt = [u8; SALT_BYTES];

/// Seals and opens values.
pub(super) struct Seal {
    root: [u8; KEY_BYTES],
    salt: Salt,
    key: LessSafeKey,
    counter: AtomicU64,
    /// The key of the run whose values were read last: at the start, they come in long rows.
    earlier: Mutex<Option<(Salt, LessSafeKey)>>,
}

/// The value was not sealed with this key, for this place, or was changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Seal {
    /// With the key in `path`; one is made if there is none.
    pub(super) fn open(path: &Path) -> io::Result<Seal> {
        let text = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
                let fresh: [u8; KEY_BYTES] = rand::random();
                files::create(path, Access::Private, &fresh)?;
                fresh.to_vec()
            }
            Err(fault) => return Err(fault),
        };
        let root: [u8; KEY_BYTES] = text.try_into().map_err(|_| {
            let why = "this is not a key of 32 bytes; put back the file that was here";
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        Ok(Seal::new(root))
    }

    fn new(root: [u8; KEY_BYTES]) -> Seal {
        let salt: Salt = rand::random();
        Seal {
            root,
            salt,
            key: key_of(&root, &salt),
            counter: AtomicU64::new(0),
            earlier: Mutex::new(None),
        }
    }

    /// `value`, readable only with the key and only at `place`.
    pub(super) fn seal(&self, place: &[u8], value: &[u8]) -> Vec<u8> {
        let count = self.counter.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut sealed = Vec::with_capacity(SALT_BYTES + COUNTER_BYTES + value.len() + 16);
        sealed.extend(self.salt);
        sealed.extend(count);
        let mut body = value.to_vec();
        self.key
            .seal_in_place_append_tag(nonce(count), Aad::from(place), &mut body)
            .expect("a record is far below the bound of the cipher");
        sealed.extend(body);
        sealed
    }

    /// What was sealed at `place`.
    pub(super) fn unseal(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Broken> {
        let (salt, rest) = sealed.split_first_chunk::<SALT_BYTES>().ok_or(Broken)?;
        let (count, body) = rest.split_first_chunk::<COUNTER_BYTES>().ok_or(Broken)?;
        let mut body = body.to_vec();
        let mut earlier = self.earlier.lock().unwrap_or_else(|e| e.into_inner());
        let key = match &mut *earlier {
            _ if *salt == self.salt => &self.key,
            Some((known, key)) if known == salt => key,
            slot => &slot.insert((*salt, key_of(&self.root, salt))).1,
        };
        let plain = key
            .open_in_place(nonce(*count), Aad::from(place), &mut body)
            .map_err(|_| Broken)?
            .len();
        body.truncate(plain);
        Ok(body)
    }
}

fn key_of(root: &[u8; KEY_BYTES], salt: &Salt) -> LessSafeKey {
    let key = blake3::derive_key(USE, &[&root[..], salt].concat());
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes"))
}

fn nonce(count: [u8; COUNTER_BYTES]) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&count);
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_at_its_place_with_its_key_and_no_other_way() {
        let (first, next, other) = (Seal::new([7; 32]), Seal::new([7; 32]), Seal::new([8; 32]));
        let sealed = first.seal(b"log/1", b"authorization: secret");
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_ne!(sealed, first.seal(b"log/1", b"authorization: secret"));
        for reader in [&first, &next] {
            assert_eq!(
                reader.unseal(b"log/1", &sealed).unwrap(),
                b"authorization: secret"
            );
            assert_eq!(reader.unseal(b"log/2", &sealed), Err(Broken));
        }
        assert_eq!(other.unseal(b"log/1", &sealed), Err(Broken));
        for length in 0..sealed.len() {
            assert_eq!(first.unseal(b"log/1", &sealed[..length]), Err(Broken));
        }
    }

    #[test]
    fn the_key_is_made_once_and_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        let sealed = Seal::open(&path).unwrap().seal(b"", b"x");
        assert_eq!(
            Seal::open(&path).unwrap().unseal(b"", &sealed).unwrap(),
            b"x"
        );
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
