//! Bounds of the replication engine, each with its reason and with what happens at it.

use std::time::Duration;

/// State machines per site, each with its own share of the replicants: a long step of one does not
/// hold up the others, and their writes meet in one sync. Part of the format on disk.
pub(super) const SHARDS: u8 = 4;

/// Requests and messages waiting for a shard. Beyond: requests are 503, since nothing was done;
/// messages are lost, and said again by their sender.
pub(super) const INBOX_MAX: usize = 8_192;

/// Events taken together and written in one batch. The rest is taken next.
pub(super) const STEP_EVENTS_MAX: usize = 128;

/// What such a batch may hold before no further event is taken. A single event adds at most a message's worth of the
/// largest operations, about 5 MiB, so that a batch of the store (8 MiB) holds both.
pub(super) const STEP_BYTES_MAX: usize = 2 << 20;

/// And how many records: with those of one more event, a batch of the store (4,096) holds them.
pub(super) const STEP_RECORDS_MAX: usize = 2_048;

/// One frame between agents: a full batch of the largest entries fits. A longer one ends the connection.
pub(super) const FRAME_BYTES_MAX: usize = 32 << 20;

/// Frames waiting for one peer, in bytes. Beyond, they are lost, and said again.
pub(super) const OUTLET_BYTES_MAX: usize = 64 << 20;

/// How long a frame may take to be written to a peer that does not read.
pub(super) const WRITE_TIME_MAX: Duration = Duration::from_secs(10);

/// Calls to one service at a time, besides those of local traffic. Few, because a local request waits behind those that its
/// service has begun: with 64 of them local answers took three times as long, and the queue was worked off no faster.
pub(super) const CALLS_MAX: usize = 16;

/// Idle connections kept to one service.
pub(super) const IDLE_MAX: usize = CALLS_MAX;

/// An answer of a service to a replicated request: kept whole, since it is stored. A longer one counts
/// as an answer without a body.
pub(super) const ANSWER_BYTES_MAX: usize = 128 << 10;

/// Operations whose caller has given credentials again. Beyond, the oldest is forgotten, and waits once more.
pub(super) const RENEWED_MAX: usize = 1_024;

/// How long an operator waits for a change of sites to have its place in the order. Beyond: it may still happen.
pub(super) const ORDER_TIME_MAX: Duration = Duration::from_secs(8);

/// Fields that an adopted resource is taken with: its body is kept in the log like any other. Beyond: it is not adopted.
pub(super) const ADOPTED_BYTES_MAX: usize = BODY_BYTES_MAX;

/// A list read to look for one resource. A longer one tells nothing.
pub(super) const PROBE_BYTES_MAX: usize = 16 << 20;

/// Content that one site gets from another on behalf of an operation: held whole. Larger content has to be brought there by
/// its client; until then the service refuses what names it.
pub(super) const CONTENT_BYTES_MAX: usize = 16 << 20;

/// How long that may take.
pub(super) const CONTENT_TIME_MAX: Duration = Duration::from_secs(30);

/// So many of them at a time, for what they weigh. Others wait.
pub(super) const BRINGS_MAX: usize = 2;

/// After the disk refused, how long until the records are read again.
pub(super) const DISK_PAUSE: Duration = Duration::from_millis(500);

/// The longest wait of a shard: a clock of the system that stands still is noticed.
pub(super) const NAP_MAX: Duration = Duration::from_secs(60);

/// The body of a replicated request. It stands in the record of its replicant several times (as it came, as fields, at the gate, as
/// last written), beside headers of up to 64 KiB, and 32 operations may come in one message: all of that has to fit one
/// value (1 MiB) and one batch (8 MiB) of the store. A longer one is a content in a file, if it is not JSON, else 413.
pub const BODY_BYTES_MAX: usize = 32 << 10;

/// What tells local ids from others without a lock, for each service: words of 64 bits, in levels of which each is four times the one before
/// and is begun when that has [`LOCALS_PER_WORD`] ids for each word. 8 KB for the first 4,000 replicants, 2.7 MB for a million; beyond 1.4
/// million the last level takes them all, and more and more answers are read for nothing.
pub(super) const LOCALS_WORDS_FIRST: usize = 1 << 10;
/// See [`LOCALS_WORDS_FIRST`].
pub(super) const LOCALS_LEVELS: usize = 5;
/// See [`LOCALS_WORDS_FIRST`]: 16 bits for an id, of which it takes three.
pub(super) const LOCALS_PER_WORD: usize = 4;
