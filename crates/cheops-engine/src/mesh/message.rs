//! The messages of a control link: JSON over HTTP/2, in the names of ALPN the protocol's version.
//!
//! `POST /hello` exchanges announcements and known sites; `POST /beat` proves that the path works
//! and tells whether another hello is worth it; `POST /datagram` carries one where UDP is blocked;
//! `POST /report` tells a parent how it is below.

use std::sync::Arc;

use bytes::Bytes;
use cheops_core::membership::Standing;
use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use super::announcement::{Announcement, AnnouncementFault, check_address};
use crate::limits::{KNOWN_BYTES_MAX, SITES_MAX};

/// ALPN of a control link.
pub(super) const ALPN_CONTROL: &[u8] = b"cheops-ctl/1";
/// ALPN of forwarded requests.
pub(super) const ALPN_REQUESTS: &[u8] = b"cheops-req/1";
/// ALPN of what sites tell each other about replicants.
pub(super) const ALPN_LOG: &[u8] = b"cheops-log/1";
/// ALPN of contents that are too long for a log.
pub(super) const ALPN_BLOB: &[u8] = b"cheops-blob/1";

pub(super) const HELLO_PATH: &str = "/hello";
pub(super) const BEAT_PATH: &str = "/beat";
pub(super) const DATAGRAM_PATH: &str = "/datagram";
pub(super) const REPORT_PATH: &str = "/report";

/// Either side's half of a hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) announcement: Announcement,
    pub(super) known: Vec<KnownSite>,
    pub(super) state: Beat,
    /// Not the first on its link: what is known goes by datagrams, in a large mesh.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) again: bool,
}

/// A site that one agent tells another of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownSite {
    pub(super) site: SiteName,
    pub(super) advertise: String,
    /// What it said of itself, as far as the teller knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) announcement: Option<Arc<Announcement>>,
    /// What an operator decided of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) standing: Option<Standing<SiteName>>,
}

/// Either side's half of a beat: what a hello would bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Beat {
    /// Grows with each change of the sender's announcement.
    pub(super) announcement: u64,
    /// Digest of the sites the sender knows, itself included: equal if they know the same of them.
    pub(super) known: u64,
}

/// Our half of a hello, ready to send.
#[derive(Clone, Debug)]
pub(super) struct Greeting {
    pub(super) state: Beat,
    pub(super) body: Bytes,
    /// For a link on which there was one before.
    pub(super) body_again: Bytes,
}

impl Hello {
    /// Checks what the types do not.
    pub(super) fn check(&self) -> Result<(), AnnouncementFault> {
        self.announcement.check()?;
        if self.known.len() > SITES_MAX {
            return Err(AnnouncementFault::TooMany {
                what: "known sites",
                max: SITES_MAX,
            });
        }
        self.known.iter().try_for_each(|known| {
            check_address(&known.advertise)?;
            known.announcement.iter().try_for_each(|said| said.check())
        })
    }

    pub(super) fn greeting(self, links_all_max: usize) -> Greeting {
        let body = encode(&self);
        // A small mesh tells everything each time: its lists are short.
        let known = match self.known.len() <= links_all_max {
            true => self.known,
            false => Vec::new(),
        };
        let again = Hello {
            known,
            again: true,
            ..self
        };
        Greeting {
            state: again.state,
            body,
            body_again: encode(&again),
        }
    }
}

/// Whether another hello would bring either side something, after one that met at `met`
/// (ours, theirs). The same difference twice is one that a hello does not mend.
pub(super) fn worth_a_hello(met: (Beat, Beat), ours: Beat, theirs: Beat) -> bool {
    let said = ours.announcement == met.0.announcement;
    let heard = theirs.announcement == met.1.announcement;
    let agreed = ours.known == theirs.known;
    let mended = (ours.known, theirs.known) != (met.0.known, met.1.known);
    !said || !heard || (!agreed && mended)
}

/// As many of `sites` as a hello has room for.
pub(super) fn cut_to_room(sites: impl Iterator<Item = KnownSite>) -> Vec<KnownSite> {
    let mut room = KNOWN_BYTES_MAX;
    let fits = |known: &KnownSite| {
        let needed = 1 + encode(known).len();
        let enough = needed <= room;
        room = room.saturating_sub(needed);
        enough
    };
    sites.take_while(fits).collect()
}

/// FNV-1a over the names in order, each with what tells the site's announcement and standing from
/// others: the same on every machine and in every build.
pub(super) fn digest<'a>(sites: impl Iterator<Item = (&'a SiteName, u64)>) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for (name, known) in sites {
        for byte in name
            .as_str()
            .bytes()
            .chain([b'\n'])
            .chain(known.to_le_bytes())
        {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

pub(super) fn encode<T: Serialize>(message: &T) -> Bytes {
    serde_json::to_vec(message)
        .expect("messages have text keys and no foreign types")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_repeated_only_if_it_may_bring_something() {
        let beat = |announcement, known| Beat {
            announcement,
            known,
        };
        let met = (beat(1, 10), beat(1, 20));
        assert!(!worth_a_hello(met, beat(1, 30), beat(1, 30)), "they agree");
        assert!(
            !worth_a_hello(met, beat(1, 10), beat(1, 20)),
            "it did not help last time"
        );
        assert!(
            worth_a_hello(met, beat(1, 30), beat(1, 20)),
            "we learnt something"
        );
        assert!(worth_a_hello(met, beat(2, 30), beat(1, 30)), "we changed");
        assert!(worth_a_hello(met, beat(1, 30), beat(2, 30)), "they changed");
    }

    #[test]
    fn the_largest_list_of_known_sites_fits_a_message() {
        let site = |n: usize| KnownSite {
            site: SiteName::new(&format!("{n:064}")).unwrap(),
            advertise: format!("{}:7700", "h".repeat(200)),
            announcement: None,
            standing: None,
        };
        let cut = cut_to_room((0..SITES_MAX).map(site));
        assert!(cut.len() > 1000 && cut.len() < SITES_MAX);
        assert!(encode(&cut).len() <= KNOWN_BYTES_MAX);
    }

    #[test]
    fn a_hello_of_version_one_is_still_read() {
        let bytes = include_bytes!("fixtures/hello-1.json");
        let hello: Hello = serde_json::from_slice(bytes).unwrap();
        hello.check().unwrap();
        assert_eq!(hello.announcement.services[0].aliases[0].as_str(), "glance");
        assert_eq!(hello.known[0].site.as_str(), "DC 1");
    }
}
