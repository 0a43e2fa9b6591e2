//! What operators decide of sites: made here, told by others, kept by a site that is out.
//!
//! Nothing that a site says counts while it is out, but for one word: a site that was detached, and
//! not shut out, may take that back itself.

use super::digest::record_of;
use super::key::Key;
use super::member::Member;
use super::message::{Body, Update};
use super::standing::{Standing, StandingWord};
use super::swim::{Effect, Swim};

impl<K: Key> Swim<K> {
    /// An operator at this site decides something of any site.
    pub fn decide(&mut self, site: &K, word: StandingWord, effects: &mut Vec<Effect<K>>) {
        let before = self.standing(site).map_or(0, |standing| standing.version);
        let standing = Standing {
            version: before + 1,
            by: self.here.site.clone(),
            word,
        };
        self.hear_standing(site, standing, effects);
    }

    /// What somebody told of an operator's decision, over a link.
    pub fn hear_decision(&mut self, site: &K, standing: Standing<K>, effects: &mut Vec<Effect<K>>) {
        self.hear_standing(site, standing, effects);
    }

    /// What `site` itself says of its standing, over a connection that proves who it is.
    pub fn hear_return(&mut self, site: &K, standing: Standing<K>, effects: &mut Vec<Effect<K>>) {
        let detached = |member: &Member<K>| {
            let word = member.standing.as_ref().map(|standing| standing.word);
            word == Some(StandingWord::Detached)
        };
        let own = standing.by == *site && standing.word == StandingWord::Attached;
        if own && self.members.get(site).is_some_and(detached) {
            self.hear_standing(site, standing, effects);
        }
    }

    /// What an operator decided of a site, here or elsewhere.
    pub fn standing(&self, site: &K) -> Option<&Standing<K>> {
        if *site == self.here.site {
            return self.here.standing.as_ref();
        }
        self.members.get(site)?.standing.as_deref()
    }

    /// What was decided before a restart.
    pub fn restore(&mut self, site: &K, standing: Standing<K>) {
        self.hear_standing(site, standing, &mut Vec::new());
    }

    /// Whether an operator took this site out.
    pub(super) fn is_out(&self) -> bool {
        let standing = self.here.standing.as_ref();
        standing.is_some_and(|standing| standing.word.is_out())
    }

    pub(super) fn hear_standing(
        &mut self,
        site: &K,
        standing: Standing<K>,
        effects: &mut Vec<Effect<K>>,
    ) {
        let known = self.standing(site);
        if known.is_some_and(|known| *known >= standing) {
            let newer = known.filter(|known| **known > standing).cloned();
            // Whoever tells this site something older of itself is told what is true.
            if let (Some(standing), true) = (newer, *site == self.here.site) {
                let site = site.clone();
                self.gossip.add(Update::Standing { site, standing });
            }
            return;
        }
        if *site == self.here.site {
            self.stand(standing.clone());
        } else if let Some(member) = self.members.get_mut(site) {
            member.standing = Some(Box::new(standing.clone()));
            // Attached again, it is to be heard before it is believed to be there.
            member.heard_ms = 0;
        } else {
            return;
        }
        effects.push(Effect::Changed(site.clone()));
        let site = site.clone();
        self.gossip.add(Update::Standing { site, standing });
    }

    /// Whoever comes back comes as a new incarnation: what was said of it while it was out, and
    /// what it did not hear, is of the past.
    fn stand(&mut self, standing: Standing<K>) {
        let was_out = self.is_out();
        self.here.standing = Some(standing);
        if was_out && !self.is_out() {
            self.here.incarnation += 1;
            self.gossip.add(Update::State(self.here.clone()));
        }
    }

    /// A detached site may say that it is back.
    pub(super) fn hear_it_back(
        &mut self,
        from: &K,
        updates: &[Update<K>],
        effects: &mut Vec<Effect<K>>,
    ) {
        if !self.members.get(from).is_some_and(Member::is_out) {
            return;
        }
        for update in updates {
            if let Update::Standing { site, standing } = update
                && site == from
            {
                self.hear_return(from, standing.clone(), effects);
            }
        }
    }

    /// It may not know yet. Its answers to that are not answered: no two go on for ever.
    pub(super) fn tell_that_it_is_out(
        &mut self,
        from: &K,
        body: &Body<K>,
        effects: &mut Vec<Effect<K>>,
    ) {
        let asks = matches!(
            body,
            Body::Ping { .. } | Body::Ask { .. } | Body::Compare { .. }
        );
        if !asks {
            return;
        }
        if let Some(member) = self.members.get(from) {
            let records = vec![record_of(from, member)];
            self.say(from, Body::Records { records, wanted: 0 }, effects);
        }
    }
}

#[cfg(test)]
mod tests {
    use cheops_model::SiteName;

    use super::super::member::State;
    use super::super::message::Record;
    use super::super::moment::Moment;
    use super::*;

    /// Two sites whose datagrams all arrive at once.
    struct Pair {
        swims: [Swim<SiteName>; 2],
        now_ms: u64,
    }

    fn name(number: usize) -> SiteName {
        SiteName::new(["here", "there"][number]).unwrap()
    }

    impl Pair {
        fn new() -> Pair {
            let record = |number| Record {
                site: name(number),
                incarnation: 1,
                state: State::Alive,
                address: "a:1".into(),
                said: 0,
                standing: None,
            };
            let swim = |number: usize| {
                let seed = number as u64;
                let mut swim = Swim::new(name(number), 1, "a:1".into(), 0, seed, Moment(0));
                swim.know(&[record(0), record(1)]);
                swim
            };
            Pair {
                swims: [swim(0), swim(1)],
                now_ms: 0,
            }
        }

        fn run(&mut self, seconds: u64) {
            for _ in 0..seconds * 10 {
                self.now_ms += 100;
                let now = Moment::from_ms(self.now_ms);
                let mut effects = Vec::new();
                self.swims
                    .iter_mut()
                    .for_each(|swim| swim.tick(now, &mut effects));
                while let Some(effect) = effects.pop() {
                    if let Effect::Send(datagram) = effect {
                        let to = usize::from(datagram.to == name(1));
                        self.swims[to].receive(now, datagram, &mut effects);
                    }
                }
            }
        }

        fn decide(&mut self, at: usize, of: usize, word: StandingWord) {
            self.swims[at].decide(&name(of), word, &mut Vec::new());
        }

        /// What each of the two has of the second.
        fn words(&self) -> [StandingWord; 2] {
            [0, 1].map(|at| {
                let standing = self.swims[at].standing(&name(1));
                standing.map_or(StandingWord::Attached, |standing| standing.word)
            })
        }
    }

    use StandingWord::{Attached, Detached, Fenced, Removed};

    #[test]
    fn a_site_that_is_attached_again_comes_back_as_a_new_incarnation() {
        for word in [Detached, Fenced, Removed] {
            let mut pair = Pair::new();
            pair.run(5);
            pair.decide(0, 1, word);
            pair.run(30);
            assert_eq!(pair.words(), [word, word], "it is told");
            assert_eq!(pair.swims[1].here().incarnation, 1);
            pair.decide(0, 1, Attached);
            pair.run(30);
            assert_eq!(pair.words(), [Attached, Attached]);
            assert_eq!(pair.swims[1].here().incarnation, 2, "{word:?}");
            let seen = pair.swims[0].member(&name(1)).unwrap();
            assert_eq!((seen.incarnation, seen.state), (2, State::Alive));
        }
    }

    #[test]
    fn only_a_detached_site_may_take_itself_in_again() {
        for (word, end) in [(Detached, Attached), (Fenced, Fenced), (Removed, Removed)] {
            let mut pair = Pair::new();
            pair.run(5);
            pair.decide(0, 1, word);
            pair.run(30);
            pair.decide(1, 1, Attached);
            pair.run(60);
            assert_eq!(pair.words()[0], end);
        }
    }

    #[test]
    fn what_a_site_decided_while_nobody_heard_it_is_told_when_it_is_heard() {
        let mut pair = Pair::new();
        pair.run(5);
        pair.decide(0, 1, Detached);
        pair.run(30);
        pair.decide(1, 1, Attached);
        // Said to nobody, until there is nothing left to say.
        for s in 0..100 {
            let now = Moment::from_ms(pair.now_ms + s * 1000);
            pair.swims[1].tick(now, &mut Vec::new());
        }
        pair.now_ms += 100_000;
        pair.run(60);
        assert_eq!(pair.words(), [Attached, Attached]);
    }
}
