//! A site of the simulator: a number, as long on the wire as a name.

use cheops_core::membership::Key;
use serde::{Serialize, Serializer};

/// A site, by its place in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(pub u16);

/// Bytes of the names that stand for sites: `site-00042`.
const NAME_BYTES: usize = 10;

impl Serialize for Site {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut name = *b"site-00000";
        let mut rest = self.0;
        for digit in name[5..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        serializer.serialize_str(std::str::from_utf8(&name).unwrap_or_default())
    }
}

impl Key for Site {
    fn wire_bytes(&self) -> usize {
        1 + NAME_BYTES
    }

    fn hash(&self) -> u64 {
        let mut z = u64::from(self.0).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
