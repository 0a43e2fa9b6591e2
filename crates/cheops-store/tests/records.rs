//! Records: what was written by any version reads today, and what was damaged is named.
//!
//! To keep the bytes of a new version: add its line to the fixtures and a case here.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use cheops_store::Incarnation;
use cheops_store::record::{First, Record, RecordFault, decode, encode};
use cheops_store::sqlite::{Mark, Meta};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// How an address was kept in the first version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Address1 {
    host: String,
}

/// And in the second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Address2 {
    host: String,
    port: u16,
}

/// And today.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Address {
    hosts: Vec<String>,
    port: u16,
}

impl Record for Address1 {
    const KIND: [u8; 4] = *b"ADDR";
    const VERSION: u16 = 1;
    type Previous = First;
    fn migrate(first: First) -> Address1 {
        match first {}
    }
}

impl Record for Address2 {
    const KIND: [u8; 4] = *b"ADDR";
    const VERSION: u16 = 2;
    type Previous = Address1;
    fn migrate(Address1 { host }: Address1) -> Address2 {
        Address2 { host, port: 80 }
    }
}

impl Record for Address {
    const KIND: [u8; 4] = *b"ADDR";
    const VERSION: u16 = 3;
    type Previous = Address2;
    fn migrate(Address2 { host, port }: Address2) -> Address {
        Address {
            hosts: vec![host],
            port,
        }
    }
}

/// The newest version is written as the fixture says; every version reads as `today`.
#[track_caller]
fn check<W: Record, R: Record + PartialEq + std::fmt::Debug>(name: &str, written: &W, today: &R) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let bytes: String = encode(written)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        kept.trim(),
        bytes,
        "{name}: what is on people's disks does not change"
    );
    let kept: Vec<u8> = kept.trim().as_bytes().chunks(2).map(hex).collect();
    assert_eq!(&decode::<R>(&kept).unwrap(), today);
}

fn hex(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
}

#[test]
fn every_version_of_every_record_still_reads() {
    let old = Address1 {
        host: "lyon1".into(),
    };
    let middle = Address2 {
        host: "lyon1".into(),
        port: 443,
    };
    let new = Address {
        hosts: vec!["lyon1".into(), "lyon2".into()],
        port: 443,
    };
    check(
        "address-1.hex",
        &old,
        &Address {
            hosts: vec!["lyon1".into()],
            port: 80,
        },
    );
    check(
        "address-2.hex",
        &middle,
        &Address {
            hosts: vec!["lyon1".into()],
            port: 443,
        },
    );
    check("address-3.hex", &new, &new);

    let incarnation = Incarnation::from_bytes(*b"0123456789abcdef");
    let meta = Meta {
        incarnation,
        incarnations: 300,
    };
    check("meta-1.hex", &meta, &meta);
    let mark = Mark {
        incarnation,
        sequence: 70_000,
        inode: 42,
        born_ns: Some(1_700_000_000_000_000_000),
    };
    check("mark-1.hex", &mark, &mark);
}

#[test]
fn each_fault_has_its_name() {
    let bytes = encode(&Address2 {
        host: "lyon1".into(),
        port: 443,
    });
    let fault = |bytes: &[u8]| decode::<Address>(bytes).unwrap_err();
    for length in 0..14 {
        assert_eq!(
            fault(&bytes[..length]),
            RecordFault::Truncated { found: length }
        );
    }
    for length in 14..bytes.len() {
        assert_eq!(fault(&bytes[..length]), RecordFault::Damaged);
    }
    let newest = Address {
        hosts: vec![],
        port: 1,
    };
    assert_eq!(
        decode::<Address2>(&encode(&newest)),
        Err(RecordFault::UnknownVersion {
            found: 3,
            newest: 2
        })
    );
    assert!(matches!(
        decode::<Meta>(&bytes),
        Err(RecordFault::OtherKind { .. })
    ));
}

#[test]
fn what_stands_behind_a_record_is_noticed() {
    /// Writes more than `Address1` reads, under its name and version.
    #[derive(Serialize, Deserialize)]
    struct Longer {
        host: String,
        more: u8,
    }
    impl Record for Longer {
        const KIND: [u8; 4] = *b"ADDR";
        const VERSION: u16 = 1;
        type Previous = First;
        fn migrate(first: First) -> Longer {
            match first {}
        }
    }
    let bytes = encode(&Longer {
        host: "lyon1".into(),
        more: 1,
    });
    assert_eq!(
        decode::<Address1>(&bytes),
        Err(RecordFault::Unreadable { version: 1 })
    );
}

proptest! {
    #[test]
    fn a_flipped_bit_never_reads(hosts in prop::collection::vec("[a-z]{0,9}", 0..5), port: u16, bit: usize) {
        let mut bytes = encode(&Address { hosts, port });
        let bit = bit % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(decode::<Address>(&bytes).is_err());
    }

    #[test]
    fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<Address>(&bytes);
        let _ = decode::<Meta>(&bytes);
    }
}
