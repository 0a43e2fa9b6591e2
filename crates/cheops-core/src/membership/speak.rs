//! What a site puts on its messages, and whom it picks by chance.

use super::coordinate::Packed;
use super::digest::record_of;
use super::key::Key;
use super::limits::PLACES_TOLD;
use super::member::{Member, State};
use super::message::{Body, Datagram, Update};
use super::swim::{Effect, Swim};

impl<K: Key> Swim<K> {
    /// Puts news and places on a message and sends it.
    pub(super) fn say(&mut self, to: &K, body: Body<K>, effects: &mut Vec<Effect<K>>) {
        let mut updates = self.about(to);
        if !matches!(body, Body::Compare { .. } | Body::Records { .. }) {
            updates.extend(self.gossip.take(self.members.len() + 1));
            updates.extend(self.places());
        }
        if matches!(body, Body::Ack { .. }) {
            updates.extend(self.near_told());
        }
        effects.push(Effect::Send(Datagram {
            from: self.here.site.clone(),
            to: to.clone(),
            incarnation: self.here.incarnation,
            place: Packed::from(self.coordinate),
            place_version: self.place_version,
            body,
            updates,
        }));
    }

    /// Whoever is suspected or given up is told first of all: it can refute.
    fn about(&self, to: &K) -> Vec<Update<K>> {
        let Some(member) = self.members.get(to) else {
            return Vec::new();
        };
        match member.state {
            State::Alive => Vec::new(),
            State::Suspect => vec![Update::Suspect {
                site: to.clone(),
                incarnation: member.incarnation,
                by: self.here.site.clone(),
            }],
            State::Away | State::Left => vec![Update::State(record_of(to, member))],
        }
    }

    fn places(&mut self) -> Vec<Update<K>> {
        let told = self.pick(PLACES_TOLD, |_, member| member.place.is_some());
        let place = |site: K| {
            let member = self.members.get(&site)?;
            let (version, place) = (member.place_version, member.place?);
            Some(Update::Place {
                site,
                version,
                place,
            })
        };
        told.into_iter().filter_map(place).collect()
    }

    /// Up to `count` different members, by chance. Bounded: in a mesh where few fit, few are found.
    pub(super) fn pick(&mut self, count: usize, fits: impl Fn(&K, &Member<K>) -> bool) -> Vec<K> {
        let mut picked: Vec<K> = Vec::new();
        let len = self.ring.len();
        if len == 0 {
            return picked;
        }
        let start = self.chance.below(len);
        // A stride that is prime to the length visits everybody once, in no order of names.
        let stride = stride(len, self.chance.draw());
        let mut at = start;
        for _ in 0..len.min(64 + count * 8) {
            let site = &self.ring[at];
            if self
                .members
                .get(site)
                .is_some_and(|member| fits(site, member))
            {
                picked.push(site.clone());
                if picked.len() == count {
                    break;
                }
            }
            at = (at + stride) % len;
        }
        picked
    }
}

/// A step through a ring of `len` that comes to every place.
fn stride(len: usize, draw: u64) -> usize {
    let mut stride = 1 + (draw % len as u64) as usize;
    while gcd(stride, len) != 1 {
        stride += 1;
    }
    stride
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
