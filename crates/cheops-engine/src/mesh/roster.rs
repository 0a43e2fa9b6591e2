//! Who is known, and what is believed of them: the state of the mesh without its sockets.
//!
//! Time comes in as an argument; what is to be done comes out as [`Effects`]. One task owns it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use cheops_model::{Mark, SiteName};
use tracing::warn;

use super::announcement::Announcement;
use super::known::{Known, Up};
use super::message::{Beat, Hello, KnownSite, cut_to_room, digest};
use super::saved::{Saved, SavedSite};
use super::view::{SiteView, View};
use crate::limits::SITES_MAX;

/// Both clocks, read once per event.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) time: SystemTime,
}

/// What a change asks of the owner.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// Publish a new view.
    pub(super) publish: bool,
    /// Save the known sites.
    pub(super) save: bool,
    /// Tell peers: our half of a hello changed.
    pub(super) say: bool,
    /// Keep a link to these, under their addresses of now.
    pub(super) dial: BTreeSet<SiteName>,
    /// Try this one at once: it is there.
    pub(super) wake: Option<SiteName>,
}

/// Why a hello is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// Sender and receiver are one.
    #[error("this is you")]
    Ourselves,
    /// Another agent has that name, and is alive.
    #[error(
        "another live agent has this site name; stop one of them, or make another identity for it"
    )]
    NameTaken,
    /// No room for another site.
    #[error("this agent knows {SITES_MAX} sites and takes no more")]
    Full,
}

/// How a hello came.
pub(super) enum Via<'a> {
    /// The peer dialled us, from there.
    Accepted(IpAddr),
    /// We dialled the peer, under this address, which was there.
    Dialled(&'a str, IpAddr),
}

/// The state.
pub(super) struct Roster {
    here: Arc<Announcement>,
    revision: u64,
    started: SystemTime,
    version: u64,
    sites: BTreeMap<SiteName, Known>,
    fullness_said: bool,
}

impl Roster {
    /// This site, and those it knew before; effects ask for links to them.
    pub(super) fn new(here: Announcement, saved: Saved, now: Now) -> (Roster, Effects) {
        let mut effects = Effects {
            publish: true,
            say: true,
            ..Effects::default()
        };
        let mut sites = BTreeMap::new();
        for SavedSite {
            site,
            advertise,
            announcement,
        } in saved.sites
        {
            if site != here.site {
                effects.dial.insert(site.clone());
                sites.insert(site, Known::saved(announcement, advertise, now));
            }
        }
        let roster = Roster {
            here: Arc::new(here),
            revision: 1,
            started: now.time,
            version: 0,
            sites,
            fullness_said: false,
        };
        (roster, effects)
    }

    /// This site says something new of itself.
    pub(super) fn announce(&mut self, announcement: Announcement, effects: &mut Effects) {
        if *self.here == announcement {
            return;
        }
        self.here = Arc::new(announcement);
        self.revision += 1;
        effects.publish = true;
        effects.say = true;
    }

    /// A certificate of `site` was shown under `address`.
    pub(super) fn meet(&mut self, site: &SiteName, address: &str, now: Now, effects: &mut Effects) {
        let Some(known) = self.entry(site, now, effects) else {
            return;
        };
        if known.add_proven(address) {
            effects.dial.insert(site.clone());
        }
    }

    /// A hello of `hello.announcement.site`, which its certificate bears out.
    pub(super) fn greet(
        &mut self,
        hello: Hello,
        via: Via<'_>,
        now: Now,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let site = hello.announcement.site.clone();
        let incarnation = hello.announcement.incarnation;
        if site == self.here.site {
            return Err(self.refuse_own_name(incarnation));
        }
        let known = self.entry(&site, now, effects).ok_or(Refusal::Full)?;
        if matches!(via, Via::Accepted(_)) && known.has_rival(&site, incarnation, now) {
            return Err(Refusal::NameTaken);
        }
        if known.announce(hello.announcement, &via, now) {
            effects.publish = true;
            effects.save = true;
            effects.dial.insert(site.clone());
        }
        match via {
            Via::Accepted(_) => {
                effects.wake = (known.mark() != Mark::Connected).then(|| site.clone());
            }
            Via::Dialled(address, _) => {
                effects.publish |= known.link_up(
                    Up {
                        address: address.into(),
                        incarnation,
                    },
                    now,
                );
            }
        }
        self.learn(hello.known, now, effects);
        Ok(())
    }

    /// Our link to `site` is gone, if it was up.
    pub(super) fn link_down(&mut self, site: &SiteName, now: Now, effects: &mut Effects) {
        if let Some(known) = self.sites.get_mut(site) {
            effects.publish |= known.link_down(now);
        }
    }

    /// A beat on our link came back. True if the site is known.
    pub(super) fn beat(&mut self, site: &SiteName, trip: Duration, now: Now) -> bool {
        let known = self.sites.get_mut(site);
        known.map(|known| known.beat(trip, now)).is_some()
    }

    /// `site` did something here. Connecting while we believe it away is worth a try at once.
    pub(super) fn heard(&mut self, site: &SiteName, now: Now) -> Option<Mark> {
        let known = self.sites.get_mut(site)?;
        known.last_heard = Some(now.instant);
        Some(known.mark())
    }

    /// Where `site` is tried, best first.
    pub(super) fn addresses(&self, site: &SiteName) -> Vec<String> {
        self.sites
            .get(site)
            .map(Known::addresses)
            .unwrap_or_default()
    }

    /// What a beat says of us.
    pub(super) fn state(&self) -> Beat {
        let before = self
            .sites
            .range::<SiteName, _>(..&self.here.site)
            .map(|(site, _)| site);
        let after = self
            .sites
            .range::<SiteName, _>(&self.here.site..)
            .map(|(site, _)| site);
        let known = digest(before.chain([&self.here.site]).chain(after));
        Beat {
            announcement: self.revision,
            known,
        }
    }

    /// Our half of a hello.
    pub(super) fn hello(&self) -> Hello {
        let here = &self.here.site;
        let after = (Bound::Excluded(here.clone()), Bound::Unbounded);
        let ring = self
            .sites
            .range(after)
            .chain(self.sites.range(..here.clone()));
        let told = ring.filter_map(|(site, known)| {
            Some(KnownSite {
                site: site.clone(),
                advertise: known.advertise()?,
            })
        });
        Hello {
            announcement: (*self.here).clone(),
            known: cut_to_room(told),
            state: self.state(),
        }
    }

    /// What is to survive a restart.
    pub(super) fn saved(&self) -> Saved {
        let site = |(site, known): (&SiteName, &Known)| SavedSite {
            site: site.clone(),
            advertise: known.advertise(),
            announcement: known.announcement.clone(),
        };
        Saved::new(self.sites.iter().map(site).collect())
    }

    /// The next view; with a new version if more changed than times and round trips.
    pub(super) fn view(&mut self, change: Change) -> View {
        match change {
            Change::Matter => self.version += 1,
            Change::Times => (),
        }
        let mut sites: BTreeMap<_, _> = self
            .sites
            .iter()
            .map(|(site, known)| (site.clone(), known.view()))
            .collect();
        sites.insert(self.here.site.clone(), self.view_of_here());
        View {
            version: self.version,
            here: self.here.site.clone(),
            sites,
        }
    }

    fn view_of_here(&self) -> SiteView {
        SiteView {
            announcement: Some(self.here.clone()),
            mark: Mark::Connected,
            since: self.started,
            last_heard: None,
            rtt: None,
            advertise: Some(self.here.advertise.clone()),
        }
    }

    fn refuse_own_name(&self, incarnation: u64) -> Refusal {
        if incarnation == self.here.incarnation {
            Refusal::Ourselves
        } else {
            Refusal::NameTaken
        }
    }

    /// Hearsay: where a peer says that others are.
    fn learn(&mut self, told: Vec<KnownSite>, now: Now, effects: &mut Effects) {
        for KnownSite { site, advertise } in told {
            let Some(known) = self.entry(&site, now, effects) else {
                continue;
            };
            if known.add_hearsay(&advertise) {
                effects.dial.insert(site);
            }
        }
    }

    /// The record of a site, made if there is room; none for this site.
    fn entry(&mut self, site: &SiteName, now: Now, effects: &mut Effects) -> Option<&mut Known> {
        if *site == self.here.site {
            return None;
        }
        if !self.sites.contains_key(site) {
            if self.sites.len() >= SITES_MAX {
                self.say_full(site);
                return None;
            }
            self.sites.insert(site.clone(), Known::new(now));
            effects.publish = true;
            effects.save = true;
            effects.say = true;
            effects.dial.insert(site.clone());
        }
        self.sites.get_mut(site)
    }

    fn say_full(&mut self, site: &SiteName) {
        if !self.fullness_said {
            self.fullness_said = true;
            warn!(%site, max = SITES_MAX, "no room for another site; remove sites that are gone");
        }
    }
}

/// How much a new view differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Something that routing may depend on.
    Matter,
    /// Times of contact and round trips only.
    Times,
}

#[cfg(test)]
mod tests;
