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
        self.hear_body(now, &from, body, place, effects);
        self.ask_what_is_missing(&from, incarnation, effects);
    }

    /// A site that speaks with a higher incarnation than we know is asked for its record. What it
    /// says in that incarnation is not to be guessed: a guess would pass for its word for ever.
    fn ask_what_is_missing(&mut self, from: &K, incarnation: u64, effects: &mut Vec<Effect<K>>) {
        let known = self.members.get(from).map(|member| member.incarnation);
        if known.is_some_and(|known| known < incarnation) {
            let (records, wanted) = (Vec::new(), 1 << share_of(from));
            self.say(from, Body::Records { records, wanted }, effects);
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

    /// What we know of these shares, as much as fits: ourselves, then the others beginning anywhere.
    fn tell_records(&mut self, to: &K, shares: u64, wanted: u64, effects: &mut Vec<Effect<K>>) {
        let in_shares = |site: &K| shares >> share_of(site) & 1 == 1;
        let here = in_shares(&self.here.site).then(|| self.here.clone());
        let members = self.members.iter().filter(|(site, _)| in_shares(site));
        let mut told: Vec<Record<K>> = members
            .map(|(site, member)| record_of(site, member))
            .collect();
        self.chance.shuffle(&mut told);
        let mut room = RECORDS_BYTES_MAX;
        let fits = |record: &Record<K>| {
            let bytes = record.wire_bytes();
            let enough = bytes <= room;
            room = room.saturating_sub(bytes);
            enough
        };
        let told = here.into_iter().chain(told);
        let records = told.take_while(fits).collect();
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
        if settled || incarnation < member.incarnation {
            return;
        }
        // Of a higher incarnation only its record tells what the site says in it; until that comes,
        // the one that is known is suspected.
        let before = member.state;
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

#[cfg(test)]
mod tests {
    use cheops_model::SiteName;

    use super::*;

    const HERE: usize = 0;
    const THERE: usize = 1;

    fn name(number: usize) -> SiteName {
        SiteName::new(["here", "there", "third"][number]).unwrap()
    }

    /// What the second site says of itself in an incarnation.
    fn record(incarnation: u64, said: u32) -> Record<SiteName> {
        Record {
            site: name(THERE),
            incarnation,
            state: State::Alive,
            address: "a:1".into(),
            said,
            standing: None,
        }
    }

    fn swim(number: usize) -> Swim<SiteName> {
        let seed = number as u64;
        let mut swim = Swim::new(name(number), 1, "a:1".into(), 0, seed, Moment(0));
        let here = Record {
            site: name(HERE),
            ..record(1, 0)
        };
        swim.know(&[here, record(1, 0)]);
        swim
    }

    fn tells_of_there(update: &Update<SiteName>) -> bool {
        matches!(update, Update::State(record) if record.site == name(THERE))
    }

    /// What `swim` sends in the second that ends now.
    fn sent(swim: &mut Swim<SiteName>, second: u64) -> Vec<Datagram<SiteName>> {
        let mut effects = Vec::new();
        for tenth in 1..=10 {
            swim.tick(Moment::from_ms(second * 1000 + tenth * 100), &mut effects);
        }
        datagrams(effects)
    }

    fn datagrams(effects: Vec<Effect<SiteName>>) -> Vec<Datagram<SiteName>> {
        let datagram = |effect| match effect {
            Effect::Send(datagram) => Some(datagram),
            _ => None,
        };
        effects.into_iter().filter_map(datagram).collect()
    }

    #[test]
    fn what_a_site_says_anew_is_asked_for_when_its_news_were_lost() {
        let (mut here, mut there) = (swim(HERE), swim(THERE));
        there.announce("a:2".into(), 5);
        let lost = (0..60).flat_map(|second| sent(&mut there, second)).count();
        assert!(lost > 10, "it spoke: {lost}");

        let mut on_the_way: Vec<_> = (60..70).flat_map(|s| sent(&mut there, s)).collect();
        let news = on_the_way.iter().flat_map(|datagram| &datagram.updates);
        assert_eq!(news.filter(|update| tells_of_there(update)).count(), 0);
        let now = Moment::from_ms(70_000);
        while let Some(datagram) = on_the_way.pop() {
            let mut effects = Vec::new();
            let to = if datagram.to == name(HERE) {
                &mut here
            } else {
                &mut there
            };
            to.receive(now, datagram, &mut effects);
            on_the_way.extend(datagrams(effects));
        }
        let seen = here.member(&name(THERE)).unwrap();
        assert_eq!((seen.incarnation, seen.said, &*seen.address), (2, 5, "a:2"));
    }

    #[test]
    fn a_suspicion_does_not_stand_for_what_the_suspected_site_says() {
        let (mut here, now) = (swim(HERE), Moment::from_ms(1));
        let mut effects = Vec::new();
        here.hear_suspicion(now, &name(THERE), 2, name(2), &mut effects);
        let seen = here.member(&name(THERE)).unwrap();
        assert_eq!((seen.incarnation, seen.state), (1, State::Suspect));
        here.hear_record(now, record(2, 5), &mut effects);
        let seen = here.member(&name(THERE)).unwrap();
        assert_eq!((seen.said, seen.state), (5, State::Alive));
    }
}
