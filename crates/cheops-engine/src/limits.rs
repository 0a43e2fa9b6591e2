//! Every bound of this crate, with its reason.

use std::time::Duration;

/// One control message: a hello of a large mesh fits (see [`KNOWN_BYTES_MAX`]), a flood does not.
pub const CONTROL_BYTES_MAX: usize = 1 << 20;

/// The list of known sites inside a hello. What is over is left out; each agent starts its list
/// after its own name, so that together they still tell everything.
pub const KNOWN_BYTES_MAX: usize = 512 << 10;

/// Sites an agent knows. More are not learnt.
pub const SITES_MAX: usize = 10_000;

/// Services that one site may announce.
pub const SERVICES_MAX: usize = 256;

/// Other names of one service.
pub const ALIASES_MAX: usize = 16;

/// Labels of one site.
pub const LABELS_MAX: usize = 64;

/// An address, a label's key or value, a version: each must fit a line.
pub const TEXT_BYTES_MAX: usize = 256;

/// Addresses under which one site is tried besides the one it announces.
pub const HINTS_MAX: usize = 4;

/// Control connections that one peer may hold here; the newest win. One is in use; another may
/// come while the loss of the first is not yet noticed.
pub const CONTROL_CONNECTIONS_MAX: usize = 4;

/// Reports waiting for the owner of the mesh's state; whoever reports waits when it is full.
pub const EVENTS_MAX: usize = 1024;

/// TCP and TLS towards a peer, together.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// TLS of whoever connects here.
pub const ACCEPT_DEADLINE: Duration = Duration::from_secs(5);

/// Time between two beats on a link.
pub const BEAT_INTERVAL: Duration = Duration::from_millis(500);

/// How long a beat may take. With [`BEAT_INTERVAL`] before it, a dead path is given up after
/// 1.75 s at the latest, which leaves time to answer within the 2 s that are promised.
pub const BEAT_DEADLINE: Duration = Duration::from_millis(1250);

/// How long a hello may take: it may be long, and beats watch the path meanwhile.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// First and longest pause between two tries to reach a peer, from start to start. A peer back in
/// reach is to be found within 2 s.
pub const PAUSE_FIRST: Duration = Duration::from_millis(200);
/// See [`PAUSE_FIRST`].
pub const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Pause after a refusal (another mesh, another protocol, another site): somebody has to act, so
/// haste is of no use.
pub const PAUSE_REFUSED: Duration = Duration::from_secs(5);

/// The shortest pause: a peer that accepts and drops at once must not keep this agent busy.
pub const PAUSE_MIN: Duration = Duration::from_millis(50);

/// How often new round trips and times of contact are published.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// How long two agents of one site name are seen together before it is said: a restart looks the
/// same for a moment.
pub const RIVAL_PATIENCE: Duration = Duration::from_secs(3);

/// Notices kept for listeners that come back. Older ones are gone: they ask for the state itself.
pub const NOTICES_KEPT: usize = 1024;

/// Notices waiting for one listener. Beyond, it loses the oldest and is told how many.
pub const NOTICES_WAITING_MAX: usize = 256;

/// Links beside the tree that one site may declare.
pub const DECLARED_LINKS_MAX: usize = 64;

/// Up to so many known sites, an agent keeps a link to every one. Above, links go to those in use,
/// and datagrams watch the rest.
pub const LINKS_ALL_MAX: usize = 32;

/// How long a link is kept after a connection for requests was last made to its site. Those have
/// probes of their own.
pub const LINK_USED: Duration = Duration::from_secs(300);

/// How long a link is kept that was made to find out about a site.
pub const LINK_ERRAND: Duration = Duration::from_secs(30);

/// Links made at a time to find out about sites.
pub const LINK_ERRANDS_MAX: usize = 16;

/// The longest datagram: one piece on any path.
pub const DATAGRAM_BYTES_MAX: usize = 1400;

/// Datagrams waiting to be sent. Beyond, they are lost, as on any path.
pub const LETTERS_MAX: usize = 512;

/// Datagrams waiting for one link, where they do not get through by themselves.
pub const LINK_DATAGRAMS_MAX: usize = 32;

/// Kinds of refused datagrams that are told of, by sender and reason. Beyond, they are only counted.
pub const REFUSALS_SAID_MAX: usize = 64;

/// Names of hosts whose addresses are remembered. Beyond, all are looked up anew.
pub const NAMES_KEPT: usize = 1024;

/// A clock that goes by more than this differently from the time that passed was set.
pub const CLOCK_JUMP: Duration = Duration::from_secs(30);
