//! One site's part of the protocol: whom it probes, whom it asks, when it believes.
//!
//! What it makes of the messages of others is in `hear`, what it puts on its own in `speak`, what
//! operators decide in `decided`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::chance::Chance;
use super::coordinate::{Coordinate, Estimate};
use super::digest::{digest, record_of};
use super::gossip::Gossip;
use super::key::Key;
use super::limits::{
    ANSWER_MS, ASKED, ASKED_CUT, AWAY_PROBE_EVERY_MS, COMPARE_EVERY_MS, DEAF_MS, MEMBERS_MAX,
    MISSED_MAX, MISSES_TO_CUT, NEAR_EVERY_MS, PROBE_EVERY_MS, SILENCE_MS, STOOD_STILL_MS,
};
use super::measure::Measurement;
use super::member::{Member, State};
use super::message::{Body, Datagram, Record, Update};
use super::moment::Moment;
use super::near::{Neighbours, tag_of};
use super::probe::{Probe, Want};
use super::suspicion::Suspicion;

/// How bad this site's own hearing can get: it then waits that many times longer.
const DEAFNESS_MAX: u64 = 4;

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<K> {
    /// Send it to the site it is for.
    Send(Datagram<K>),
    /// A site was heard of that was not known.
    Learnt(K),
    /// What is known of a site changed; of this site itself, its standing.
    Changed(K),
    /// A site answered us, and it took that long, both ways.
    Answered {
        /// Who.
        site: K,
        /// The round trip.
        trip_ms: f64,
    },
    /// An agent of a later start than this one speaks under this site's name: another agent has
    /// it, or this site's clock was set back.
    OwnNameAhead {
        /// Its incarnation.
        incarnation: u64,
    },
}

/// One site's part of the protocol. Feed it datagrams, ask it to [`tick`](Swim::tick) at
/// [`wake_ms`](Swim::wake_ms), and do what it says.
#[derive(Clone, Debug)]
pub struct Swim<K> {
    pub(super) here: Record<K>,
    pub(super) coordinate: Coordinate,
    pub(super) place_version: u16,
    pub(super) members: BTreeMap<K, Member<K>>,
    /// Every other site, in the order of probing.
    pub(super) ring: Vec<K>,
    next: usize,
    /// Sites whose own answer was missed once while others vouched: probed again at once, because in
    /// a large mesh their turn comes only after long.
    pub(super) missed: VecDeque<K>,
    pub(super) probes: Vec<Probe<K>>,
    pub(super) errands: Vec<Errand<K>>,
    pub(super) suspects: BTreeSet<K>,
    pub(super) gossip: Gossip<K>,
    pub(super) chance: Chance,
    probe_at_ms: u64,
    away_at_ms: u64,
    pub(super) compare_at_ms: u64,
    last_tick_ms: u64,
    pub(super) heard_anyone_ms: u64,
    pub(super) refuted_ms: Option<u64>,
    deafness: u64,
    pub(super) neighbours: Neighbours<K>,
    pub(super) measurements: Vec<Measurement<K>>,
    near_at_ms: u64,
    /// Who is meant by what stands for a name; nobody if two share it.
    pub(super) tags: BTreeMap<u32, Option<K>>,
}

/// A probe made for somebody else.
#[derive(Clone, Debug)]
pub(super) struct Errand<K> {
    pub(super) target: K,
    pub(super) nonce: u64,
    pub(super) asker: K,
    pub(super) asker_nonce: u64,
    pub(super) until_ms: u64,
}

impl<K: Key> Swim<K> {
    /// A site that knows nobody. `incarnation` grows from start to start, as far as clocks allow;
    /// `said` tells one announcement of the site from another.
    pub fn new(
        here: K,
        incarnation: u64,
        address: Arc<str>,
        said: u32,
        seed: u64,
        now: Moment,
    ) -> Swim<K> {
        let here = Record {
            site: here,
            incarnation,
            state: State::Alive,
            address,
            said,
            standing: None,
        };
        let mut chance = Chance::new(seed);
        let mut gossip = Gossip::new();
        gossip.add(Update::State(here.clone()));
        let tags = BTreeMap::from([(tag_of(&here.site), Some(here.site.clone()))]);
        // Not all at once: agents are often started together.
        let mut jitter = |within: u64| now.ms() + chance.draw() % within;
        Swim {
            here,
            coordinate: Coordinate::default(),
            place_version: 0,
            members: BTreeMap::new(),
            ring: Vec::new(),
            next: 0,
            missed: VecDeque::new(),
            probes: Vec::new(),
            errands: Vec::new(),
            suspects: BTreeSet::new(),
            gossip,
            probe_at_ms: jitter(PROBE_EVERY_MS),
            away_at_ms: jitter(AWAY_PROBE_EVERY_MS),
            compare_at_ms: jitter(COMPARE_EVERY_MS),
            near_at_ms: jitter(NEAR_EVERY_MS),
            neighbours: Neighbours::new(),
            measurements: Vec::new(),
            tags,
            chance,
            last_tick_ms: now.ms(),
            heard_anyone_ms: now.ms(),
            refuted_ms: None,
            deafness: 0,
        }
    }

    /// This site as it is told to others.
    pub fn here(&self) -> &Record<K> {
        &self.here
    }

    /// Every other site.
    pub fn members(&self) -> impl Iterator<Item = (&K, &Member<K>)> {
        self.members.iter()
    }

    /// One other site.
    pub fn member(&self, site: &K) -> Option<&Member<K>> {
        self.members.get(site)
    }

    /// Where this site lies.
    pub fn coordinate(&self) -> &Coordinate {
        &self.coordinate
    }

    /// Where a site lies, this one or another.
    pub fn place(&self, site: &K) -> Option<Coordinate> {
        if *site == self.here.site {
            return Some(self.coordinate);
        }
        self.members.get(site)?.place.map(Coordinate::from)
    }

    /// The estimated round trip between any two sites whose places are known.
    pub fn estimate(&self, a: &K, b: &K) -> Option<Estimate> {
        Some(self.place(a)?.estimate(&self.place(b)?))
    }

    /// Whether this site hears anybody at all. One that does not can say nothing of others.
    pub fn hears(&self, now: Moment) -> bool {
        now.ms() < self.heard_anyone_ms + SILENCE_MS
    }

    /// A site known from elsewhere: a file, or somebody's list. Until it is heard it counts as away.
    pub fn meet(&mut self, site: &K, address: Arc<str>, effects: &mut Vec<Effect<K>>) {
        if *site != self.here.site && !self.members.contains_key(site) {
            self.insert(site, Member::new(0, State::Away, address, 0), effects);
        }
    }

    /// Takes over what another site knows, as on joining: it is no news to anybody else.
    pub fn know(&mut self, records: &[Record<K>]) {
        for record in records {
            if record.site == self.here.site || self.members.contains_key(&record.site) {
                continue;
            }
            let Record { site, address, .. } = record.clone();
            let mut member = Member::new(record.incarnation, record.state, address, record.said);
            member.standing = record.standing.clone().map(Box::new);
            self.insert(&site, member, &mut Vec::new());
        }
    }

    /// `site` was heard over a connection that proves who it is, and said this of itself.
    pub fn greeted(
        &mut self,
        now: Moment,
        site: &K,
        (incarnation, said): (u64, u32),
        address: Arc<str>,
        effects: &mut Vec<Effect<K>>,
    ) {
        if *site == self.here.site {
            return;
        }
        self.hear_anyone(now);
        let (site, state) = (site.clone(), State::Alive);
        let record = Record {
            site,
            incarnation,
            state,
            address,
            said,
            standing: None,
        };
        self.hear_record(now, record, effects);
    }

    /// A link to `site` is up and a message over it took that long, both ways.
    pub fn linked(&mut self, now: Moment, site: &K, trip_ms: f64, effects: &mut Vec<Effect<K>>) {
        self.hear_anyone(now);
        let Some(member) = self.members.get_mut(site) else {
            return;
        };
        let place = member.place.map(Coordinate::from);
        self.answered(now, site, effects);
        self.measured(now, site, place.as_ref(), trip_ms);
    }

    /// This site says something new of itself.
    pub fn announce(&mut self, address: Arc<str>, said: u32) {
        self.here.address = address;
        self.here.said = said;
        self.here.incarnation += 1;
        self.gossip.add(Update::State(self.here.clone()));
    }

    /// Says goodbye to a few, who tell the rest.
    pub fn leave(&mut self, effects: &mut Vec<Effect<K>>) {
        self.here.incarnation += 1;
        self.here.state = State::Left;
        let told = self.pick(ASKED[1], |_, member| member.takes_part());
        for site in told {
            let records = vec![self.here.clone()];
            self.say(&site, Body::Records { records, wanted: 0 }, effects);
        }
    }

    /// When [`tick`](Swim::tick) is to be called next.
    pub fn wake_ms(&self) -> u64 {
        let sites = self.sites();
        let probes = self.probes.iter().map(Probe::wake_ms);
        let suspicions = self.suspects.iter().filter_map(|site| {
            let suspicion = self.members.get(site)?.suspicion.as_ref()?;
            // Whoever hears nobody believes nothing, and looks again a little later.
            Some(suspicion.ends_ms(sites).max(self.last_tick_ms + 100))
        });
        let fixed = [
            self.probe_at_ms,
            self.away_at_ms,
            self.compare_at_ms,
            self.near_at_ms,
        ];
        probes
            .chain(suspicions)
            .chain(fixed)
            .min()
            .unwrap_or(self.probe_at_ms)
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment, effects: &mut Vec<Effect<K>>) {
        self.notice_a_pause(now);
        self.errands.retain(|errand| errand.until_ms > now.ms());
        self.go_on_probing(now, effects);
        self.believe(now, effects);
        if self.probe_at_ms <= now.ms() {
            self.probe_at_ms = now.ms() + PROBE_EVERY_MS;
            self.probe_next(now, effects);
        }
        if self.away_at_ms <= now.ms() {
            self.away_at_ms = now.ms() + AWAY_PROBE_EVERY_MS;
            self.try_one_away(effects);
        }
        if self.compare_at_ms <= now.ms() {
            self.compare_at_ms = now.ms() + COMPARE_EVERY_MS;
            self.compare_with_one(effects);
        }
        if self.near_at_ms <= now.ms() {
            self.near_at_ms = now.ms() + NEAR_EVERY_MS;
            self.measure_one(now, effects);
        }
    }

    /// Whoever stood still heard nothing meanwhile, and may not hold that against others.
    fn notice_a_pause(&mut self, now: Moment) {
        let late_ms = now
            .ms()
            .saturating_sub(self.last_tick_ms.max(self.wake_ms()));
        self.last_tick_ms = now.ms();
        if late_ms < STOOD_STILL_MS {
            return;
        }
        self.probes.clear();
        self.heard_anyone_ms += late_ms;
        for site in &self.suspects {
            let member = self.members.get_mut(site);
            if let Some(suspicion) = member.and_then(|member| member.suspicion.as_mut()) {
                suspicion.put_off(late_ms);
            }
        }
    }

    fn go_on_probing(&mut self, now: Moment, effects: &mut Vec<Effect<K>>) {
        let mut index = 0;
        while index < self.probes.len() {
            let want = self.probes[index].step(now);
            let target = self.probes[index].target.clone();
            match want {
                Want::Nothing => index += 1,
                Want::Try(nonce) => self.say(&target, Body::Ping { nonce }, effects),
                Want::TryAndAsk(nonce) => {
                    self.say(&target, Body::Ping { nonce }, effects);
                    let asked = self.asked(&target)[usize::from(self.probes[index].tries()) - 2];
                    self.ask_others(asked, &target, self.probes[index].nonce(), effects);
                }
                Want::End => {
                    let probe = self.probes.swap_remove(index);
                    self.probe_failed(now, probe, effects);
                }
            }
        }
    }

    /// How many others are asked about a site, with each try.
    fn asked(&self, site: &K) -> [usize; 2] {
        let misses = self.members.get(site).map_or(0, |member| member.misses);
        if misses >= MISSES_TO_CUT {
            ASKED_CUT
        } else {
            ASKED
        }
    }

    fn ask_others(&mut self, count: usize, target: &K, nonce: u64, effects: &mut Vec<Effect<K>>) {
        let asked = self.pick(count, |site, member| site != target && member.takes_part());
        for other in asked {
            let target = target.clone();
            self.say(&other, Body::Ask { nonce, target }, effects);
        }
    }

    fn probe_failed(&mut self, now: Moment, probe: Probe<K>, effects: &mut Vec<Effect<K>>) {
        // Whoever heard nobody meanwhile has lost its own path, and must not bury the others.
        let heard = self.heard_anyone_ms > probe.started_ms();
        let Some(member) = self.members.get_mut(&probe.target) else {
            return;
        };
        let before = member.reach();
        if member.misses == 0 {
            member.spoke = false;
        }
        member.misses = member.misses.saturating_add(1);
        if member.reach() != before {
            effects.push(Effect::Changed(probe.target.clone()));
        }
        if probe.vouched {
            if member.misses < MISSES_TO_CUT && self.missed.len() < MISSED_MAX {
                self.missed.push_back(probe.target);
            }
            return;
        }
        self.deafness = (self.deafness + 1).min(DEAFNESS_MAX);
        if heard && !self.is_out() {
            let (incarnation, by) = (
                self.members[&probe.target].incarnation,
                self.here.site.clone(),
            );
            self.hear_suspicion(now, &probe.target, incarnation, by, effects);
        }
    }

    /// Suspicions that were not refuted in time become belief.
    fn believe(&mut self, now: Moment, effects: &mut Vec<Effect<K>>) {
        if self.suspects.is_empty() || !self.hears(now) {
            return;
        }
        let sites = self.sites();
        let ended = |site: &&K| {
            let suspicion = self
                .members
                .get(*site)
                .and_then(|member| member.suspicion.as_ref());
            suspicion.is_none_or(|suspicion| suspicion.ends_ms(sites) <= now.ms())
        };
        let ended: Vec<K> = self.suspects.iter().filter(ended).cloned().collect();
        for site in ended {
            self.suspects.remove(&site);
            if let Some(member) = self.members.get_mut(&site) {
                member.suspicion = None;
                member.state = State::Away;
                let record = record_of(&site, member);
                self.gossip.add(Update::State(record));
                effects.push(Effect::Changed(site));
            }
        }
    }

    fn probe_next(&mut self, now: Moment, effects: &mut Vec<Effect<K>>) {
        if self.is_out() {
            return;
        }
        let Some(target) = self.next_missed().or_else(|| self.next_in_ring()) else {
            return;
        };
        let patience_ms = self.patience_ms(&target);
        let probe = Probe::new(target.clone(), self.chance.draw(), now, patience_ms);
        let nonce = probe.nonce();
        self.probes.push(probe);
        self.say(&target, Body::Ping { nonce }, effects);
    }

    fn next_missed(&mut self) -> Option<K> {
        while let Some(site) = self.missed.pop_front() {
            let missing = |member: &Member<K>| member.takes_part() && member.misses > 0;
            if self.members.get(&site).is_some_and(missing) {
                return Some(site);
            }
        }
        None
    }

    fn next_in_ring(&mut self) -> Option<K> {
        for _ in 0..self.ring.len() {
            if self.next >= self.ring.len() {
                self.next = 0;
                self.chance.shuffle(&mut self.ring);
            }
            let site = &self.ring[self.next];
            self.next += 1;
            let probed = self.probes.iter().any(|probe| probe.target == *site);
            if !probed && self.members.get(site).is_some_and(Member::takes_part) {
                return Some(site.clone());
            }
        }
        None
    }

    /// How long an answer of `site` may take: twice its estimated trip, longer for a deaf site.
    fn patience_ms(&self, site: &K) -> u64 {
        let (low, high) = ANSWER_MS;
        let place = self.members.get(site).and_then(|member| member.place);
        let trip = |place| self.coordinate.estimate(&Coordinate::from(place)).ms as u64;
        let patience = place.map_or(high, |place| trip(place) * 2 + 100);
        patience.clamp(low, high) * (1 + self.deafness)
    }

    /// A site that is away may be back, and does not know that it was given up.
    fn try_one_away(&mut self, effects: &mut Vec<Effect<K>>) {
        let gone = |member: &Member<K>| member.state == State::Away && !member.is_out();
        let tried = match self.is_out() {
            true => self.pick(1, |_, _| true),
            false => self.pick(1, |_, member| gone(member)),
        };
        for site in tried {
            let nonce = self.chance.draw();
            self.say(&site, Body::Ping { nonce }, effects);
        }
    }

    fn compare_with_one(&mut self, effects: &mut Vec<Effect<K>>) {
        for site in self.pick(1, |_, member| member.takes_part()) {
            let digest = digest(&self.members, &self.here);
            self.say(&site, Body::Compare { digest }, effects);
        }
    }

    pub(super) fn insert(&mut self, site: &K, member: Member<K>, effects: &mut Vec<Effect<K>>) {
        if self.members.len() >= MEMBERS_MAX {
            return;
        }
        self.members.insert(site.clone(), member);
        let meant = self.tags.entry(tag_of(site)).or_insert(Some(site.clone()));
        if meant.as_ref() != Some(site) {
            *meant = None;
        }
        let at = self.chance.below(self.ring.len() + 1);
        self.ring.insert(at, site.clone());
        effects.push(Effect::Learnt(site.clone()));
    }

    pub(super) fn learn(&mut self, place: &Coordinate, trip_ms: f64) {
        self.coordinate.learn(place, trip_ms, &mut self.chance);
        self.place_version = self.place_version.wrapping_add(1);
    }

    /// Somebody answered. Probes that were under way while nobody did say nothing of their targets.
    pub(super) fn hear_anyone(&mut self, now: Moment) {
        if now.ms() > self.heard_anyone_ms + DEAF_MS {
            self.probes.clear();
        }
        self.heard_anyone_ms = now.ms();
    }

    pub(super) fn hears_better(&mut self) {
        self.deafness = self.deafness.saturating_sub(1);
    }

    pub(super) fn sites(&self) -> usize {
        self.members.len() + 1
    }

    /// A suspicion begins, or is shared by one more.
    pub(super) fn suspect(&mut self, now: Moment, site: &K, by: K) -> bool {
        let Some(member) = self.members.get_mut(site) else {
            return false;
        };
        if let Some(suspicion) = member.suspicion.as_mut() {
            return suspicion.share(by);
        }
        member.state = State::Suspect;
        member.suspicion = Some(Box::new(Suspicion::new(now.ms(), by)));
        self.suspects.insert(site.clone());
        true
    }
}
