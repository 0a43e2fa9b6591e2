//! Identities: operations, replicants, epochs, and the meta-ids that clients see.
//!
//! A meta-id has the shape of the service's own ids and carries keyed check bits, so that every agent of the mesh
//! recognises it without a record.

use std::fmt;

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

/// One mutating request. Minted by the agent where it entered, or fixed by its idempotency key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationId(pub u128);

/// One resource that lives on several sites: named by the operation that created it, so that the same name made
/// twice is two replicants (its incarnations).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicantId(pub u128);

/// Set in the ids of operations that are soon forgotten. The highest bit: the lowest ones say which shard a replicant is of.
const PASSING: u128 = 1 << 127;

/// How many of an id's lowest bits are from chance where the others tell the time.
const CHANCE_BITS: u32 = 80;

/// What an id that nobody has fixed is made from: the time first, then chance. What is kept by such ids lies in the order in which it was
/// written, so that a store fills one page after the other and does not touch another one for each.
pub fn dated(unix_ms: u64, chance: u128) -> u128 {
    (u128::from(unix_ms) << CHANCE_BITS) | (chance & ((1 << CHANCE_BITS) - 1))
}

impl OperationId {
    /// From chance, for a request that may come again for as long as answers are promised to be kept.
    pub fn lasting(chance: u128) -> OperationId {
        OperationId(chance & !PASSING)
    }

    /// From chance, for a request without a key that does no harm when it is done again, and whose client waits: once it
    /// was given up nobody asks for it any more. What became of it is soon forgotten, so that a resource may be changed
    /// as often as anybody likes.
    pub fn passing(chance: u128) -> OperationId {
        OperationId(chance | PASSING)
    }

    /// True if it is soon forgotten.
    pub fn is_passing(self) -> bool {
        self.0 & PASSING != 0
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op:{:x}", self.0)
    }
}

impl fmt::Debug for ReplicantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r:{:x}", self.0)
    }
}

impl From<OperationId> for ReplicantId {
    fn from(create: OperationId) -> ReplicantId {
        ReplicantId(create.0)
    }
}

/// One reign. The higher one wins; two sites never share one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch {
    /// Compared first.
    pub counter: u64,
    /// Who leads in it.
    pub site: SiteName,
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.counter, self.site)
    }
}

/// A place in a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Under whom.
    pub epoch: Epoch,
    /// From 1; 0 before the first.
    pub index: u64,
}

/// One run of an agent: a new disk, or one restored from a backup, is a new incarnation; a start on the same disk
/// is one more start. Later ones compare greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Boot {
    /// Of the disk.
    pub incarnation: u64,
    /// On that disk.
    pub start: u64,
}

/// The secret that the agents of one mesh share; ids are made and recognised with it.
#[derive(Clone)]
pub struct MeshKey([u8; 32]);

impl MeshKey {
    /// From 32 secret bytes.
    pub fn new(bytes: [u8; 32]) -> MeshKey {
        MeshKey(bytes)
    }

    fn hash(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    fn hash_u128(&self, parts: &[&[u8]]) -> u128 {
        let hash = self.hash(parts);
        u128::from_be_bytes(hash[..16].try_into().expect("32 bytes hold 16"))
    }

    /// The operation that an idempotency key stands for, on whatever site it enters.
    pub fn operation_of(&self, caller: &str, service: &str, key: &str) -> OperationId {
        let parts = [
            &b"key"[..],
            caller.as_bytes(),
            service.as_bytes(),
            key.as_bytes(),
        ];
        OperationId::lasting(self.hash_u128(&parts))
    }

    /// The queue of `holder` for a service of `target`.
    pub fn queue_of(
        &self,
        holder: &SiteName,
        target: &SiteName,
        service: &str,
        incarnation: u64,
    ) -> ReplicantId {
        let (from, to) = (holder.as_str().as_bytes(), target.as_str().as_bytes());
        let (service, incarnation) = (service.as_bytes(), incarnation.to_be_bytes());
        ReplicantId(self.hash_u128(&[b"queue", from, to, service, &incarnation]))
    }

    /// What is left of entries that were folded in one reign and are in no log any more.
    pub fn remains_of(&self, replicant: ReplicantId, epoch: &Epoch, index: u64) -> OperationId {
        let id = replicant.0.to_be_bytes();
        let (counter, index) = (epoch.counter.to_be_bytes(), index.to_be_bytes());
        let site = epoch.site.as_str().as_bytes();
        OperationId::lasting(self.hash_u128(&[b"remains", &id, &counter, site, &index]))
    }

    /// The sites that only one reign knew, named to the next.
    pub fn members_of(&self, replicant: ReplicantId, epoch: &Epoch) -> OperationId {
        let (id, counter) = (replicant.0.to_be_bytes(), epoch.counter.to_be_bytes());
        let site = epoch.site.as_str().as_bytes();
        OperationId::lasting(self.hash_u128(&[b"members", &id, &counter, site]))
    }

    /// The id that clients see.
    pub fn meta_id(&self, replicant: ReplicantId, shape: Shape) -> String {
        let body = self.hash_u128(&[b"meta", &replicant.0.to_be_bytes()]);
        match shape {
            Shape::Integer => {
                // 2^52 + 20 bits of check + 32 bits of body: in the range services leave alone.
                let low = (body as u32) as u64;
                let check = self.check(&low.to_be_bytes()) & 0xf_ffff;
                ((1u64 << 52) | (check << 32) | low).to_string()
            }
            Shape::Uuid => dashed(&self.hex(body)),
            Shape::Hex => self.hex(body),
            Shape::Name => format!("r-{}", self.hex(body)),
        }
    }

    /// True if some agent of this mesh made this id. Asked of every request that names one: nothing is allocated.
    pub fn recognises(&self, id: &str) -> bool {
        if let Ok(number) = id.parse::<u64>() {
            let low = number & 0xffff_ffff;
            return number >> 52 == 1
                && (number >> 32) & 0xf_ffff == self.check(&low.to_be_bytes()) & 0xf_ffff;
        }
        let value = hex_value(id.strip_prefix("r-").unwrap_or(id));
        value.is_some_and(|value| value >> 32 == head(value) >> 32 && value == self.checked(value))
    }

    fn hex(&self, body: u128) -> String {
        format!("{:032x}", self.checked(body))
    }

    /// A version-4 uuid: 90 bits of body, 32 of check.
    fn checked(&self, body: u128) -> u128 {
        let head = head(body);
        let check = self.check(&head.to_be_bytes()) & 0xffff_ffff;
        head | u128::from(check)
    }

    fn check(&self, of: &[u8]) -> u64 {
        self.hash_u128(&[b"check", of]) as u64
    }
}

/// A body with what every version-4 uuid has, and no check.
fn head(body: u128) -> u128 {
    const FREE: u128 = 0xffff_ffff_ffff_0fff_3fff_ffff_0000_0000;
    const FIXED: u128 = 0x0000_0000_0000_4000_8000_0000_0000_0000;
    (body & FREE) | FIXED
}

/// What 32 hex digits in lower case say; dashes among them do not count.
fn hex_value(text: &str) -> Option<u128> {
    let (mut value, mut digits) = (0, 0);
    for byte in text.bytes() {
        let digit = match byte {
            b'-' => continue,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        value = (value << 4) | u128::from(digit);
        digits += 1;
    }
    (digits == 32).then_some(value)
}

fn dashed(hex: &str) -> String {
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// What the ids of a service look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// With dashes.
    Uuid,
    /// 32 digits.
    Hex,
    /// Decimal.
    Integer,
    /// Anything else.
    Name,
}

impl Shape {
    /// The shape of an id that a service has minted.
    pub fn of(local: &str) -> Shape {
        let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
        let dashes = local.len() == 36
            && [8, 13, 18, 23]
                .iter()
                .all(|at| local.as_bytes()[*at] == b'-');
        if !local.is_empty() && local.len() < 20 && local.bytes().all(|b| b.is_ascii_digit()) {
            Shape::Integer
        } else if dashes && hex(&local.replace('-', "")) {
            Shape::Uuid
        } else if local.len() == 32 && hex(local) {
            Shape::Hex
        } else {
            Shape::Name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dated_ids_lie_in_the_order_of_time_and_are_told_apart_by_chance() {
        let (early, late) = (
            dated(1_700_000_000_000, u128::MAX),
            dated(1_700_000_000_001, 0),
        );
        assert!(OperationId::lasting(early) < OperationId::lasting(late));
        assert!(OperationId::passing(early) < OperationId::passing(late));
        assert!(OperationId::passing(early).is_passing());
        assert!(!OperationId::lasting(early).is_passing());
        assert_ne!(dated(7, 1), dated(7, 2));
        assert_eq!(
            dated(7, 5) % 4,
            1,
            "the lowest bits, by which shards are chosen, are from chance"
        );
    }

    #[test]
    fn a_meta_id_has_the_shape_of_the_service_and_is_recognised_by_its_mesh_alone() {
        let (ours, theirs) = (MeshKey::new([1; 32]), MeshKey::new([2; 32]));
        for shape in [Shape::Uuid, Shape::Hex, Shape::Integer, Shape::Name] {
            for number in 0..50u128 {
                let id = ours.meta_id(ReplicantId(number), shape);
                assert_eq!(Shape::of(&id), shape, "{id}");
                assert!(ours.recognises(&id), "{id}");
                assert!(!theirs.recognises(&id), "{id}");
            }
        }
        for id in [
            "7",
            "4503599627370496",
            "",
            "image",
            "00000000-0000-4000-8000-000000000000",
        ] {
            assert!(!ours.recognises(id), "{id}");
        }
        let hex = ours.meta_id(ReplicantId(7), Shape::Hex);
        for other in [
            hex.to_uppercase(),
            format!("0{hex}"),
            format!("+{hex}"),
            hex[1..].to_owned(),
            format!("{hex}/"),
        ] {
            assert!(!ours.recognises(&other), "{other}");
        }
    }
}
