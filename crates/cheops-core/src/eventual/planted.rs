//! Known bugs, one of which the simulator may switch on to see that its laws can fail.
//!
//! Without the feature `planted` the question is answered `false` when compiled.

/// A mutation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Bug {
    SkipLogWrite,
    SkipPrepare,
    ForgetTombstone,
    AnswerEarly,
    ReuseIndexAfterRestore,
    DropDeposedSuffix,
    RetryTimeout,
    RunAfter503,
    TakeLateMessages,
    SkipSettleAfterFork,
    RunExpired,
    IgnorePromise,
    OverwriteOnResubmit,
    VerdictGoesOn,
    SkipOrder,
    ForgetRan,
    CallAgainAfterOneLook,
    DeleteAbsentOnHeal,
    NeverCompact,
    LeakRecords,
    TrustOldDisk,
    IgnoreDigest,
    DropBesideRemains,
    LoseTaken,
    IgnoreDigestOfTaken,
    RunExpiredOnOldDisk,
    RestUnconfirmed,
    HearOnePage,
    TrustSent,
    CancelSent,
}

impl Bug {
    /// Every one.
    pub const ALL: &'static [Bug] = &[
        Bug::SkipLogWrite,
        Bug::SkipPrepare,
        Bug::ForgetTombstone,
        Bug::AnswerEarly,
        Bug::ReuseIndexAfterRestore,
        Bug::DropDeposedSuffix,
        Bug::RetryTimeout,
        Bug::RunAfter503,
        Bug::TakeLateMessages,
        Bug::SkipSettleAfterFork,
        Bug::RunExpired,
        Bug::IgnorePromise,
        Bug::OverwriteOnResubmit,
        Bug::VerdictGoesOn,
        Bug::SkipOrder,
        Bug::ForgetRan,
        Bug::CallAgainAfterOneLook,
        Bug::DeleteAbsentOnHeal,
        Bug::NeverCompact,
        Bug::LeakRecords,
        Bug::TrustOldDisk,
        Bug::IgnoreDigest,
        Bug::DropBesideRemains,
        Bug::LoseTaken,
        Bug::IgnoreDigestOfTaken,
        Bug::RunExpiredOnOldDisk,
        Bug::RestUnconfirmed,
        Bug::HearOnePage,
        Bug::TrustSent,
        Bug::CancelSent,
    ];
}
