//! What is known of one other site.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use cheops_core::membership::{Coordinate, Nearest, Reach, StandingWord, trip_in};
use cheops_model::{Mark, SiteName};
use tracing::warn;

use super::announcement::{Announcement, dialable};
use super::clock::Now;
use super::members::said;
use super::roster::Via;
use super::trips::Trips;
use super::view::{Backlog, SiteView};
use crate::limits::{HINTS_MAX, RIVAL_PATIENCE};

/// Our link to a site.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) address: String,
    pub(super) incarnation: u64,
}

/// What is known of one other site.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) announcement: Option<Arc<Announcement>>,
    /// Tells its announcement from others; 0 without one.
    pub(super) said: u32,
    pub(super) last_heard: Option<Instant>,
    /// The address it announced, made dialable.
    announced: Option<String>,
    /// Other addresses, oldest first, so that what peers tell in turn does not swing.
    hints: Vec<String>,
    link: Option<Up>,
    /// As last judged, and since when.
    pub(super) shown: Mark,
    pub(super) since: SystemTime,
    /// Where it lies, as plans were last made with.
    placed: Option<Coordinate>,
    /// Whom it measured as its nearest, as plans were last made with.
    near: Option<Nearest<SiteName>>,
    /// How our own path to it is, as last judged.
    pub(super) reach: Reach,
    trips: Trips,
    rival: Option<Rival>,
}

/// Another agent under the same name.
#[derive(Debug)]
struct Rival {
    incarnation: u64,
    first_seen: Instant,
    said: bool,
}

impl Known {
    pub(super) fn new(now: Now) -> Known {
        Known {
            announcement: None,
            said: 0,
            last_heard: None,
            announced: None,
            hints: Vec::new(),
            link: None,
            shown: Mark::Unknown,
            since: now.time,
            placed: None,
            near: None,
            reach: Reach::Untried,
            trips: Trips::default(),
            rival: None,
        }
    }

    /// As it was before a restart.
    pub(super) fn saved(
        announcement: Option<Arc<Announcement>>,
        advertise: Option<String>,
        now: Now,
    ) -> Known {
        let hints = advertise.into_iter().collect();
        let shown = match &announcement {
            Some(_) => Mark::Autonomous,
            None => Mark::Unknown,
        };
        Known {
            said: announcement.as_deref().map_or(0, said),
            announcement,
            hints,
            shown,
            ..Known::new(now)
        }
    }

    fn set_announcement(&mut self, announcement: Arc<Announcement>) {
        self.said = said(&announcement);
        self.announcement = Some(announcement);
    }

    /// Whether our link to it is up.
    pub(super) fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// What somebody else tells of its announcement. True if that is new.
    pub(super) fn hear_announcement(&mut self, told: &Arc<Announcement>) -> bool {
        let known = self.announcement.as_deref();
        // Of one start, only what the site itself says counts, once it spoke to us.
        let spoke = self.announced.is_some();
        let newer = known.is_none_or(|known| {
            let same_start = told.incarnation == known.incarnation;
            told.incarnation > known.incarnation || (same_start && !spoke && **told != *known)
        });
        if newer {
            self.set_announcement(told.clone());
        }
        newer
    }

    /// Takes over what the site says of itself. True if that is new.
    pub(super) fn announce(&mut self, announcement: Announcement, via: &Via<'_>, now: Now) -> bool {
        self.last_heard = Some(now.instant);
        let (Via::Accepted(seen) | Via::Dialled(_, seen)) = *via;
        let address = Some(dialable(&announcement.advertise, seen));
        let moved = self.announced != address;
        self.announced = address;
        if self.announcement.as_deref() == Some(&announcement) {
            return moved;
        }
        self.set_announcement(Arc::new(announcement));
        true
    }

    /// Our link is up. True if it was not.
    pub(super) fn link_up(&mut self, up: Up, now: Now) -> bool {
        let was_down = self.link.is_none();
        self.last_heard = Some(now.instant);
        // The address that works is kept, whatever else was said: it may be the only one.
        self.hints = vec![up.address.clone()];
        self.rival = None;
        self.link = Some(up);
        was_down
    }

    /// Our link is gone. True if it was up.
    pub(super) fn link_down(&mut self) -> bool {
        self.link.take().is_some()
    }

    pub(super) fn beat(&mut self, trip: Duration, now: Now) {
        self.last_heard = Some(now.instant);
        self.trips.add(trip);
    }

    /// Whether our link leads to another agent than `incarnation`. After a restart that is so for
    /// a moment; if it stays so, two agents share a name.
    pub(super) fn has_rival(&mut self, site: &SiteName, incarnation: u64, now: Now) -> bool {
        let Some(up) = self
            .link
            .as_ref()
            .filter(|up| up.incarnation != incarnation)
        else {
            return false;
        };
        let fresh = Rival {
            incarnation,
            first_seen: now.instant,
            said: false,
        };
        let rival = match self.rival.take() {
            Some(rival) if rival.incarnation == incarnation => self.rival.insert(rival),
            _ => self.rival.insert(fresh),
        };
        if !rival.said && now.instant.duration_since(rival.first_seen) >= RIVAL_PATIENCE {
            rival.said = true;
            warn!(%site, first = %up.address, "two live agents claim this site name; the first is kept; stop one of them");
        }
        true
    }

    /// An address under which the site's certificate was shown. True if that is new.
    pub(super) fn add_proven(&mut self, address: &str) -> bool {
        if self.addresses().iter().any(|known| known == address) {
            return false;
        }
        self.hints.truncate(HINTS_MAX - 1);
        self.hints.push(address.to_owned());
        true
    }

    /// An address that somebody else told. True if that is new and there is room.
    pub(super) fn add_hearsay(&mut self, address: &str) -> bool {
        // Once the site has spoken for itself in this life of the agent, hearsay can only be older.
        if self.announced.is_some() || self.hints.len() >= HINTS_MAX {
            return false;
        }
        self.add_proven(address)
    }

    /// Takes over where it lies, if that is far enough from where plans have it. True if it is.
    pub(super) fn take_place(&mut self, place: Option<Coordinate>) -> bool {
        let moved = match (&self.placed, &place) {
            (Some(before), Some(now)) => before.is_apart(now),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if moved {
            self.placed = place;
        }
        moved
    }

    /// Takes over whom it measured as its nearest. True if plans may come out otherwise.
    pub(super) fn take_near(&mut self, near: Option<Nearest<SiteName>>) -> bool {
        let same = |(site, trip_ms): &(SiteName, f64), before: &[(SiteName, f64)]| {
            let known = trip_in(before, site);
            known.is_some_and(|known| (known - trip_ms).abs() <= (known / 5.0).max(1.0))
        };
        let alike = match (&self.near, &near) {
            (None, None) => true,
            (Some(before), Some(now)) => {
                before.len() == now.len() && now.iter().all(|near| same(near, before))
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !alike {
            self.near = near;
        }
        !alike
    }

    /// Where to try, best first.
    pub(super) fn addresses(&self) -> Vec<String> {
        let mut addresses: Vec<String> = self.announced.iter().cloned().collect();
        for hint in &self.hints {
            if !addresses.contains(hint) {
                addresses.push(hint.clone());
            }
        }
        addresses
    }

    /// The one address to tell others.
    pub(super) fn advertise(&self) -> Option<String> {
        self.announced
            .clone()
            .or_else(|| self.hints.first().cloned())
    }

    pub(super) fn view(&self) -> SiteView {
        let linked = self.link.as_ref().map(|up| up.address.clone());
        SiteView {
            announcement: self.announcement.clone(),
            mark: self.shown,
            since: self.since,
            last_heard: self.last_heard,
            rtt: self.trips.estimate(),
            advertise: linked.or_else(|| self.advertise()),
            linked: self.is_linked(),
            reach: self.reach,
            standing: StandingWord::Attached,
            place: self.placed,
            near: self.near.clone(),
            backlog: Backlog::default(),
            report: None,
        }
    }
}
