//! `[blobs]`: how much contents may take, of the disk and of the links.

use anyhow::{Context, bail};
use cheops_engine::replication::{BlobSettings, Room};

use super::raw::RawBlobs;

pub(super) fn check(raw: &RawBlobs) -> anyhow::Result<BlobSettings> {
    let room = raw.room.as_deref().map(bytes).transpose();
    let rate = raw.rate.as_deref().map(bytes).transpose();
    let room = room.context("key `blobs.room`")?;
    let rate = rate.context("key `blobs.rate`")?;
    if rate == Some(0) {
        bail!("key `blobs.rate`: nothing would ever arrive");
    }
    Ok(BlobSettings {
        room: room.map_or(Room::Disk, Room::Bytes),
        rate,
        compress: raw.compress,
    })
}

/// `512`, `64KiB`, `50 MiB`, `2GiB`, `1TiB`.
fn bytes(text: &str) -> anyhow::Result<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        unit => bail!("{unit:?} is not B, KiB, MiB, GiB or TiB"),
    };
    let number: u64 = digits
        .parse()
        .with_context(|| format!("{text:?} does not begin with a number"))?;
    match number.checked_mul(1 << unit) {
        Some(bytes) => Ok(bytes),
        None => bail!("{text:?} is more than there can be"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_a_unit() {
        assert_eq!(bytes("512").unwrap(), 512);
        assert_eq!(bytes("64KiB").unwrap(), 65_536);
        assert_eq!(bytes("50 MiB").unwrap(), 52_428_800);
        assert_eq!(bytes("1TiB").unwrap(), 1 << 40);
        for bad in ["", "MiB", "5MB", "1.5GiB", "-1", "99999999999TiB", "5 Mi B"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
