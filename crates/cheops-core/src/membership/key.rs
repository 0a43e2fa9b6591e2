//! What a site is called inside the protocol: its name in an agent, a number in the simulator.

use std::fmt::Debug;

use cheops_model::SiteName;
use serde::Serialize;

/// A site, as the protocol sees it.
pub trait Key: Clone + Ord + Debug + Serialize {
    /// Bytes it takes in a message.
    fn wire_bytes(&self) -> usize;

    /// The same number for the same site on every machine and in every build.
    fn hash(&self) -> u64;
}

impl Key for SiteName {
    fn wire_bytes(&self) -> usize {
        1 + self.as_str().len()
    }

    fn hash(&self) -> u64 {
        fnv(self.as_str().bytes())
    }
}

/// FNV-1a.
pub(super) fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
