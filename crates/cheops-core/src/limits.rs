//! Bounds of the protocols, each with its reason and with what happens at it.

/// No position, reign, version or time gets that far: at a thousand a millisecond it would take a hundred thousand years.
/// A message with one beyond is not listened to.
pub const FAR: u64 = 1 << 62;

/// Entries in one message: a batch fits a frame and a slow link shows progress. The rest follows after the report.
pub const BATCH_ENTRIES_MAX: usize = 32;

/// Entries of one replicant on their way to a site that has not confirmed them. The next follow when it has: its outlet is
/// not filled by one replicant, and two full messages keep a link busy.
pub const IN_FLIGHT_MAX: usize = 2 * BATCH_ENTRIES_MAX;

/// Requests waiting for the gate of one replicant. Beyond: 503, since nothing was done.
pub const PENDING_MAX: usize = 64;

/// Entries kept for a site that is away. Beyond, it keeps its duty but loses its queue: it will be settled. Actions it
/// has not run stay, and what follows them; at [`LOG_ENTRIES_MAX`] further requests are 503.
pub const RETAIN_ENTRIES: usize = 256;

/// How much the entries of one log may be that are kept for a site that is away. Beyond, as above.
pub const RETAIN_BYTES: usize = 16 * 1_024 * 1_024;

/// How long entries are kept for a site that is not heard of. Beyond, as above. Counted from when this agent last heard
/// of it, or from its own start: a clock that does not run while the agent is stopped cannot be too early.
pub const RETAIN_MS: u64 = 7 * 24 * 3_600_000;

/// Entries of one log, whatever they are. Beyond: 503, since nothing was done.
pub const LOG_ENTRIES_MAX: usize = 4_096;

/// Entries that every site has applied and that are kept all the same: a compaction is worth its write.
pub const COMPACT_EVERY: usize = 8;

/// Sites of one replicant. A rescope to more is refused.
pub const MEMBERS_MAX: usize = 64;

/// Reigns of a log that are remembered after their entries were folded. Logs that parted earlier count as sharing
/// nothing, which parks what could have been applied.
pub const EPOCHS_MAX: usize = 256;

/// Requests this site has taken for a leader it cannot reach. Beyond: 503.
pub const OUTBOX_MAX: usize = 10_000;

/// Attempts of one operation that were answered 503 and must never run late. Beyond, the oldest is forgotten:
/// its message is long gone.
pub const VOID_ATTEMPTS_MAX: usize = 16;

/// Requests handed to others of which nothing was heard in time. Beyond, the oldest is forgotten: whoever asked was
/// told 504 long ago.
pub const UNCERTAIN_MAX: usize = 10_000;

/// Operations that are done everywhere and are still shown as they were. Beyond, only the answer of the oldest is.
pub const FINISHED_MAX: usize = 256;

/// Of one of them, how much is kept of what the engine wants back. Beyond, nothing: it would be a body.
pub const FINISHED_BYTES_MAX: usize = 16 * 1_024;

/// Replicants in one answer to a site whose disk is new or older than it was, and about how much they may weigh: it fits
/// a frame, and what comes next is asked for when this was taken.
pub const SHARED_MAX: usize = 256;

/// As above. One replicant may be more by itself.
pub const SHARED_BYTES_MAX: usize = 1 << 20;

/// With that many replicants awake, such a site asks for more only every second: those it heard of are to settle first.
pub const SHARED_AWAKE_MAX: usize = 4_096;

/// How often something unanswered is said again, at first and at most. A peer back in reach is sent to within 2 s.
pub const RESEND_MS: (u64, u64) = (200, 2_000);

/// How soon the others hear how a replica is: what several sites tell at about the same time goes in one message.
pub const NEWS_MS: u64 = 50;

/// How soon a follower tells what it has done, if it has just told something else. Far less than a round trip that matters.
pub const REPORT_MS: u64 = 10;

/// Replicants that reports have changed and that are not written yet. Beyond, they are written at once, all of them: with what
/// else a step writes, they fit a batch of the store.
pub const HEARD_MAX: usize = 1_024;

/// How often a service that could not be called is tried again, at first and at most.
pub const RETRY_MS: (u64, u64) = (100, 5_000);

/// How often a service without room is tried again: slowly, it does not help it to be asked.
pub const NO_ROOM_MS: u64 = 10_000;

/// How long answers are kept for retries of clients; 24 h are promised for keyed requests.
pub const ANSWERS_MS: u64 = 25 * 3_600_000;

/// The same for operations that nobody asks for again once their client has given up: far longer than a client waits, or
/// a message is on its way.
pub const PASSING_MS: u64 = 600_000;

/// How long a client may wait for such an operation. Beyond, it counts as one that may come again.
pub const PASSING_WAIT_MS_MAX: u64 = 120_000;

/// Answers kept at a time. Beyond, new requests are 503, since nothing was done: to forget one early could run a retry
/// twice. What other leaders order is remembered all the same.
pub const ANSWERS_MAX: usize = 1_000_000;

/// How long somebody who was told to lead waits for the others before it goes on with those it heard.
pub const PROMOTE_PATIENCE_MS: u64 = 2_000;

/// How long a follower's grant to its leader lasts, with `failover=auto`.
pub const LEASE_MS: u64 = 3_000;

/// By how much less the leader relies on it: clocks differ in speed, by less than a fifth.
pub const LEASE_TRUST_MS: u64 = 2_400;

/// How often a leader renews its lease.
pub const LEASE_RENEW_MS: u64 = 500;

/// How often answers are looked through for those that need not be kept any longer: all of them are.
pub const ANSWERS_EVERY_MS: u64 = 60_000;

/// Answers kept in memory as they are, where the others can be read back: retries come soon or never.
pub const ANSWERS_WHOLE_MAX: usize = 256;

/// Replicants kept in memory though nothing is under way with them: what was changed is often changed again. Beyond, the
/// one that has been idle for longest rests.
pub const IDLE_MAX: usize = 256;

/// Sets of things that resting replicants have in common, each kept once. Beyond, it is begun anew; nothing else changes.
pub const KINS_MAX: usize = 4_096;
