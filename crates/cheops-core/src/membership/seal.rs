//! Datagrams that only agents of the mesh can have made, each taken once.
//!
//! `version · start · number · content · tag`: the tag is a keyed hash of everything before it. A
//! sender's start grows from start to start of its agent, its number with each datagram. Nothing is
//! hidden: who may read the path learns who is in the mesh, and no secret.

use std::collections::BTreeMap;

use blake3::Hasher;

use super::key::Key;

const VERSION: u8 = 1;
const HEAD: usize = 1 + 8 + 8;
const TAG: usize = 16;

/// How far behind the newest a datagram may come and still be taken: networks reorder.
const WINDOW: u64 = 128;

/// The key that datagrams of a mesh are sealed with.
#[derive(Clone)]
pub struct SealKey([u8; 32]);

impl SealKey {
    /// From 32 bytes that the agents of the mesh share, and that are used for nothing else.
    pub fn new(bytes: [u8; 32]) -> SealKey {
        SealKey(bytes)
    }

    fn tag(&self, bytes: &[u8]) -> [u8; TAG] {
        let hash = Hasher::new_keyed(&self.0).update(bytes).finalize();
        let mut tag = [0; TAG];
        tag.copy_from_slice(&hash.as_bytes()[..TAG]);
        tag
    }

    /// The content of a datagram of this mesh; the second is for [`Guard::admit`], once the
    /// sender's name is read out of it.
    pub fn open<'a>(&self, sealed: &'a [u8]) -> Result<(&'a [u8], Stamp), SealFault> {
        let end = sealed.len().checked_sub(TAG).filter(|end| *end >= HEAD);
        let end = end.ok_or(SealFault::Truncated)?;
        let (signed, tag) = sealed.split_at(end);
        if !equal(&self.tag(signed), tag) {
            return Err(SealFault::Forged);
        }
        // A version of the future is still sealed by an agent of the mesh.
        if signed[0] != VERSION {
            return Err(SealFault::OtherVersion(signed[0]));
        }
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&signed[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let stamp = Stamp {
            start: number(1),
            number: number(9),
        };
        Ok((&signed[HEAD..], stamp))
    }
}

/// When a datagram was made, by its sender's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    start: u64,
    number: u64,
}

/// Why a datagram is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SealFault {
    /// Too short to be one.
    #[error("too short to be a datagram of any mesh")]
    Truncated,
    /// Not made with this mesh's key, or changed on the way.
    #[error("not sealed with this mesh's key")]
    Forged,
    /// Made by an agent of another version.
    #[error("of version {0}, which this agent does not speak; upgrade the older agent")]
    OtherVersion(u8),
    /// Taken before.
    #[error("a copy of an earlier one")]
    Replayed,
    /// Made before the sender's last start.
    #[error(
        "made before the sender's last start; if its clock was set back, it is known by its link"
    )]
    Outlived,
}

/// Seals what this agent says.
pub struct Sealer {
    key: SealKey,
    start: u64,
    number: u64,
}

impl Sealer {
    /// `start` grows from start to start of the agent.
    pub fn new(key: SealKey, start: u64) -> Sealer {
        Sealer {
            key,
            start,
            number: 0,
        }
    }

    /// A datagram with that content.
    pub fn seal(&mut self, content: &[u8]) -> Vec<u8> {
        self.number += 1;
        let mut sealed = Vec::with_capacity(HEAD + content.len() + TAG);
        sealed.push(VERSION);
        sealed.extend(self.start.to_le_bytes());
        sealed.extend(self.number.to_le_bytes());
        sealed.extend(content);
        let tag = self.key.tag(&sealed);
        sealed.extend(tag);
        sealed
    }
}

/// Remembers what was taken of each sender: a start, the highest number and the last few below.
#[derive(Clone, Debug)]
pub struct Guard<K>(BTreeMap<K, Window>);

#[derive(Clone, Copy, Debug)]
struct Window {
    start: u64,
    highest: u64,
    /// Bit n: `highest - n` was taken.
    taken: u128,
}

impl<K: Key> Default for Guard<K> {
    fn default() -> Guard<K> {
        Guard(BTreeMap::new())
    }
}

impl<K: Key> Guard<K> {
    /// The sender's connection proved that its agent has this start, whatever was known before.
    pub fn trust(&mut self, from: &K, start: u64) {
        if self.0.get(from).is_none_or(|window| window.start != start) {
            let window = Window {
                start,
                highest: 0,
                taken: 0,
            };
            self.0.insert(from.clone(), window);
        }
    }

    /// Takes a datagram, or says why not. Only known sites are to be asked about: each is remembered.
    pub fn admit(&mut self, from: &K, stamp: Stamp) -> Result<(), SealFault> {
        let fresh = Window {
            start: stamp.start,
            highest: stamp.number,
            taken: 1,
        };
        let Some(window) = self.0.get_mut(from) else {
            self.0.insert(from.clone(), fresh);
            return Ok(());
        };
        if stamp.start < window.start {
            return Err(SealFault::Outlived);
        }
        if stamp.start > window.start {
            *window = fresh;
            return Ok(());
        }
        if stamp.number > window.highest {
            let ahead = stamp.number - window.highest;
            window.taken = if ahead < WINDOW {
                window.taken << ahead
            } else {
                0
            };
            window.taken |= 1;
            window.highest = stamp.number;
            return Ok(());
        }
        let behind = window.highest - stamp.number;
        if behind >= WINDOW || window.taken >> behind & 1 == 1 {
            return Err(SealFault::Replayed);
        }
        window.taken |= 1 << behind;
        Ok(())
    }
}

/// In a time that does not tell where they differ.
fn equal(ours: &[u8; TAG], theirs: &[u8]) -> bool {
    ours.len() == theirs.len() && ours.iter().zip(theirs).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use cheops_model::SiteName;

    use super::*;

    fn site() -> SiteName {
        SiteName::new("site1").unwrap()
    }

    #[test]
    fn what_is_cut_short_or_changed_or_of_another_mesh_is_refused() {
        let key = SealKey::new([7; 32]);
        let sealed = Sealer::new(key.clone(), 3).seal(b"hello");
        assert_eq!(key.open(&sealed).unwrap().0, b"hello");
        for length in 0..sealed.len() {
            assert!(key.open(&sealed[..length]).is_err(), "{length} bytes");
        }
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(
                key.open(&changed).err(),
                Some(SealFault::Forged),
                "byte {place}"
            );
        }
        let other = SealKey::new([8; 32]);
        assert_eq!(other.open(&sealed).err(), Some(SealFault::Forged));
    }

    #[test]
    fn a_datagram_is_taken_once_in_any_order() {
        let stamp = |number| Stamp { start: 5, number };
        let mut guard = Guard::default();
        let mut admit = |number| guard.admit(&site(), stamp(number));
        for number in [1, 3, 2, 200, 199, 73] {
            assert_eq!(admit(number), Ok(()), "{number}");
            assert_eq!(admit(number), Err(SealFault::Replayed), "{number}");
        }
        assert_eq!(admit(72), Err(SealFault::Replayed), "too long ago to tell");
    }

    #[test]
    fn an_earlier_start_counts_only_if_a_connection_proves_it() {
        let mut guard = Guard::default();
        let stamp = |start| Stamp { start, number: 1 };
        guard.admit(&site(), stamp(5)).unwrap();
        assert_eq!(guard.admit(&site(), stamp(4)), Err(SealFault::Outlived));
        assert_eq!(guard.admit(&site(), stamp(6)), Ok(()));
        guard.trust(&site(), 4);
        assert_eq!(guard.admit(&site(), stamp(4)), Ok(()));
    }
}
