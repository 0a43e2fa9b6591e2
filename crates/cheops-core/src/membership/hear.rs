//! What a site makes of what it hears: answers, questions, news.

use super::coordinate::{Coordinate, Packed};
use super::digest::{differing, digest, record_of, share_of};
use super::key::Key;
use super::limits::{COMPARE_AGAIN_MS, ERRANDS_MAX, PROBE_MS, RECORDS_BYTES_MAX, REFUTE_EVERY_MS};
use super::member::{Member, State};
use super::message::{Body, Datagram, Record, Update};
use super::moment::Moment;
use super::swim::{Effect, Errand, Swim};

impl<K: Key> Swim<K> {
    /// Takes a datagram that was proved to come from the mesh. One for another site, or from a
    /// site that was put out, changes nothing.
    pub fn receive(&mut self, now: Moment, datagram: Datagram<K>, effects: &mut Vec<Effect<K>>) {
        if datagram.to != self.here.site || datagram.from == self.here.site {
            return;
        }
        let Datagram {
            from,
            incarnation,
            place,
            place_version,
            body,
            updates,
            ..
        } = datagram;
        self.hear_it_back(&from, &updates, effects);
        if self.members.get(&from).is_some_and(Member::is_out) {
            self.tell_that_it_is_out(&from, &body, effects);
            return;
        }
        if let Some(member) = self.members.get_mut(&from) {
            member.spoke = true;
            take_place(member, place_version, place);
        }
        for update in updates {
            self.hear_update(now, update, effects);
        }
        self.hear_own_word(now, &from, incarnation, effects);
        self.hear_body(now, &from, body, place, effects);
    }

    /// A site that speaks with a higher incarnation than we know is alive in it.
    fn hear_own_word(
        &mut self,
        now: Moment,
        from: &K,
        incarnation: u64,
        effects: &mut Vec<Effect<K>>,
    ) {
        let Some(member) = self.members.get(from) else {
            return;
        };
        if incarnation > member.incarnation {
            let record = Record {
                incarnation,
                state: State::Alive,
                ..record_of(from, member)
            };
            self.hear_record(now, record, effects);
        }
    }

    fn hear_body(
        &mut self,
        now: Moment,
        from: &K,
        body: Body<K>,
        place: Packed,
        effects: &mut Vec<Effect<K>>,
    ) {
        match body {
            Body::Ping { nonce } => self.say(from, Body::Ack { nonce }, effects),
            Body::Ack { nonce } => self.hear_ack(now, from, nonce, place, effects),
            Body::Ask { nonce, target } => self.run_errand(now, from, nonce, target, effects),
            Body::Vouch { nonce, target } => self.hear_vouch(now, nonce, &target),
            Body::Compare { digest } => self.hear_digest(now, from, &digest, effects),
            Body::Records { records, wanted } => {
                for record in records {
                    if let Some(standing) = record.standing.clone() {
                        self.hear_standing(&record.site, standing, effects);
                    }
                    self.hear_record(now, record, effects);
                }
                if wanted != 0 {
                    self.tell_records(from, wanted, 0, effects);
                }
            }
        }
    }

    /// An answer counts if we asked: nobody can guess the nonce, and none is good twice.
    fn hear_ack(
        &mut self,
        now: Moment,
        from: &K,
        nonce: u64,
        place: Packed,
        effects: &mut Vec<Effect<K>>,
    ) {
        let of_errand = |errand: &Errand<K>| errand.target == *from && errand.nonce == nonce;
        if let Some(index) = self.errands.iter().position(of_errand) {
            let errand = self.errands.swap_remove(index);
            self.hear_anyone(now);
            let (nonce, target) = (errand.asker_nonce, from.clone());
            self.say(&errand.asker, Body::Vouch { nonce, target }, effects);
            return;
        }
        let trip = |index: usize| {
            let probe = &self.probes[index];
            let trip_ms = probe
                .trip_ms(nonce, now)
                .filter(|_| probe.target == *from)?;
            Some((index, trip_ms))
        };
        let trip_ms = match (0..self.probes.len()).find_map(trip) {
            Some((index, trip_ms)) => {
                self.probes.swap_remove(index);
                self.hears_better();
                trip_ms
            }
            None => match self.hear_measurement(now, from, nonce) {
                Some(trip_ms) => trip_ms,
                None => return,
            },
        };
        self.hear_anyone(now);
        let place = Coordinate::from(place);
        self.measured(now, from, Some(&place), trip_ms);
        let site = from.clone();
        effects.push(Effect::Answered { site, trip_ms });
        self.answered(now, from, effects);
    }

    /// `site` answered us.
    pub(super) fn answered(&mut self, now: Moment, site: &K, effects: &mut Vec<Effect<K>>) {
        let Some(member) = self.members.get_mut(site) else {
            return;
        };
        let before = member.reach();
        member.heard_ms = now.ms().max(1);
        member.misses = 0;
        if member.reach() != before {
            effects.push(Effect::Changed(site.clone()));
        }
    }

    fn run_errand(
        &mut self,
        now: Moment,
        from: &K,
        asker_nonce: u64,
        target: K,
        effects: &mut Vec<Effect<K>>,
    ) {
        if self.errands.len() >= ERRANDS_MAX || !self.members.contains_key(&target) {
            return;
        }
        let nonce = self.chance.draw();
        self.errands.push(Errand {
            target: target.clone(),
            nonce,
            asker: from.clone(),
            asker_nonce,
            until_ms: now.ms() + PROBE_MS,
        });
        self.say(&target, Body::Ping { nonce }, effects);
    }

    /// The probe goes on: only an answer of its own says that our path works.
    fn hear_vouch(&mut self, now: Moment, nonce: u64, target: &K) {
        let asked =
            |probe: &&mut super::probe::Probe<K>| probe.target == *target && probe.nonce() == nonce;
        if let Some(probe) = self.probes.iter_mut().find(asked) {
            probe.vouched = true;
            self.hear_anyone(now);
        }
    }

    fn hear_digest(&mut self, now: Moment, from: &K, theirs: &[u32], effects: &mut Vec<Effect<K>>) {
        let differing = differing(&digest(&self.members, &self.here), theirs);
        if differing != 0 {
            self.compare_at_ms = self.compare_at_ms.min(now.ms() + COMPARE_AGAIN_MS);
            self.tell_records(from, differing, differing, effects);
        }
    }

    /// What we know of these shares, as much as fits, beginning anywhere.
    fn tell_records(&mut self, to: &K, shares: u64, wanted: u64, effects: &mut Vec<Effect<K>>) {
        let in_shares = |site: &K| shares >> share_of(site) & 1 == 1;
        let mut told: Vec<Record<K>> = Vec::new();
        if in_shares(&self.here.site) {
            told.push(self.here.clone());
        }
        let members = self.members.iter().filter(|(site, _)| in_shares(site));
        told.extend(members.map(|(site, member)| record_of(site, member)));
        self.chance.shuffle(&mut told);
        let mut room = RECORDS_BYTES_MAX;
        let fits = |record: &Record<K>| {
            let bytes = record.wire_bytes();
            let enough = bytes <= room;
            room = room.saturating_sub(bytes);
            enough
        };
        let records = told.into_iter().take_while(fits).collect();
        self.say(to, Body::Records { records, wanted }, effects);
    }

    fn hear_update(&mut self, now: Moment, update: Update<K>, effects: &mut Vec<Effect<K>>) {
        match update {
            Update::State(record) => self.hear_record(now, record, effects),
            Update::Suspect {
                site,
                incarnation,
                by,
            } => self.hear_suspicion(now, &site, incarnation, by, effects),
            Update::Place {
                site,
                version,
                place,
            } => {
                if let Some(member) = self.members.get_mut(&site) {
                    take_place(member, version, place);
                }
            }
            Update::Near {
                site,
                version,
                near,
            } => self.hear_near(&site, version, &near),
            Update::Standing { site, standing } => self.hear_standing(&site, standing, effects),
        }
    }

    pub(super) fn hear_record(
        &mut self,
        now: Moment,
        record: Record<K>,
        effects: &mut Vec<Effect<K>>,
    ) {
        if record.site == self.here.site {
            let wrong = record.state != self.here.state && record.state != State::Alive;
            if record.incarnation > self.here.incarnation {
                let incarnation = record.incarnation;
                effects.push(Effect::OwnNameAhead { incarnation });
                self.refute(now, incarnation);
            } else if wrong && record.incarnation == self.here.incarnation {
                self.refute(now, record.incarnation);
            }
            return;
        }
        let Some(member) = self.members.get_mut(&record.site) else {
            let Record { site, address, .. } = record.clone();
            let member = Member::new(record.incarnation, record.state, address, record.said);
            self.insert(&site, member, effects);
            self.gossip.add(Update::State(record));
            return;
        };
        let newer = record.incarnation > member.incarnation
            || (record.incarnation == member.incarnation && record.state > member.state);
        if !newer {
            return;
        }
        let before = (member.state, member.said);
        member.incarnation = record.incarnation;
        member.state = record.state;
        member.address = record.address.clone();
        member.said = record.said;
        member.suspicion = None;
        self.suspects.remove(&record.site);
        if (record.state, record.said) != before {
            effects.push(Effect::Changed(record.site.clone()));
        }
        self.gossip.add(Update::State(record));
    }

    pub(super) fn hear_suspicion(
        &mut self,
        now: Moment,
        site: &K,
        incarnation: u64,
        by: K,
        effects: &mut Vec<Effect<K>>,
    ) {
        if *site == self.here.site {
            if incarnation >= self.here.incarnation {
                self.refute(now, incarnation);
            }
            return;
        }
        let Some(member) = self.members.get_mut(site) else {
            return;
        };
        let settled = matches!(member.state, State::Away | State::Left);
        let older = incarnation < member.incarnation;
        if older || (settled && incarnation == member.incarnation) {
            return;
        }
        let before = member.state;
        if incarnation > member.incarnation {
            member.incarnation = incarnation;
            member.state = State::Alive;
            member.suspicion = None;
        }
        if !self.suspect(now, site, by.clone()) {
            return;
        }
        if before != State::Suspect {
            effects.push(Effect::Changed(site.clone()));
        }
        let site = site.clone();
        self.gossip.add(Update::Suspect {
            site,
            incarnation,
            by,
        });
    }

    /// Only this site says what it is; with a higher incarnation it is believed.
    fn refute(&mut self, now: Moment, incarnation: u64) {
        let ago = |at: u64| now.ms().saturating_sub(at);
        if self.refuted_ms.is_some_and(|at| ago(at) < REFUTE_EVERY_MS) {
            return;
        }
        self.refuted_ms = Some(now.ms());
        self.here.incarnation = incarnation.saturating_add(1);
        self.gossip.add(Update::State(self.here.clone()));
    }
}

/// Versions wrap: the later of two is less than half a turn ahead.
fn take_place<K>(member: &mut Member<K>, version: u16, place: Packed) {
    let ahead = version.wrapping_sub(member.place_version);
    let later = ahead != 0 && ahead < u16::MAX / 2;
    if member.place.is_none() || later {
        member.place = Some(place);
        member.place_version = version;
    }
}
