//! Bounds and paces of membership, each with its reason.

/// One probe of another site each, so that everybody is probed about once in that time by somebody.
pub const PROBE_EVERY_MS: u64 = 1_000;

/// How long the first answer may take before others are asked: twice the estimated round trip and
/// something for the machine, within these bounds. Links of 300 ms are ordinary.
pub const ANSWER_MS: (u64, u64) = (250, 800);

/// When a probe has failed. Three tries of our own and those of others fit.
pub const PROBE_MS: u64 = 3_000;

/// Tries of a probe over the direct path. With one in seven exchanges lost, as at 7 % loss each
/// way, three fail once in 400.
pub const TRIES: u8 = 3;

/// Others that are asked to try too, with our second and with our third try. A suspicion takes the
/// mark `connected` away everywhere: at 7 % loss a live site is suspected once in 25 million probes.
pub const ASKED: [usize; 2] = [3, 5];

/// The same for a site whose own path to us is known to be cut: only others can vouch for it, and at
/// 7 % loss one in three that are asked cannot be heard.
pub const ASKED_CUT: [usize; 2] = [6, 10];

/// Shortest suspicion, in ms per decimal digit of the number of sites: long enough for a
/// refutation to come around.
pub const SUSPICION_MS: u64 = 1_300;

/// A suspicion that nobody shares lasts that many times longer: a site that loses its own
/// messages must not bury others.
pub const SUSPICION_STRETCH: u64 = 6;

/// Others that must share a suspicion before it is at its shortest.
pub const SUSPICION_SHARED: usize = 3;

/// Each piece of news is sent that many times for each decimal digit of the number of sites.
pub const NEWS_SENDS: u32 = 4;

/// News in one datagram. With the rest it stays below what any path carries in one piece.
pub const NEWS_BYTES_MAX: usize = 900;

/// News waiting to be sent. Beyond, what was sent most often goes: the digest finds what was missed.
pub const NEWS_MAX: usize = 20_000;

/// Places of others told in each datagram: every coordinate comes around, at a pace that costs the
/// same in a mesh of any size.
pub const PLACES_TOLD: usize = 4;

/// Sites that one measures and tells as its nearest. What is within 20 ms of a site is in it, in most
/// meshes; a full list is 110 bytes.
pub const NEAR_MAX: usize = 16;

/// How often one more site is measured because it may be near, besides those that are probed.
pub const NEAR_EVERY_MS: u64 = 3_000;

/// How soon a site is measured again that did not answer.
pub const MEASURE_AGAIN_MS: u64 = 60_000;

/// How much of a round trip that is a little longer than before is believed: most are queues on the way.
pub const LONGER_PACE: f64 = 0.25;

/// Earlier round trips that a place is corrected by with each new one, and how old they may be: places
/// settle with a third of the measurements, and still follow a path that has changed.
pub const LEARN_AGAIN: usize = 2;
/// See [`LEARN_AGAIN`].
pub const LEARN_AGAIN_MS: u64 = 60_000;

/// How far off a measurement is taken to be that somebody else made, relative to it.
pub const NEAR_ERROR: f64 = 0.1;

/// How often what is known is compared with one other site, and how soon again if it differed.
pub const COMPARE_EVERY_MS: u64 = 20_000;
/// See [`COMPARE_EVERY_MS`].
pub const COMPARE_AGAIN_MS: u64 = 1_000;

/// Records in one datagram: it stays in one piece.
pub const RECORDS_BYTES_MAX: usize = 1_000;

/// How often a site believed away is tried: a mesh that fell apart finds itself again.
pub const AWAY_PROBE_EVERY_MS: u64 = 2_000;

/// How long a site that hears nobody goes on believing that it is not alone.
pub const SILENCE_MS: u64 = 5_000;

/// A silence after which this site's own path is in doubt: it has asked somebody each second.
pub const DEAF_MS: u64 = 2_500;

/// Somebody else's words about us are answered at most that often: two agents under one name must
/// not drive each other.
pub const REFUTE_EVERY_MS: u64 = 500;

/// A step later than this was not a slow network: this agent itself stood still.
pub const STOOD_STILL_MS: u64 = 2_000;

/// Probes without a direct answer, while others vouch, before the path counts as cut.
pub const MISSES_TO_CUT: u8 = 2;

/// Sites waiting for the second of these probes. Further ones wait for their turn in the ring: more
/// are missed at a time only where this site's own path is bad.
pub const MISSED_MAX: usize = 16;

/// Probes made for others at a time; further ones are not made, the asker has asked more than one.
pub const ERRANDS_MAX: usize = 256;

/// Sites known. More are not learnt.
pub const MEMBERS_MAX: usize = 10_000;

/// How often a site tells its parent how it is.
pub const REPORT_EVERY_MS: u64 = 5_000;

/// What did not change is told again all the same that often: a message may have been lost.
pub const REPORT_AGAIN_MS: u64 = 60_000;

/// A report so old is of a site that has fallen silent.
pub const REPORT_SILENT_MS: u64 = 20_000;

/// Services told of in one report. Further ones, by name, are left out.
pub const REPORT_SERVICES_MAX: usize = 64;

/// Reports that one site holds and passes up: of as many sites as may be known.
pub const REPORTS_MAX: usize = MEMBERS_MAX;

/// What one message to the parent holds of them: a thousand sites, and well below what one message of
/// a link may hold. The rest follows with the next.
pub const REPORTS_BYTES_MAX: usize = 256 << 10;

/// The longest chain of parents: a longer one is a circle or a mistake.
pub const DEPTH_MAX: usize = 16;

/// Decimal digits of a number of sites, at least 1.
pub(super) fn digits(sites: usize) -> u64 {
    u64::from(sites.max(1).ilog10()) + 1
}
