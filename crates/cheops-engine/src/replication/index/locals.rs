//! The ids that a service has for its replicants and that clients never see, as a filter: every answer of a service that has
//! replicants is looked through for them, so they are asked for without a lock.
//!
//! Ids are only ever added. One that is no longer in use costs a second look, and is gone with the next start.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use cheops_rest::{Lengths, is_plain_id, may_name};
use foldhash::fast::FixedState;

use super::super::limits::{LOCALS_LEVELS, LOCALS_PER_WORD, LOCALS_WORDS_FIRST};

/// The local ids of one service that are not meta-ids.
#[derive(Default)]
pub(super) struct Locals {
    lengths: AtomicU64,
    /// One of them is of no kind that can be looked for: any body may name it.
    odd: AtomicBool,
    /// Each begun when the one before is full, four times its size.
    levels: [OnceLock<Level>; LOCALS_LEVELS],
    hasher: FixedState,
}

struct Level {
    words: Box<[AtomicU64]>,
    held: AtomicUsize,
}

impl Locals {
    /// False if there never was any.
    pub(super) fn are_any(&self) -> bool {
        self.lengths.load(Ordering::Acquire) != 0 || self.odd.load(Ordering::Acquire)
    }

    /// False only if the body of an answer names none.
    pub(super) fn may_be_named_in(&self, body: &[u8]) -> bool {
        let lengths = Lengths(self.lengths.load(Ordering::Acquire));
        self.odd.load(Ordering::Acquire) || may_name(body, lengths, |word| self.may_hold(word))
    }

    /// Adds one. Called by one thread at a time.
    pub(super) fn add(&self, id: &str) {
        if !is_plain_id(id) {
            self.odd.store(true, Ordering::Release);
            return;
        }
        let id = id.as_bytes();
        if !self.may_hold(id) {
            let level = self.level_with_room();
            level.held.fetch_add(1, Ordering::Relaxed);
            let (word, bits) = level.place(self.hasher.hash_one(id));
            word.fetch_or(bits, Ordering::Release);
        }
        // Last: who knows its length looks for it.
        self.lengths.fetch_or(Lengths::of(id).0, Ordering::Release);
    }

    fn may_hold(&self, id: &[u8]) -> bool {
        let hash = self.hasher.hash_one(id);
        let begun = self.levels.iter().map_while(OnceLock::get);
        begun.into_iter().any(|level| {
            let (word, bits) = level.place(hash);
            word.load(Ordering::Acquire) & bits == bits
        })
    }

    /// The first that has room. The last takes what there is, and tells ids apart worse and worse.
    fn level_with_room(&self) -> &Level {
        let (last, others) = self.levels.split_last().expect("there are levels");
        let mut size = LOCALS_WORDS_FIRST;
        for level in others {
            let level = level.get_or_init(|| Level::new(size));
            if level.held.load(Ordering::Relaxed) < size * LOCALS_PER_WORD {
                return level;
            }
            size *= 4;
        }
        last.get_or_init(|| Level::new(size))
    }
}

impl fmt::Debug for Locals {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = |level: &Level| level.held.load(Ordering::Relaxed);
        let held: usize = self.levels.iter().filter_map(OnceLock::get).map(held).sum();
        to.debug_struct("Locals").field("held", &held).finish()
    }
}

impl Level {
    fn new(size: usize) -> Level {
        Level {
            words: (0..size).map(|_| AtomicU64::new(0)).collect(),
            held: AtomicUsize::new(0),
        }
    }

    /// Three bits of one word: one look at memory tells.
    fn place(&self, hash: u64) -> (&AtomicU64, u64) {
        let bit = |shift: u32| 1u64 << ((hash >> shift) & 63);
        let word = (hash >> 18) as usize & (self.words.len() - 1);
        (&self.words[word], bit(0) | bit(6) | bit(12))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> String {
        format!("7f9c24e8-3b12-4fef-91e0-{number:012x}")
    }

    fn bytes(locals: &Locals) -> usize {
        let levels = locals.levels.iter().filter_map(OnceLock::get);
        levels.map(|level| level.words.len() * 8).sum()
    }

    #[test]
    fn what_was_added_is_held_and_little_else() {
        let locals = Locals::default();
        assert!(!locals.are_any());
        for (count, bytes_max) in [(1, 8 << 10), (500, 8 << 10), (100_000, 1 << 20)] {
            for number in 0..count {
                // Again and again, as replicants change.
                locals.add(&id(number));
            }
            assert!(locals.are_any());
            assert!((0..count).all(|number| locals.may_hold(id(number).as_bytes())));
            let others = count..count + 100_000;
            let wrong = others.filter(|number| locals.may_hold(id(*number).as_bytes()));
            let wrong = wrong.count();
            assert!(wrong < 4_000, "{wrong} of 100,000 beside {count}");
            assert!(bytes(&locals) <= bytes_max, "{} bytes", bytes(&locals));
        }
    }

    #[test]
    fn a_million_take_less_than_four_megabytes() {
        let sizes = (0..LOCALS_LEVELS).map(|level| LOCALS_WORDS_FIRST << (2 * level));
        let (words, room) = sizes.fold((0, 0), |(words, room), size| {
            (words + size, room + size * LOCALS_PER_WORD)
        });
        assert!(room >= 1_000_000 && words * 8 <= 4 << 20, "{room} {words}");
    }

    #[test]
    fn bodies_are_looked_through_for_them() {
        let locals = Locals::default();
        let body = |id: &str| format!("{{\"id\":\"{id}\",\"size\":7}}").into_bytes();
        assert!(!locals.may_be_named_in(&body(&id(1))));
        locals.add(&id(1));
        assert!(locals.may_be_named_in(&body(&id(1))));
        assert!(!locals.may_be_named_in(&body(&id(2))));
        locals.add("7");
        assert!(locals.may_be_named_in(&body(&id(2))));
        let odd = Locals::default();
        odd.add("sha256:abc");
        assert!(odd.are_any() && odd.may_be_named_in(b"{}"));
    }
}
