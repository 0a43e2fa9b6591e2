//! News waiting to be told: the least told first, each a bounded number of times.

use std::collections::{BTreeMap, BTreeSet};

use super::key::Key;
use super::limits::{NEWS_BYTES_MAX, NEWS_MAX, NEWS_SENDS, digits};
use super::message::Update;

/// What one piece of news is about. A later one about the same replaces it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Topic<K> {
    State(K),
    Suspect(K, K),
    Standing(K),
}

/// News waiting to be told.
#[derive(Clone, Debug)]
pub(super) struct Gossip<K> {
    news: BTreeMap<Topic<K>, (u32, u64, Update<K>)>,
    /// How often told, then how old.
    order: BTreeSet<(u32, u64, Topic<K>)>,
    number: u64,
}

impl<K: Key> Gossip<K> {
    pub(super) fn new() -> Gossip<K> {
        Gossip {
            news: BTreeMap::new(),
            order: BTreeSet::new(),
            number: 0,
        }
    }

    /// To be told from now on. Places and neighbours are not news: they come around by themselves.
    pub(super) fn add(&mut self, update: Update<K>) {
        let topic = match &update {
            Update::State(record) => Topic::State(record.site.clone()),
            Update::Suspect { site, by, .. } => Topic::Suspect(site.clone(), by.clone()),
            Update::Standing { site, .. } => Topic::Standing(site.clone()),
            Update::Place { .. } | Update::Near { .. } => return,
        };
        if let Update::State(record) = &update {
            self.forget_suspicions(&record.site);
        }
        self.remove(&topic);
        self.number += 1;
        self.order.insert((0, self.number, topic.clone()));
        self.news.insert(topic, (0, self.number, update));
        if self.news.len() > NEWS_MAX
            && let Some((_, _, most_told)) = self.order.last().cloned()
        {
            self.remove(&most_told);
        }
    }

    /// The next news, as many as fit.
    pub(super) fn take(&mut self, sites: usize) -> Vec<Update<K>> {
        let mut room = NEWS_BYTES_MAX;
        let mut taken = Vec::new();
        let mut told = Vec::new();
        for entry in &self.order {
            let (_, _, update) = &self.news[&entry.2];
            let bytes = update.wire_bytes();
            if bytes > room {
                break;
            }
            room -= bytes;
            taken.push(update.clone());
            told.push(entry.clone());
        }
        let enough = NEWS_SENDS * digits(sites) as u32;
        for (times, number, topic) in told {
            self.order.remove(&(times, number, topic.clone()));
            if times + 1 >= enough {
                self.news.remove(&topic);
                continue;
            }
            if let Some(news) = self.news.get_mut(&topic) {
                news.0 = times + 1;
            }
            self.order.insert((times + 1, number, topic));
        }
        taken
    }

    fn forget_suspicions(&mut self, site: &K) {
        let of = |topic: &&Topic<K>| matches!(topic, Topic::Suspect(of, _) if of == site);
        let first = self.news.keys().filter(of).cloned().collect::<Vec<_>>();
        first.iter().for_each(|topic| self.remove(topic));
    }

    fn remove(&mut self, topic: &Topic<K>) {
        if let Some((times, number, _)) = self.news.remove(topic) {
            self.order.remove(&(times, number, topic.clone()));
        }
    }
}
