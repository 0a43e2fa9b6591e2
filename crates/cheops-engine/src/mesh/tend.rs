//! The owner's hand on membership: datagrams, marks, what operators decide, reports.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cheops_core::membership::{Datagram, Effect, Reach, Report, Reports, StandingWord, State};
use cheops_model::{Mark, SiteName};
use serde_json::json;
use tracing::{info, warn};

use super::clock::Now;
use super::decide::{DecideError, Decision};
use super::message::{DATAGRAM_PATH, REPORT_PATH, encode};
use super::owner::Owner;
use super::post::Letter;
use super::roster::{Change, Effects, Grounds, Outlook};
use super::standing::Moved;
use super::view::HeldReport;
use super::wanted::Errand;

impl Owner {
    /// Does what membership wants.
    pub(super) fn heed(&mut self, wishes: Vec<Effect<SiteName>>, now: Now, effects: &mut Effects) {
        for wish in wishes {
            match wish {
                Effect::Send(datagram) => self.send(&datagram, now.instant),
                Effect::Learnt(site) => self.learn(&site, now, effects),
                Effect::Changed(site) => self.look_at(&site, now, effects),
                Effect::Answered { site, trip_ms } => {
                    let trip = Duration::from_secs_f64(trip_ms.max(0.0) / 1000.0);
                    self.refresh |= self.roster.beat(&site, trip, now);
                }
                Effect::OwnNameAhead { incarnation } => {
                    if self.members.say_rival() {
                        warn!(
                            incarnation,
                            "somebody spoke under this site's name with a later start: another agent has it, or this clock was set back"
                        );
                        self.events
                            .publish("name-ahead", &json!({ "site": self.roster.here().site }));
                    }
                }
            }
        }
    }

    fn learn(&mut self, site: &SiteName, now: Now, effects: &mut Effects) {
        let address = self
            .members
            .swim
            .member(site)
            .map(|member| member.address.clone());
        if let Some(address) = address {
            self.roster.hear_of(site, &address, now, effects);
        }
    }

    /// Something about a site is new: its standing, its path, or what it says of itself.
    fn look_at(&mut self, site: &SiteName, now: Now, effects: &mut Effects) {
        self.roster
            .set_standings(self.members.standings().into_iter().collect(), effects);
        if self.members.standing(site).is_out() {
            self.hang_up(site, effects);
        } else {
            effects.dial.insert(site.clone());
        }
        effects.judge = true;
        let Some(member) = self.members.swim.member(site) else {
            return;
        };
        let doubtful = member.state == State::Suspect
            || matches!(member.reach(), Reach::Indirect | Reach::OneWay);
        let outdated = self.is_outdated(site);
        if doubtful {
            self.wanted.send(site, Errand::Doubt, now.instant);
        } else if outdated {
            self.wanted.send(site, Errand::Read, now.instant);
        }
    }

    /// By UDP; and over our link, if that is up and UDP does not get through.
    fn send(&mut self, datagram: &Datagram<SiteName>, now: Instant) {
        let to = &datagram.to;
        let by_udp = self.members.hears_by_udp(to, now);
        let linked = self.roster.known(to).is_some_and(|known| known.is_linked());
        // Sealed for each way: the same twice would be refused as a copy.
        if linked && !by_udp {
            let sealed = self.members.seal(datagram);
            self.tell(to, DATAGRAM_PATH, sealed);
        }
        let Some(address) = self.address_of(to) else {
            return;
        };
        let sealed = self.members.seal(datagram);
        if let Some(letters) = &self.letters {
            let _ = letters.try_send(Letter { address, sealed });
        }
    }

    fn address_of(&self, site: &SiteName) -> Option<String> {
        if let Some(route) = self.routes.get(site) {
            return Some(route.clone());
        }
        let known = self
            .roster
            .known(site)
            .and_then(|known| known.view().advertise);
        let told = || Some(self.members.swim.member(site)?.address.to_string());
        known.or_else(told)
    }

    /// A message over our link; lost if it is not up, or too slow.
    fn tell(&self, site: &SiteName, path: &'static str, body: Bytes) {
        if let Some(handle) = self.links.get(site) {
            let _ = handle.messages.try_send((path, body));
        }
    }

    /// Judges every site, publishes what came out, and tells of marks that changed.
    pub(super) fn publish(&mut self, change: Change) {
        let now = Now::read();
        let backlogs = self.backlogs.borrow().clone();
        let grounds = Grounds {
            hears: self.members.hears(now.instant),
            kept: &|site| self.links.contains_key(site),
            outlook: &|site| {
                let member = self.members.swim.member(site);
                Outlook {
                    state: member.map(|member| member.state),
                    reach: member.map_or(Reach::Untried, |member| member.reach()),
                    place: self.members.swim.place(site),
                    near: member.and_then(|member| member.near.clone()),
                }
            },
            backlogs: &backlogs,
        };
        let judged = self.roster.judge(now, &grounds);
        for (site, before, mark) in &judged.marks {
            info!(%site, %before, %mark, "mark");
            let body = json!({ "site": site, "before": before, "mark": mark });
            self.events.publish("site-mark", &body);
        }
        let matter = change == Change::Matter || judged.more || !judged.marks.is_empty();
        if !matter && !self.refresh {
            return;
        }
        self.refresh = false;
        let change = if matter {
            Change::Matter
        } else {
            Change::Times
        };
        let mut view = self.roster.view(change);
        view.datagrams_refused = self.members.refused.count();
        let here = self.members.swim.coordinate();
        for (site, held) in self.reports.held() {
            if let Some(seen) = view.sites.get_mut(site) {
                let (report, made) = (held.report.clone(), self.members.instant(held.made));
                seen.report = Some(Arc::new(HeldReport { report, made }));
            }
        }
        for (site, seen) in &mut view.sites {
            seen.backlog = backlogs.get(site).copied().unwrap_or_default();
            if *site == view.here {
                seen.place = Some(*here);
            }
        }
        self.outlets.view.send_replace(Arc::new(view));
    }

    /// A clock that was set says nothing of time: everything here goes by the one that only goes
    /// forward. But operators want to know.
    pub(super) fn watch_the_clock(&mut self, now: Now) {
        if let Some(seconds) = self.clocks.jumped_s(now) {
            warn!(seconds, "this machine's clock was set");
            self.events
                .publish("clock-jumped", &json!({ "seconds": seconds }));
        }
    }

    /// What an operator decides is on disk before it is answered.
    pub(super) fn decide(
        &mut self,
        site: &SiteName,
        decision: &Decision,
        effects: &mut Effects,
    ) -> Result<(), DecideError> {
        let here = self.roster.here().site.clone();
        let is_here = *site == here;
        if !is_here && self.members.swim.member(site).is_none() {
            return Err(DecideError::Unknown(site.clone()));
        }
        match decision {
            Decision::Hold | Decision::Release if !is_here => {
                return Err(DecideError::NotHere(site.clone()));
            }
            Decision::Hold => self.hold(true, effects)?,
            Decision::Release => self.hold(false, effects)?,
            Decision::Move { .. } if !is_here => return Err(DecideError::NotHere(site.clone())),
            Decision::Move { parent } => self.move_under(parent.clone(), effects)?,
            Decision::Fence | Decision::Remove { .. } | Decision::Fail if is_here => {
                return Err(DecideError::Here(here));
            }
            // Whoever was shut out by others does not let itself in.
            Decision::Attach if is_here && self.is_shut_out() => {
                return Err(DecideError::Here(here));
            }
            Decision::Remove { force: false } => self.check_majority()?,
            Decision::Remove { force: true }
            | Decision::Fence
            | Decision::Fail
            | Decision::Detach
            | Decision::Attach => (),
        }
        if let Some(word) = decision.standing() {
            let mut wishes = Vec::new();
            self.members.swim.decide(site, word, &mut wishes);
            self.save_decisions()?;
            self.heed(wishes, Now::read(), effects);
        }
        info!(%site, ?decision, "decided");
        let body = json!({ "site": site, "standing": self.members.standing(site).word(), "held": self.decisions.held });
        self.events.publish("site-decided", &body);
        Ok(())
    }

    fn is_shut_out(&self) -> bool {
        match self.members.standing(&self.roster.here().site) {
            StandingWord::Fenced | StandingWord::Removed => true,
            StandingWord::Attached | StandingWord::Detached | StandingWord::Failed => false,
        }
    }

    fn hold(&mut self, held: bool, effects: &mut Effects) -> Result<(), DecideError> {
        self.decisions.held = held;
        self.save_decisions()?;
        let announcement = (**self.roster.here()).clone();
        self.announce(announcement, effects);
        Ok(())
    }

    fn move_under(
        &mut self,
        parent: Option<SiteName>,
        effects: &mut Effects,
    ) -> Result<(), DecideError> {
        let here = self.roster.here().site.clone();
        if let Some(parent) = &parent {
            if *parent == here || self.roster.tree().above(parent).any(|above| *above == here) {
                return Err(DecideError::Circle(parent.clone()));
            }
            if self.roster.known(parent).is_none() {
                return Err(DecideError::Unknown(parent.clone()));
            }
        }
        let configured = self.configured_parent.clone();
        self.decisions.moved_under = Some(Moved { parent, configured });
        self.save_decisions()?;
        let announcement = (**self.roster.here()).clone();
        self.announce(announcement, effects);
        Ok(())
    }

    /// A removal needs more than half of the mesh: a few that were cut off must not remove the rest.
    fn check_majority(&self) -> Result<(), DecideError> {
        let view = self.outlets.view.borrow();
        let belong = |seen: &&super::view::SiteView| !seen.standing.is_out();
        let known = view.sites.values().filter(belong).count();
        let near = |mark: Mark| matches!(mark, Mark::Connected | Mark::Synchronizing);
        let reached = view
            .sites
            .values()
            .filter(belong)
            .filter(|seen| near(seen.mark))
            .count();
        if reached * 2 > known {
            return Ok(());
        }
        Err(DecideError::NoMajority { reached, known })
    }

    /// What the configuration says of this site, with what operators decided over it.
    pub(super) fn announce(
        &mut self,
        mut announcement: super::announcement::Announcement,
        effects: &mut Effects,
    ) {
        announcement.held = self.decisions.held;
        announcement.incarnation = self.roster.here().incarnation;
        announcement.parent = self.decisions.parent(self.configured_parent.clone());
        if announcement != **self.roster.here() {
            self.members.announce(&announcement);
            self.roster.announce(announcement, effects);
        }
    }

    pub(super) fn save_decisions(&mut self) -> Result<(), DecideError> {
        self.decisions.standings = self.members.standings();
        // An operator's word is rare and small: the links can wait for the disk.
        let written = self.decisions.write(&self.folder);
        written.map_err(|fault| DecideError::Unsaved(fault.to_string()))
    }

    /// Tells the parent how it is here and below.
    pub(super) fn report(&mut self, own: Report) {
        let now = self.members.moment(Instant::now());
        let here = self.roster.here().site.clone();
        self.reports.put(now, here.clone(), own);
        self.refresh = true;
        let tree = self.roster.tree();
        let below = |site: &SiteName| *site == here || tree.above(site).any(|above| *above == here);
        self.reports.keep(below);
        let Some(parent) = tree.parent(&here).cloned() else {
            return;
        };
        let known = self.roster.known(&parent);
        if known.is_some_and(|known| known.is_linked()) {
            let reports = self.reports.tell(now);
            self.tell(&parent, REPORT_PATH, encode(&reports));
        } else {
            self.reports.forget_told();
        }
    }

    /// Takes what a child tells, of itself and of what is below it.
    pub(super) fn take_reports(&mut self, from: &SiteName, reports: Reports<SiteName>) {
        let (now, tree) = (self.members.moment(Instant::now()), self.roster.tree());
        let below = |site: &SiteName| site == from || tree.above(site).any(|above| above == from);
        self.reports.take(now, from, reports, below);
        self.refresh = true;
    }
}
