//! Bounds of the data plane, each with its reason and what happens at it.

use std::time::Duration;

/// Scopes remembered per service and thread; beyond it the least used are read again.
pub const MEMO_SCOPES: usize = 1024;

/// Body bytes kept for a second try. A longer body gets one try.
pub const REPLAY_BYTES_MAX: usize = 1024 * 1024;

/// Calls that services may make of each other in one workflow; a 17th is answered 508.
pub const HOPS_MAX: u32 = 16;

/// Sites one request may pass through; also the length of the visited-site list.
pub const VISITED_MAX: usize = 16;

/// Correlations remembered per agent; beyond it the oldest are forgotten.
pub const CORRELATIONS_MAX: usize = 262_144;

/// How long a correlation is remembered: services call out long after they answered.
pub const CORRELATION_AGE_MAX: Duration = Duration::from_secs(3600);

/// The longest header value that is remembered or made for correlation.
pub const CORRELATION_BYTES_MAX: usize = 256;

/// Values whose home is remembered, per home site; beyond it the oldest are forgotten, and learnt
/// again with the next request that shows them.
pub const HOMES_MAX: usize = 65_536;

/// How long a home is remembered: as long as tokens usually live. Half of it at least since the
/// value was last shown.
pub const HOME_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Idle connections kept per service endpoint and thread; further ones are closed.
pub const IDLE_CONNECTIONS_MAX: usize = 256;

/// How often idle connections are looked at that a service may have closed: one whose service ends
/// them after five seconds, as some do, holds few descriptors too many.
pub const TIDY_EVERY: Duration = Duration::from_secs(1);

/// Requests of a service that go by the HTTP library after an answer that is not plain: to find that
/// out costs as much as a request, and most services answer the next one alike.
pub const DETOURS: u32 = 256;

/// A service that takes longer to answer is waited for asleep.
pub const LOOKOUT_TIME_MAX: Duration = Duration::from_micros(100);

/// Buffers of a thread that are kept for the next slow reader; further ones are given up.
pub const SPARE_BUFFERS_MAX: usize = 8;

/// How long connecting to this site's own service may take, unless told otherwise.
pub const CONNECT_TIME: Duration = Duration::from_secs(2);

/// How long a client may ask nothing, the time it takes to send the head of a request included,
/// unless told otherwise.
pub const CLIENT_IDLE_TIME: Duration = Duration::from_secs(60);

/// How long an HTTP/1 client asks nothing until its connection gives up its buffers: clients that
/// ask again and again do so sooner, and for others the few microseconds do not count.
pub const REST_AFTER: Duration = Duration::from_secs(1);

/// Connections of clients at the same time, unless told otherwise: with one to a service for each,
/// what a process may usually open.
pub const CLIENT_CONNECTIONS: usize = 16_384;

/// Calls of one service at one other site at the same time, unless told otherwise: what a slow site
/// can hold here.
pub const REMOTE_CONCURRENCY: u32 = 1024;

/// Calls in a row without an answer until one service at one other site is left alone for
/// [`REMOTE_PAUSE`], unless told otherwise.
pub const REMOTE_FAILURES: u32 = 16;
/// See [`REMOTE_FAILURES`]: how soon a site that is back has to be used again.
pub const REMOTE_PAUSE: Duration = Duration::from_secs(1);

/// How much of a refused request's body is read, and for how long, so that its connection can be
/// used again; a longer or slower one costs the connection.
pub const SKIP_BYTES_MAX: usize = 64 * 1024;
/// See [`SKIP_BYTES_MAX`].
pub const SKIP_TIME_MAX: Duration = Duration::from_secs(1);

/// Bytes of a request's head; more is answered 431.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a service's answer that are held at once for a slow reader, or until all of it can be looked through for ids of
/// replicants (a longer one is left to the HTTP library), and the longest head of one.
pub const SERVICE_BUFFER_BYTES_MAX: usize = 128 * 1024;

/// Bytes of a body that are copied behind their head, so that both go by a plain write.
pub const JOINED_BYTES_MAX: usize = 4 * 1024;

/// Bytes of a body still to come for which a pipe of the kernel is used: to copy fewer costs as much as
/// the two further calls. Also the smallest pipe: a smaller one would take more calls than copying.
pub const PIPED_BYTES_MIN: usize = 64 * 1024;

/// What passes through a pipe at once, and what a slow reader can leave in it: the longest that any user may
/// have (`fs.pipe-max-size`), since of those that were measured it costs least. Where the kernel refuses it,
/// a pipe is as long as it comes.
pub const PIPE_BYTES: usize = 1024 * 1024;

/// Pipes of one thread with something in them: 16 MiB of the kernel's memory, which slow readers can hold, a
/// quarter of what the kernel lets one user have (`fs.pipe-user-pages-soft`). Further bodies are copied.
pub const PIPES_MAX: usize = 16;

/// Concurrent requests on one HTTP/2 connection of a client.
pub const CLIENT_STREAMS_MAX: u32 = 256;

/// Concurrent requests on one connection between agents.
pub const PEER_STREAMS_MAX: u32 = 4096;

/// Bytes in flight of one body between agents: enough for 100 MB/s over 20 ms.
pub const PEER_STREAM_WINDOW: u32 = 2 * 1024 * 1024;

/// Bytes in flight of one connection between agents: bounds the memory of a slow reader.
pub const PEER_CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

/// Probes of a connection between agents. Its control link is probed more often and kills it
/// earlier; this is for the rare case that only the one connection is dead.
pub const PEER_PROBE_EVERY: Duration = Duration::from_secs(2);
/// See [`PEER_PROBE_EVERY`].
pub const PEER_PROBE_TIME_MAX: Duration = Duration::from_secs(5);

/// How long another site is asked about an operation or a resource: a person waits for it.
pub const QUESTION_TIME_MAX: Duration = Duration::from_secs(5);

/// The answer to such a question. A longer one counts as none.
pub const QUESTION_BYTES_MAX: usize = 16 << 20;

/// Sites asked at once for what this one has no record of.
pub const QUESTION_SITES_AT_ONCE: usize = 8;

/// Clients of one thread whose question about an operation or a resource is being answered: each may
/// look through all records and make as many calls as there are sites. Beyond: 503.
pub const QUESTIONS_MAX: usize = 16;
