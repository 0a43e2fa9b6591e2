//! What a site says of itself.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use cheops_model::{Labels, ServiceName, SiteName};
use serde::{Deserialize, Serialize};

use crate::limits::{ALIASES_MAX, DECLARED_LINKS_MAX, LABELS_MAX, SERVICES_MAX, TEXT_BYTES_MAX};

/// The version of the messages between agents. Another one has other names in the TLS handshake.
pub const PROTOCOL: u32 = 1;

/// What a site says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Its name, the same as in its certificate.
    pub site: SiteName,
    /// Grows from start to start of the agent: see [`new_incarnation`].
    pub incarnation: u64,
    /// Chosen by its operator.
    #[serde(default)]
    pub labels: Labels,
    /// The site above it, in a tree.
    #[serde(default)]
    pub parent: Option<SiteName>,
    /// Sites beside it, in a tree, that it declares a link with.
    #[serde(default)]
    pub links: Vec<SiteName>,
    /// It refuses mutations from elsewhere.
    #[serde(default)]
    pub held: bool,
    /// Where peers reach it: `host:port`.
    pub advertise: String,
    /// What it offers.
    #[serde(default)]
    pub services: Vec<ServiceAnnouncement>,
    /// [`PROTOCOL`] of its agent.
    pub protocol: u32,
}

/// A service that a site offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceAnnouncement {
    /// Its registered name.
    pub name: ServiceName,
    /// Other names for it.
    #[serde(default)]
    pub aliases: Vec<ServiceName>,
    /// Its own version, if known.
    #[serde(default)]
    pub version: Option<String>,
}

/// Why an announcement is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncementFault {
    /// More of something than allowed.
    #[error("more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// A text longer than allowed.
    #[error("{what} is longer than {TEXT_BYTES_MAX} bytes")]
    TooLong {
        /// Which text.
        what: &'static str,
    },
    /// Not `host:port`.
    #[error("`{0}` is not an address of the form host:port")]
    BadAddress(String),
    /// Two services under one name.
    #[error("two services are named `{0}`")]
    Twice(ServiceName),
}

/// A number that two starts of an agent do not share, and that grows from start to start as far as
/// the clock does: milliseconds, and 11 bits of chance. It fits a JSON number of any reader.
pub fn new_incarnation() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ms = since.unwrap_or_default().as_millis() as u64;
    ((ms << 11) | u64::from(rand::random::<u16>() >> 5)) & ((1 << 53) - 1)
}

impl Announcement {
    /// Checks what the types do not.
    pub fn check(&self) -> Result<(), AnnouncementFault> {
        check_address(&self.advertise)?;
        count("labels", self.labels.0.len(), LABELS_MAX)?;
        for (key, value) in &self.labels.0 {
            fits("a label", key)?;
            fits("a label", value)?;
        }
        count("links", self.links.len(), DECLARED_LINKS_MAX)?;
        count("services", self.services.len(), SERVICES_MAX)?;
        self.services
            .iter()
            .try_for_each(ServiceAnnouncement::check)?;
        self.check_names()
    }

    fn check_names(&self) -> Result<(), AnnouncementFault> {
        let mut taken: HashMap<&ServiceName, usize> = HashMap::new();
        for (n, service) in self.services.iter().enumerate() {
            for name in service.aliases.iter().chain([&service.name]) {
                if taken.insert(name, n).is_some_and(|other| other != n) {
                    return Err(AnnouncementFault::Twice(name.clone()));
                }
            }
        }
        Ok(())
    }
}

impl ServiceAnnouncement {
    fn check(&self) -> Result<(), AnnouncementFault> {
        count("aliases of a service", self.aliases.len(), ALIASES_MAX)?;
        self.version
            .iter()
            .try_for_each(|version| fits("a version", version))
    }
}

/// Checks that a text is `host:port`.
pub fn check_address(text: &str) -> Result<(), AnnouncementFault> {
    fits("an address", text)?;
    let bad = || AnnouncementFault::BadAddress(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte));
    match port.parse::<u16>() {
        Ok(port) if port != 0 && plain && !host.is_empty() => Ok(()),
        _ => Err(bad()),
    }
}

/// The address to dial: one that means "any address of mine" means nothing elsewhere, so the
/// one the peer was seen under takes its place.
pub(super) fn dialable(advertise: &str, seen: IpAddr) -> String {
    match advertise.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => {
            SocketAddr::new(seen.to_canonical(), address.port()).to_string()
        }
        _ => advertise.to_owned(),
    }
}

fn count(what: &'static str, found: usize, max: usize) -> Result<(), AnnouncementFault> {
    if found > max {
        Err(AnnouncementFault::TooMany { what, max })
    } else {
        Ok(())
    }
}

fn fits(what: &'static str, text: &str) -> Result<(), AnnouncementFault> {
    if text.len() > TEXT_BYTES_MAX {
        Err(AnnouncementFault::TooLong { what })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in ["127.0.0.1:7700", "[::1]:7700", "site1.example.net:1"] {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "host",
            "host:",
            ":7700",
            "host:0",
            "host:70000",
            "a b:1",
            "a\n:1",
            "\"a\":1",
        ] {
            assert!(check_address(bad).is_err(), "{bad}");
        }
        assert!(check_address(&format!("{}:1", "x".repeat(256))).is_err());
    }

    #[test]
    fn an_address_of_anywhere_becomes_the_one_seen() {
        let seen: IpAddr = "192.0.2.7".parse().unwrap();
        assert_eq!(dialable("0.0.0.0:7700", seen), "192.0.2.7:7700");
        assert_eq!(dialable("[::]:7700", seen), "192.0.2.7:7700");
        assert_eq!(
            dialable("site1.example.net:7700", seen),
            "site1.example.net:7700"
        );
    }

    #[test]
    fn a_name_serves_once() {
        let name = |text: &str| ServiceName::new(text).unwrap();
        let service = |text: &str, alias: &str| ServiceAnnouncement {
            name: name(text),
            aliases: vec![name(alias)],
            version: None,
        };
        let mut announcement = Announcement {
            site: SiteName::new("site1").unwrap(),
            incarnation: new_incarnation(),
            labels: Labels::default(),
            parent: None,
            links: Vec::new(),
            held: false,
            advertise: "127.0.0.1:1".into(),
            services: vec![service("image", "glance")],
            protocol: PROTOCOL,
        };
        assert_eq!(announcement.check(), Ok(()));
        announcement.services.push(service("Glance", "other"));
        assert_eq!(
            announcement.check(),
            Err(AnnouncementFault::Twice(name("glance")))
        );
        announcement.services = vec![service("image", "glance"); SERVICES_MAX + 1];
        assert!(matches!(
            announcement.check(),
            Err(AnnouncementFault::TooMany { .. })
        ));
    }
}
