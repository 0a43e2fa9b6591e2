//! Bounds of contents on their way, each with its reason and with what happens at it.

use std::time::Duration;

/// Contents that clients bring at the same time: each has a thread that writes, and some pieces in memory. Beyond: 503.
pub(super) const UPLOADS_MAX: usize = 32;

/// Pieces of such a content between two hands. More are not read from the client.
pub(super) const PIECES_MAX: usize = 4;

/// How long a content is kept for the site that orders it, where this one has no part in it. Afterwards it waits there for
/// what nobody has, and is shown so.
pub(super) const HOLD_TIME: Duration = Duration::from_secs(900);

/// Contents fetched from other sites at the same time; others wait for their turn.
pub(super) const FETCHES_MAX: usize = 2;

/// Chunks asked of one site ahead of the one that is expected: what may be on its way at once, 8 MiB. On a link whose
/// round trips grow it is fewer, down to one.
pub(super) const ASKS_MAX: usize = 8;

/// Connections that serve contents at the same time: each may hold a chunk and what is sent of it. Further ones wait.
pub(super) const SERVED_MAX: usize = 8;

/// The longest frame: the sums of the longest content. A longer one ends the connection.
pub(super) const FRAME_BYTES_MAX: usize = 9 << 20;

/// How long a frame may take, either way.
pub(super) const FRAME_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a peer that asks for nothing keeps its connection.
pub(super) const IDLE_TIME_MAX: Duration = Duration::from_secs(60);

/// Before a content is asked for again, at first and at most.
pub(super) const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// How often something is told of a content that moves.
pub(super) const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Contents and sites of which it is known how much went there; beyond, the oldest are forgotten.
pub(super) const SENT_KEPT_MAX: usize = 256;

/// How often it is looked what is needed and what is not: at the earliest, and in times of what a look takes.
pub(super) const MARK_EVERY: Duration = Duration::from_secs(5);
/// See [`MARK_EVERY`].
pub(super) const MARK_SHARE: u32 = 20;

/// What a link may send at once after it was idle.
pub(super) const BURST_BYTES: u64 = 1 << 20;
