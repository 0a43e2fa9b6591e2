//! Whom a link is kept to.
//!
//! A small mesh has one between any two sites. In a large one an agent keeps links to its parent and
//! children, to the sites it joined through and to those in use; and for a moment to a few others,
//! to find out about them.

use std::collections::HashMap;
use std::time::Instant;

use cheops_core::membership::State;
use cheops_model::SiteName;

use super::clock::Now;
use super::owner::Owner;
use super::roster::{Change, Effects};
use crate::limits::{LINK_ERRAND, LINK_ERRANDS_MAX, LINK_USED};

/// What a link is made for that nobody else asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Whether the site is there: it is suspected, or only others hear it.
    Doubt,
    /// What it says of itself. Done with the first hello.
    Read,
}

/// Sites to keep a link to for a while.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    used: HashMap<SiteName, Instant>,
    errands: HashMap<SiteName, (Errand, Instant)>,
    /// Whose turn it is to be read: some may never answer.
    turn: usize,
}

impl Wanted {
    pub(super) fn contains(&self, site: &SiteName) -> bool {
        self.used.contains_key(site) || self.errands.contains_key(site)
    }

    /// Requests go to that site.
    fn put_to_use(&mut self, site: &SiteName, now: Instant) {
        self.used.insert(site.clone(), now + LINK_USED);
    }

    /// To find out about a site. Not done if there is too much to be found out; false says so.
    pub(super) fn send(&mut self, site: &SiteName, errand: Errand, now: Instant) -> bool {
        let room = self.errands.len() < LINK_ERRANDS_MAX || self.errands.contains_key(site);
        if room {
            let until = now + LINK_ERRAND;
            self.errands.insert(site.clone(), (errand, until));
        }
        room
    }

    /// The site said hello over a link.
    pub(super) fn greeted(&mut self, site: &SiteName) {
        if self
            .errands
            .get(site)
            .is_some_and(|(why, _)| *why == Errand::Read)
        {
            self.errands.remove(site);
        }
    }

    fn forget_ended(&mut self, now: Instant) {
        self.used.retain(|_, until| *until > now);
        self.errands.retain(|_, (_, until)| *until > now);
    }
}

impl Owner {
    /// Once a second: links that are wanted are kept, others are not; clocks are compared.
    pub(super) fn tend(&mut self) {
        let now = Now::read();
        self.watch_the_clock(now);
        self.wanted.forget_ended(now.instant);
        let names: Vec<SiteName> = self.roster.names().cloned().collect();
        self.read_outdated(&names, now.instant);
        let mut effects = Effects::default();
        for site in names {
            match (self.wants_link(&site), self.links.contains_key(&site)) {
                (true, false) => _ = effects.dial.insert(site),
                (false, true) => self.hang_up(&site, &mut effects),
                (true, true) | (false, false) => (),
            }
        }
        self.carry_out(effects);
        self.publish(Change::Times);
    }

    /// What sites say of themselves is read from them, a few at a time.
    fn read_outdated(&mut self, names: &[SiteName], now: Instant) {
        for step in 0..names.len() {
            let at = (self.wanted.turn + step) % names.len();
            let site = &names[at];
            let linked = self
                .roster
                .known(site)
                .is_some_and(|known| known.is_linked());
            if linked || !self.is_outdated(site) {
                continue;
            }
            if !self.wanted.send(site, Errand::Read, now) {
                self.wanted.turn = at;
                return;
            }
        }
    }

    /// Whether a live site says something of itself that is not known here.
    pub(super) fn is_outdated(&self, site: &SiteName) -> bool {
        let said = self.roster.known(site).map_or(0, |known| known.said);
        let member = self.members.swim.member(site);
        member.is_some_and(|member| member.state == State::Alive && member.said != said)
            && !self.members.standing(site).is_out()
    }

    /// Whether a link is kept to a site.
    pub(super) fn wants_link(&self, site: &SiteName) -> bool {
        if self.members.standing(site).is_out() {
            return false;
        }
        let (tree, here) = (self.roster.tree(), &self.roster.here().site);
        let related = || {
            tree.parent(here) == Some(site)
                || tree.parent(site) == Some(here)
                || self.roster.here().links.contains(site)
        };
        self.roster.names().count() <= self.links_all_max
            || self.joined.contains(site)
            || self.wanted.contains(site)
            || related()
    }

    /// Requests go there: a link tells at once when that is in vain.
    pub(super) fn used(&mut self, site: &SiteName, now: Now, effects: &mut Effects) {
        self.wanted.put_to_use(site, now.instant);
        if self.roster.known(site).is_some() {
            effects.dial.insert(site.clone());
        }
    }

    /// Ends our link to a site.
    pub(super) fn hang_up(&mut self, site: &SiteName, effects: &mut Effects) {
        if let Some(handle) = self.links.remove(site) {
            handle.task.abort();
            self.roster.link_down(site, effects);
        }
        if self.members.standing(site).is_out() {
            self.accepted.remove(site);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn errands_are_few_and_those_in_use_do_not_crowd_them_out() {
        let site = |number: usize| SiteName::new(&format!("site{number}")).unwrap();
        let (mut wanted, now) = (Wanted::default(), Instant::now());
        for number in 0..100 {
            wanted.put_to_use(&site(number), now);
        }
        for number in 0..LINK_ERRANDS_MAX {
            assert!(wanted.send(&site(200 + number), Errand::Read, now));
        }
        assert!(!wanted.send(&site(300), Errand::Doubt, now));
        assert!(!wanted.contains(&site(300)));
        wanted.greeted(&site(200));
        assert!(!wanted.contains(&site(200)), "it was read");
        assert!(wanted.send(&site(300), Errand::Doubt, now));
        wanted.greeted(&site(300));
        assert!(wanted.contains(&site(300)), "watched for a while");
        wanted.forget_ended(now + LINK_ERRAND + Duration::from_millis(1));
        assert!(!wanted.contains(&site(300)));
        assert!(wanted.contains(&site(7)));
    }
}
