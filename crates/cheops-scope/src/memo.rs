//! What the same header bytes meant last time.
//!
//! Clients repeat their scopes; reading one again costs a hash and a comparison. Bounded: two
//! generations, so that a flood of new scopes pushes out old ones and never grows.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// A bounded map from header bytes to what they meant. One owner, no lock.
pub struct Memo<T> {
    young: HashMap<Box<[u8]>, T, RandomState>,
    old: HashMap<Box<[u8]>, T, RandomState>,
    capacity: usize,
}

impl<T: Clone> Memo<T> {
    /// Holds at most twice `capacity`, at least the `capacity` last used.
    pub fn new(capacity: usize) -> Memo<T> {
        // One seed for both generations: an entry that moves keeps its hash.
        let seed = RandomState::default();
        let young = HashMap::with_capacity_and_hasher(capacity.min(64), seed.clone());
        Memo {
            young,
            old: HashMap::with_hasher(seed),
            capacity: capacity.max(1),
        }
    }

    /// What these bytes meant, if they were seen lately.
    pub fn get(&mut self, bytes: &[u8]) -> Option<T> {
        if let Some(known) = self.young.get(bytes) {
            return Some(known.clone());
        }
        let (bytes, known) = self.old.remove_entry(bytes)?;
        self.keep(bytes, known.clone());
        Some(known)
    }

    /// Remembers what these bytes mean.
    pub fn put(&mut self, bytes: &[u8], meaning: T) {
        self.old.remove(bytes);
        self.keep(bytes.into(), meaning);
    }

    /// Forgets everything: the world has changed.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// How many meanings are held.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// True if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn keep(&mut self, bytes: Box<[u8]>, meaning: T) {
        if self.young.len() >= self.capacity {
            let empty = HashMap::with_hasher(self.young.hasher().clone());
            self.old = std::mem::replace(&mut self.young, empty);
        }
        self.young.insert(bytes, meaning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let mut memo = Memo::new(4);
        memo.put(b"kept", 0);
        for n in 0..100u32 {
            assert_eq!(memo.get(b"kept"), Some(0));
            memo.put(&n.to_be_bytes(), n);
            assert!(memo.len() <= 8, "{}", memo.len());
        }
        assert_eq!(memo.get(&0u32.to_be_bytes()), None);
        memo.clear();
        assert!(memo.is_empty());
    }
}
