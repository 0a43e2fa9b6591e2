//! A bounded hunt for every build, the seeds that once found something, and proof that the hunt can find.

use cheops_sim::{Bug, run, sweep};

#[test]
fn two_thousand_worlds_keep_every_law() {
    let summary = sweep(0..2_000, None, 3);
    let broken: Vec<String> = summary
        .failures
        .iter()
        .map(|f| format!("seed {}: {}: {}", f.seed, f.law, f.what))
        .collect();
    assert_eq!(broken, Vec::<String>::new());
    assert!(
        summary.counts.crashes > 2_000,
        "the worlds were rough: {:?}",
        summary.counts
    );
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 0..10 {
        let story = |bug| {
            run(seed, bug, true)
                .map_err(|failure| failure.trace)
                .map(|counts| format!("{counts:?}"))
        };
        assert_eq!(story(None), story(None), "seed {seed}");
        // A law that fails hands out its trace: line by line the same.
        assert_eq!(
            story(Some(Bug::SkipLogWrite)),
            story(Some(Bug::SkipLogWrite)),
            "seed {seed}"
        );
    }
}

/// What the simulator found while the protocol was written. The worlds have changed since, so a seed does not
/// stand for its finding for ever; it costs nothing to keep it.
#[test]
fn seeds_that_once_found_something_stay_quiet() {
    let findings: &[(&str, u64)] = &[
        (
            "a relay took a repeated request back that was on its way",
            1_687,
        ),
        ("a restored leader re-ran what only its gate knew", 2_808),
        (
            "a reign was promised and its leader-to-be stopped: nobody led",
            35,
        ),
        (
            "a tombstone that was forgotten came back by a promotion",
            8_006,
        ),
        (
            "a retry after the log was folded ran twice under another leader",
            8_430,
        ),
        ("a settle in flight forgot that more had to be settled", 823),
        (
            "an operation stood in the queue and in an adopted log",
            7_000,
        ),
        (
            "a restored leader denied a reign it did not remember",
            2_293,
        ),
        ("an old answer voided a later try", 97),
        (
            "a delete at the gate was executed, parked, and not made good",
            3_018,
        ),
        ("a promise carried an action with all its time", 28_997),
        ("a queue of an earlier disk was not known", 29_423),
        (
            "what came back after a fork ran again on a restored disk",
            37_087,
        ),
        ("a restored site looked for what others could name", 40_548),
        ("a restored gate trusted what it had not written", 41_247),
        ("a stranded disk did not follow who leads now", 2_240),
        ("an empty log was settled to, and unset every field", 6_470),
        (
            "a folded suffix and a longer log stood for new reigns for ever",
            1_965,
        ),
        (
            "a parked operation was forgotten when its entry was folded",
            12_119,
        ),
        ("a relay repeated an action with all its time", 23_082),
        (
            "a restored leader denied what its earlier disk was doing",
            40_349,
        ),
        ("two restored disks each thought nobody had made it", 41_090),
        (
            "a restored peer that was unsure kept silent about it",
            35_751,
        ),
        ("a relay said 503 of what it had sent and forgotten", 10_623),
        (
            "a site with no record met a deposed leader and stayed with it",
            5_721,
        ),
        ("a member that joined ran what had been run before", 2_215),
        (
            "a retry of the create made a second one at a site that had left",
            7_269,
        ),
        (
            "a site waited for a base that the next reign did not need to send",
            4_081,
        ),
        ("a leaving site that nobody covered stood still", 8_021),
        (
            "a request handed on was called void by a change of leader",
            14_268,
        ),
        (
            "a leader of something deleted had no lease from those who had forgotten it",
            23_171,
        ),
        (
            "a site brought in by a reign that lost was told nothing",
            28_002,
        ),
        (
            "a void lost its position, and what it voided stayed void",
            1_293,
        ),
        (
            "a site that left and came back told less than before",
            40_598,
        ),
        (
            "a restored disk trusted one log and ran what another had made it do",
            41_536,
        ),
        ("a later try was told the refusal of an earlier one", 47_519),
        (
            "a site that one reign removed was a member of the one that lost",
            51_519,
        ),
        ("a restored leader sent away whom it had brought in", 55_005),
        ("a tombstone went before a stray was found", 60_399),
        (
            "what waited for the gate was in the base of an adopted log",
            79_360,
        ),
        ("a site that had left was not told that it is back", 2_383),
        (
            "a conflict was let in when the entry that parked it was cut off",
            43_097,
        ),
        ("what one reign had folded ran again under the next", 53_720),
        ("a gate refused for a leader that had done it", 54_965),
        (
            "a call of the disk before was executed after the settle",
            56_823,
        ),
        (
            "a site that had left asked members who did not answer",
            58_130,
        ),
        (
            "what a replica was called was forgotten with its reign",
            62_346,
        ),
        (
            "a tombstone waited for a request that waited for it",
            24_736,
        ),
        ("the same, without a disk put back", 85_780),
        ("what a leader was entrusted with was refused for ever", 57),
        (
            "what was parked for all who had folded it was not known to stand for it",
            1_637,
        ),
    ];
    for (what, seed) in findings {
        let ran = run(*seed, None, false);
        assert!(ran.is_ok(), "{what}: {ran:?}");
    }
}

/// Those that a short sweep finds; `cheops-sim --bugs` looks for all of them.
#[test]
fn known_bugs_are_found() {
    let soon = [
        Bug::SkipLogWrite,
        Bug::SkipPrepare,
        Bug::ForgetTombstone,
        Bug::AnswerEarly,
        Bug::RetryTimeout,
        Bug::SkipSettleAfterFork,
        Bug::VerdictGoesOn,
        Bug::SkipOrder,
        Bug::NeverCompact,
        Bug::LeakRecords,
        Bug::IgnoreDigest,
        Bug::TrustOldDisk,
        Bug::RunAfter503,
        Bug::CancelSent,
    ];
    for bug in soon {
        assert!(
            !sweep(0..400, Some(bug), 1).failures.is_empty(),
            "{bug:?} was not found"
        );
    }
}
