//! Who is known, and what is believed of them: the state of the mesh without its sockets.
//!
//! Time comes in as an argument; what is to be done comes out as [`Effects`]. One task owns it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cheops_core::membership::{
    Coordinate, Evidence, LinkState, Nearest, Place, Reach, Standing, StandingWord, State, Tree,
    mark,
};
use cheops_model::{Mark, SiteName};
use tracing::warn;

use super::announcement::{Announcement, check_address};
use super::clock::Now;
use super::known::{Known, Up};
use super::members::said;
use super::message::{Beat, Hello, KnownSite, cut_to_room, digest};
use super::saved::{Saved, SavedSite};
use super::view::{Backlog, Backlogs, SiteView, View};
use crate::limits::SITES_MAX;

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
    /// Judge the sites anew.
    pub(super) judge: bool,
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
    /// An operator took the sender out.
    #[error("this site was {}; an operator has to attach it again, at another site", .0.word())]
    Out(StandingWord),
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
    /// What operators decided.
    standings: BTreeMap<SiteName, Standing<SiteName>>,
    /// Who stands above whom, as of the last judgement.
    tree: Arc<Tree>,
    fullness_said: bool,
}

/// What membership says of a site.
pub(super) struct Outlook {
    pub(super) state: Option<State>,
    pub(super) reach: Reach,
    pub(super) place: Option<Coordinate>,
    pub(super) near: Option<Nearest<SiteName>>,
}

/// What a judgement rests on besides links.
pub(super) struct Grounds<'a> {
    /// Whether this site hears any other.
    pub(super) hears: bool,
    /// Whether a link is kept to a site.
    pub(super) kept: &'a dyn Fn(&SiteName) -> bool,
    pub(super) outlook: &'a dyn Fn(&SiteName) -> Outlook,
    pub(super) backlogs: &'a Backlogs,
}

/// What changed with a judgement.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// Sites with another mark: who, before, now.
    pub(super) marks: Vec<(SiteName, Mark, Mark)>,
    /// Something else that plans depend on: places, paths, who stands where.
    pub(super) more: bool,
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
            standings: BTreeMap::new(),
            tree: Arc::default(),
            fullness_said: false,
        };
        (roster, effects)
    }

    /// This site.
    pub(super) fn here(&self) -> &Arc<Announcement> {
        &self.here
    }

    /// Every other known site.
    pub(super) fn names(&self) -> impl Iterator<Item = &SiteName> {
        self.sites.keys()
    }

    /// One other site.
    pub(super) fn known(&self, site: &SiteName) -> Option<&Known> {
        self.sites.get(site)
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Takes over what operators decided.
    pub(super) fn set_standings(
        &mut self,
        standings: BTreeMap<SiteName, Standing<SiteName>>,
        effects: &mut Effects,
    ) {
        if self.standings != standings {
            self.standings = standings;
            effects.publish = true;
            effects.save = true;
            effects.say = true;
        }
    }

    pub(super) fn standing(&self, site: &SiteName) -> StandingWord {
        let standing = self.standings.get(site);
        standing.map_or(StandingWord::Attached, |standing| standing.word)
    }

    /// Makes up its mind about every site.
    pub(super) fn judge(&mut self, now: Now, grounds: &Grounds<'_>) -> Judged {
        let mut judged = Judged::default();
        let tree = self.grow_tree();
        if *self.tree != tree {
            self.tree = Arc::new(tree);
            judged.more = true;
        }
        let linked = |site: &SiteName| self.sites.get(site).is_some_and(Known::is_linked);
        let by_way = |site: &SiteName| {
            let between = self.tree.between(&self.here.site, site);
            between.into_iter().any(linked)
        };
        let by_way: BTreeSet<SiteName> = self.sites.keys().filter(|s| by_way(s)).cloned().collect();
        for (site, known) in &mut self.sites {
            let outlook = (grounds.outlook)(site);
            let standing = self.standings.get(site);
            let evidence = Evidence {
                standing: standing.map_or(StandingWord::Attached, |standing| standing.word),
                link: match (known.is_linked(), (grounds.kept)(site)) {
                    (true, _) => LinkState::Up,
                    (false, true) => LinkState::Down,
                    (false, false) => LinkState::NotKept,
                },
                state: outlook.state,
                reach: outlook.reach,
                by_way: by_way.contains(site),
                hears: grounds.hears,
                introduced: known.announcement.is_some(),
                // What waits here for it counts too, also if it is not known to lack it yet.
                behind: grounds
                    .backlogs
                    .get(site)
                    .map_or(0, |backlog| backlog.behind.max(backlog.queued)),
            };
            let mark = mark(evidence);
            if mark != known.shown {
                judged.marks.push((site.clone(), known.shown, mark));
                known.shown = mark;
                known.since = now.time;
            }
            judged.more |= known.reach != outlook.reach;
            known.reach = outlook.reach;
            judged.more |= known.take_place(outlook.place);
            judged.more |= known.take_near(outlook.near);
        }
        judged
    }

    fn grow_tree(&self) -> Tree {
        let mut tree = Tree::default();
        let said = self
            .sites
            .values()
            .filter_map(|known| known.announcement.as_ref());
        for said in said.chain([&self.here]) {
            let (parent, links) = (said.parent.clone(), said.links.clone());
            tree.put(said.site.clone(), Place { parent, links });
        }
        tree
    }

    /// Another site told of this one, by datagram.
    pub(super) fn hear_of(
        &mut self,
        site: &SiteName,
        address: &str,
        now: Now,
        effects: &mut Effects,
    ) {
        let told = KnownSite {
            site: site.clone(),
            advertise: address.to_owned(),
            announcement: None,
            standing: None,
        };
        if check_address(address).is_ok() {
            self.learn(vec![told], now, effects);
        }
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
        let standing = self.standing(&site);
        if standing.is_out() {
            return Err(Refusal::Out(standing));
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
                effects.wake = (!known.is_linked()).then(|| site.clone());
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
    pub(super) fn link_down(&mut self, site: &SiteName, effects: &mut Effects) {
        if let Some(known) = self.sites.get_mut(site) {
            effects.publish |= known.link_down();
        }
    }

    /// A beat on our link came back. True if the site is known.
    pub(super) fn beat(&mut self, site: &SiteName, trip: Duration, now: Now) -> bool {
        let known = self.sites.get_mut(site);
        known.map(|known| known.beat(trip, now)).is_some()
    }

    /// `site` did something here; tells whether our link to it is up. Connecting while it is not
    /// is worth a try at once.
    pub(super) fn heard(&mut self, site: &SiteName, now: Now) -> Option<bool> {
        let known = self.sites.get_mut(site)?;
        known.last_heard = Some(now.instant);
        Some(known.is_linked())
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
        let before = self.sites.range::<SiteName, _>(..&self.here.site);
        let after = self.sites.range::<SiteName, _>(&self.here.site..);
        let known = |(site, known): (&SiteName, &Known)| (site.clone(), u64::from(known.said));
        let here = (self.here.site.clone(), u64::from(said(&self.here)));
        let sites = before.map(known).chain([here]).chain(after.map(known));
        let stamped = sites.map(|(site, word)| {
            let standing = self
                .standings
                .get(&site)
                .map_or(0, |standing| standing.version);
            (site, word ^ (standing << 32))
        });
        let stamped: Vec<_> = stamped.collect();
        Beat {
            announcement: self.revision,
            known: digest(stamped.iter().map(|(site, word)| (site, *word))),
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
        let others = ring.filter_map(|(site, known)| {
            Some(KnownSite {
                site: site.clone(),
                advertise: known.advertise()?,
                announcement: known.announcement.clone(),
                standing: self.standings.get(site).cloned(),
            })
        });
        // A site that was taken out and is back says so itself.
        let own = self.standings.get(here).map(|standing| KnownSite {
            site: here.clone(),
            advertise: self.here.advertise.clone(),
            announcement: None,
            standing: Some(standing.clone()),
        });
        let told = own.into_iter().chain(others);
        Hello {
            announcement: (*self.here).clone(),
            known: cut_to_room(told),
            state: self.state(),
            again: false,
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
        let gone = self.standings.iter();
        let gone = gone.filter(|(_, standing)| standing.word == StandingWord::Removed);
        let removed: BTreeSet<SiteName> = gone.map(|(site, _)| site.clone()).collect();
        let known = self.sites.iter();
        let known = known.filter(|(site, _)| !removed.contains(*site));
        let mut sites: BTreeMap<_, _> = known
            .map(|(site, known)| (site.clone(), self.view_of(site, known)))
            .collect();
        sites.insert(self.here.site.clone(), self.view_of_here());
        View {
            version: self.version,
            here: self.here.site.clone(),
            sites,
            tree: self.tree.clone(),
            removed,
            held: self.here.held,
            datagrams_refused: 0,
        }
    }

    fn view_of(&self, site: &SiteName, known: &Known) -> SiteView {
        SiteView {
            standing: self.standing(site),
            ..known.view()
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
            linked: false,
            reach: Reach::Direct,
            standing: self.standing(&self.here.site),
            place: None,
            near: None,
            backlog: Backlog::default(),
            report: None,
        }
    }

    fn refuse_own_name(&self, incarnation: u64) -> Refusal {
        if incarnation == self.here.incarnation {
            Refusal::Ourselves
        } else {
            Refusal::NameTaken
        }
    }

    /// Hearsay: where a peer says that others are, and what they said.
    fn learn(&mut self, told: Vec<KnownSite>, now: Now, effects: &mut Effects) {
        for told in told {
            if self.standing(&told.site) == StandingWord::Removed {
                continue;
            }
            let Some(known) = self.entry(&told.site, now, effects) else {
                continue;
            };
            if known.add_hearsay(&told.advertise) {
                effects.dial.insert(told.site.clone());
            }
            let of_it = |said: &&Arc<Announcement>| said.site == told.site;
            if let Some(said) = told.announcement.as_ref().filter(of_it)
                && known.hear_announcement(said)
            {
                effects.publish = true;
                effects.save = true;
                effects.say = true;
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
