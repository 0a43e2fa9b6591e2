//! What is known, in 64 numbers: two sites compare them and exchange only where they differ.

use std::collections::BTreeMap;

use super::key::Key;
use super::member::{Member, State};
use super::message::Record;

/// Shares of the sites; a set of them fits a word.
pub(super) const SHARES: usize = 64;

/// The share a site belongs to.
pub(super) fn share_of<K: Key>(site: &K) -> usize {
    (site.hash() >> 58) as usize
}

/// One number for each share. A suspicion is not in it: it is about to be one thing or the other.
pub(super) fn digest<K: Key>(members: &BTreeMap<K, Member<K>>, this: &Record<K>) -> Vec<u32> {
    let mut shares = vec![0u32; SHARES];
    let mut put = |record: &Record<K>| shares[share_of(&record.site)] ^= stamp(record);
    put(this);
    for (site, member) in members {
        put(&record_of(site, member));
    }
    shares
}

/// What is told of a member.
pub(super) fn record_of<K: Key>(site: &K, member: &Member<K>) -> Record<K> {
    Record {
        site: site.clone(),
        incarnation: member.incarnation,
        state: match member.state {
            State::Suspect => State::Alive,
            state => state,
        },
        address: member.address.clone(),
        said: member.said,
        standing: member.standing.as_deref().cloned(),
    }
}

fn stamp<K: Key>(record: &Record<K>) -> u32 {
    let state = match record.state {
        State::Alive | State::Suspect => 0u64,
        State::Away => 1,
        State::Left => 2,
    };
    let standing = record.standing.as_ref();
    let standing = standing.map_or(0, |s| s.version << 3 | s.word as u64);
    let mut hash = record.site.hash();
    for part in [record.incarnation, state, u64::from(record.said), standing] {
        hash = (hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    (hash >> 32) as u32
}

/// The shares in which two digests differ, as bits; none if they are not of one kind.
pub(super) fn differing(ours: &[u32], theirs: &[u32]) -> u64 {
    if ours.len() != SHARES || theirs.len() != SHARES {
        return 0;
    }
    let differs = |share: usize| u64::from(ours[share] != theirs[share]) << share;
    (0..SHARES).map(differs).sum()
}
