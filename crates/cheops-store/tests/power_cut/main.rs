//! Power cuts, full disks and failed syncs, under a store that does not know.
//!
//! The store runs on a file system of ours (FUSE) that knows what was synced. Before a change
//! drawn by lot, the disk is copied as a power cut would leave it, together with what had been
//! acknowledged by then; the copy is opened elsewhere and has to hold all of it. Where there is no
//! FUSE, this says so and counts what it skipped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a test"
)]

#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod cuts;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(target_os = "linux")]
mod mount;
#[cfg(target_os = "linux")]
mod workload;

#[cfg(target_os = "linux")]
const CASES: &[(&str, fn())] = &[
    (
        "what_is_not_synced_is_lost",
        faults::what_is_not_synced_is_lost,
    ),
    (
        "a_cut_loses_nothing_acknowledged",
        cuts::a_cut_loses_nothing_acknowledged,
    ),
    (
        "a_disk_that_lies_is_noticed",
        cuts::a_disk_that_lies_is_noticed,
    ),
    ("a_full_disk_recovers", faults::a_full_disk_recovers),
    (
        "a_failed_sync_ends_the_store",
        faults::a_failed_sync_ends_the_store,
    ),
];

#[cfg(target_os = "linux")]
fn main() {
    if child::serve() {
        return;
    }
    if let Err(why) = faults::mount_nothing() {
        println!(
            "power_cut: 0 passed, {} skipped: no FUSE here ({why})",
            CASES.len()
        );
        return;
    }
    for (name, case) in CASES {
        case();
        println!("power_cut: {name} ... ok");
    }
    println!("power_cut: {} passed, 0 skipped", CASES.len());
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("power_cut: skipped: FUSE is on Linux");
}
