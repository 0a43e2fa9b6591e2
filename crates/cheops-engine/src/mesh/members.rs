//! This agent's part of membership: the protocol of the core, its datagrams sealed and opened.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cheops_core::membership::{
    Datagram, Effect, Guard, Moment, SealFault, SealKey, Sealer, Standing, StandingWord, Swim,
};
use cheops_model::SiteName;

use super::announcement::Announcement;
use super::message::encode;
use super::refused::{DatagramFault, Origin, Refused};
use crate::identity::Identity;
use crate::limits::DATAGRAM_BYTES_MAX;

/// Links carry the datagrams for a peer that was not heard by UDP for so long.
const UDP_SILENCE: Duration = Duration::from_secs(10);

/// Membership, as the owner of the mesh's state holds it.
pub(super) struct Members {
    pub(super) swim: Swim<SiteName>,
    key: SealKey,
    guard: Guard<SiteName>,
    sealer: Sealer,
    begun: Instant,
    heard_by_udp: HashMap<SiteName, Instant>,
    pub(super) refused: Refused,
    /// An agent ahead of us under our name was already told of.
    rival_said: bool,
}

impl Members {
    pub(super) fn new(identity: &Identity, here: &Announcement, now: Instant) -> Members {
        let key = SealKey::new(identity.secret().key_for("cheops datagrams 1"));
        let swim = Swim::new(
            here.site.clone(),
            here.incarnation,
            here.advertise.as_str().into(),
            said(here),
            rand::random(),
            Moment(0),
        );
        Members {
            swim,
            guard: Guard::default(),
            sealer: Sealer::new(key.clone(), here.incarnation),
            key,
            begun: now,
            heard_by_udp: HashMap::new(),
            refused: Refused::default(),
            rival_said: false,
        }
    }

    pub(super) fn moment(&self, now: Instant) -> Moment {
        let since = now.saturating_duration_since(self.begun);
        Moment(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// What [`moment`](Members::moment) made of it.
    pub(super) fn instant(&self, moment: Moment) -> Instant {
        self.begun + Duration::from_micros(moment.0)
    }

    /// When [`tick`](Members::tick) is due.
    pub(super) fn wake(&self) -> Instant {
        self.begun + Duration::from_millis(self.swim.wake_ms())
    }

    pub(super) fn tick(&mut self, now: Instant, effects: &mut Vec<Effect<SiteName>>) {
        self.swim.tick(self.moment(now), effects);
    }

    /// Opens a datagram and takes it; tells whose it was, if it was taken.
    pub(super) fn receive(
        &mut self,
        sealed: &[u8],
        origin: Origin,
        now: Instant,
        effects: &mut Vec<Effect<SiteName>>,
    ) -> Option<SiteName> {
        let mut claimed = None;
        match self.open(sealed, &origin, &mut claimed) {
            Ok(datagram) => {
                let from = datagram.from.clone();
                if let Origin::Socket(_) = origin {
                    self.heard_by_udp.insert(from.clone(), now);
                }
                self.swim.receive(self.moment(now), datagram, effects);
                Some(from)
            }
            Err(fault) => {
                self.refused.note(origin, claimed, fault);
                None
            }
        }
    }

    fn open(
        &mut self,
        sealed: &[u8],
        origin: &Origin,
        claimed: &mut Option<SiteName>,
    ) -> Result<Datagram<SiteName>, DatagramFault> {
        if sealed.len() > DATAGRAM_BYTES_MAX {
            return Err(DatagramFault::TooLong);
        }
        let (content, stamp) = self.key.open(sealed)?;
        let datagram: Datagram<SiteName> =
            postcard::from_bytes(content).map_err(|_| DatagramFault::Unread)?;
        *claimed = Some(datagram.from.clone());
        if matches!(origin, Origin::Link(peer) if *peer != datagram.from) {
            return Err(DatagramFault::Seal(SealFault::Forged));
        }
        // Only known sites are remembered: the memory of the guard is bounded by them.
        if self.swim.member(&datagram.from).is_some() {
            self.guard.admit(&datagram.from, stamp)?;
        }
        Ok(datagram)
    }

    pub(super) fn seal(&mut self, datagram: &Datagram<SiteName>) -> Bytes {
        let content = postcard::to_allocvec(datagram).expect("a datagram is plain values");
        self.sealer.seal(&content).into()
    }

    /// A site's announcement came over a connection that proves who it is.
    pub(super) fn greeted(
        &mut self,
        announcement: &Announcement,
        now: Instant,
        effects: &mut Vec<Effect<SiteName>>,
    ) {
        let site = &announcement.site;
        self.guard.trust(site, announcement.incarnation);
        let (incarnation, word) = (announcement.incarnation, said(announcement));
        let address: Arc<str> = announcement.advertise.as_str().into();
        let moment = self.moment(now);
        self.swim
            .greeted(moment, site, (incarnation, word), address, effects);
    }

    pub(super) fn linked(
        &mut self,
        site: &SiteName,
        trip: Duration,
        now: Instant,
        effects: &mut Vec<Effect<SiteName>>,
    ) {
        let trip_ms = trip.as_secs_f64() * 1000.0;
        self.swim.linked(self.moment(now), site, trip_ms, effects);
    }

    pub(super) fn announce(&mut self, here: &Announcement) {
        self.swim
            .announce(here.advertise.as_str().into(), said(here));
    }

    pub(super) fn hears(&self, now: Instant) -> bool {
        self.swim.hears(self.moment(now))
    }

    /// Whether datagrams of that site come through.
    pub(super) fn hears_by_udp(&self, site: &SiteName, now: Instant) -> bool {
        let at = self.heard_by_udp.get(site);
        at.is_some_and(|at| now.saturating_duration_since(*at) < UDP_SILENCE)
    }

    pub(super) fn standing(&self, site: &SiteName) -> StandingWord {
        self.swim
            .standing(site)
            .map_or(StandingWord::Attached, |standing| standing.word)
    }

    /// Every decision that is known, to be kept on disk.
    pub(super) fn standings(&self) -> Vec<(SiteName, Standing<SiteName>)> {
        let here = self.swim.here();
        let own = here
            .standing
            .clone()
            .map(|standing| (here.site.clone(), standing));
        let of = |(site, member): (&SiteName, &cheops_core::membership::Member<SiteName>)| {
            Some((site.clone(), (**member.standing.as_ref()?).clone()))
        };
        self.swim.members().filter_map(of).chain(own).collect()
    }

    /// True the first time only.
    pub(super) fn say_rival(&mut self) -> bool {
        !std::mem::replace(&mut self.rival_said, true)
    }
}

/// Tells one announcement from another, the same on every machine and in every build.
pub(super) fn said(announcement: &Announcement) -> u32 {
    let hash = blake3::hash(&encode(announcement));
    let bytes = hash.as_bytes();
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
