//! Datagrams that are not taken: counted, and each kind of each sender said once.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use cheops_core::membership::SealFault;
use cheops_model::SiteName;
use tracing::warn;

use crate::limits::{DATAGRAM_BYTES_MAX, REFUSALS_SAID_MAX};

/// How a datagram came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// By UDP, if the address is true.
    Socket(IpAddr),
    /// Over a link, from whose certificate was shown.
    Link(SiteName),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Socket(ip) => write!(f, "{ip}"),
            Origin::Link(site) => write!(f, "the link of {site}"),
        }
    }
}

/// Why a datagram is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(super) enum DatagramFault {
    /// Its seal says so.
    #[error("{0}")]
    Seal(#[from] SealFault),
    /// Longer than any agent makes.
    #[error("longer than {DATAGRAM_BYTES_MAX} bytes")]
    TooLong,
    /// Sealed by an agent of the mesh, and not understood.
    #[error("its content cannot be read; upgrade the older agent")]
    Unread,
}

/// What was refused.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Of whom, as far as it is known, and why: already said.
    said: BTreeSet<(Origin, Option<SiteName>, DatagramFault)>,
    count: u64,
}

impl Refused {
    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Another one; `claimed` is whose it says that it is, if the seal is of this mesh. True if it
    /// was said.
    pub(super) fn note(
        &mut self,
        origin: Origin,
        claimed: Option<SiteName>,
        fault: DatagramFault,
    ) -> bool {
        self.count += 1;
        // Addresses can be made up: a forger fills neither the log nor this memory.
        if self.said.len() >= REFUSALS_SAID_MAX {
            return false;
        }
        let site = claimed
            .as_ref()
            .map(SiteName::to_string)
            .unwrap_or_default();
        let text = origin.to_string();
        if !self.said.insert((origin, claimed, fault)) {
            return false;
        }
        warn!(from = text, site, %fault, "a datagram was refused; further ones like it are only counted");
        if self.said.len() == REFUSALS_SAID_MAX {
            warn!(
                "datagrams were refused for many reasons; further ones of any kind are only counted"
            );
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_each_sender_is_said_once_and_not_without_end() {
        let mut refused = Refused::default();
        let from = |last: u8| Origin::Socket(IpAddr::from([192, 0, 2, last]));
        let forged = DatagramFault::Seal(SealFault::Forged);
        assert!(refused.note(from(1), None, forged));
        assert!(!refused.note(from(1), None, forged));
        assert!(refused.note(from(1), None, DatagramFault::TooLong));
        assert!(refused.note(from(2), None, forged));
        let said = (0..=255)
            .filter(|last| refused.note(from(*last), None, DatagramFault::Unread))
            .count();
        assert_eq!(said, REFUSALS_SAID_MAX - 3);
        assert_eq!(refused.count(), 4 + 256);
    }
}
