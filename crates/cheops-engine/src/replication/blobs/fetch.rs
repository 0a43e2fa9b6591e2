//! Getting contents from other sites: asked for chunk by chunk, checked as they come, gone on with
//! after a cut, and from another site if one does not have them or has them wrong.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cheops_blob::limits::CHUNK_BYTES;
use cheops_blob::{BlobError, Partial, Reference};
use cheops_core::{Event, ReplicantId};
use cheops_model::{Mark, SiteName};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::links::given_up;
use super::super::shard::Input;
use super::Blobs;
use super::frames::{Ask, Form, Reply, ask_frame, read_reply};
use super::limits::{ASKS_MAX, FRAME_TIME_MAX, PAUSE, TOLD_EVERY};

/// One content that is being fetched.
pub(super) struct Fetch {
    /// Who waits for it.
    waiting: BTreeSet<ReplicantId>,
    /// Who may have it.
    from: BTreeSet<SiteName>,
    /// How much is here.
    pub(super) bytes: Arc<AtomicU64>,
    /// Why it does not move.
    pub(super) trouble: Option<&'static str>,
    task: Option<JoinHandle<()>>,
}

/// How a conversation with one site ended.
enum End {
    Whole,
    /// It does not have it.
    Missing,
    /// What it said is not that content.
    Wrong,
    /// There is no room here.
    NoRoom,
    /// The link, or the disk, failed for now.
    Broken(io::Error),
}

impl From<io::Error> for End {
    fn from(fault: io::Error) -> End {
        End::Broken(fault)
    }
}

impl From<BlobError> for End {
    fn from(fault: BlobError) -> End {
        match fault {
            BlobError::Full => End::NoRoom,
            BlobError::Damaged(_) | BlobError::TooLong => End::Wrong,
            BlobError::Io(fault) => End::Broken(fault),
        }
    }
}

impl Blobs {
    /// Gets a content from any of these sites, sooner or later, and hurries `waiting` when it is here.
    pub(in super::super) fn want(
        &self,
        of: Reference,
        from: impl IntoIterator<Item = SiteName>,
        waiting: Option<ReplicantId>,
    ) {
        self.mark_used();
        let here = self.0.here.clone();
        let mut fetches = self.fetches();
        let fetch = fetches.entry(of).or_insert_with(|| Fetch {
            waiting: BTreeSet::new(),
            from: BTreeSet::new(),
            bytes: Arc::default(),
            trouble: None,
            task: None,
        });
        fetch.waiting.extend(waiting);
        fetch
            .from
            .extend(from.into_iter().filter(|site| *site != here));
        if fetch.task.is_none() {
            let (blobs, bytes) = (self.clone(), fetch.bytes.clone());
            fetch.task = Some(self.runtime().spawn(blobs.fetch(of, bytes)));
        }
    }

    /// Ends what nobody needs any more.
    pub(super) fn stop_fetching(&self, is_needed: impl Fn(&Reference) -> bool) {
        self.fetches().retain(|of, fetch| {
            let stays = is_needed(of);
            if let (false, Some(task)) = (stays, &fetch.task) {
                task.abort();
            }
            stays
        });
    }

    async fn fetch(self, of: Reference, bytes: Arc<AtomicU64>) {
        let Ok(_turn) = self.0.fetching.acquire().await else {
            return;
        };
        let store = self.0.store.clone();
        let mut pause = PAUSE.0;
        let mut partial = None;
        loop {
            if partial.is_none() {
                // What is there from before is read again: that may take a while.
                let store = store.clone();
                let opened = tokio::task::spawn_blocking(move || store.partial(of)).await;
                partial = opened.ok().and_then(Result::ok);
            }
            let Some(got) = partial.as_mut() else {
                tokio::time::sleep(PAUSE.1).await;
                continue;
            };
            let before = got.bytes();
            bytes.store(before, Ordering::Relaxed);
            let trouble = match self.round(got, &bytes).await {
                End::Whole => break,
                End::Missing => Some("no site in reach has its content"),
                End::Wrong => Some("what came of its content was wrong"),
                End::NoRoom => Some("no room for its content on this site's disk"),
                End::Broken(fault) => {
                    tracing::debug!(%of, %fault, "a content broke off");
                    None
                }
            };
            pause = match got.bytes() > before {
                true => PAUSE.0,
                false => (pause * 2).min(PAUSE.1),
            };
            self.set_trouble(of, trouble);
            tokio::time::sleep(pause).await;
        }
        let Some(partial) = partial else { return };
        let finish = move || match store.has(of) {
            // A client has brought it meanwhile.
            true => Ok(()),
            false => partial.finish().map(drop),
        };
        let finished = tokio::task::spawn_blocking(finish).await;
        let waiting = self.fetches().remove(&of).map(|fetch| fetch.waiting);
        if let Ok(Err(fault)) = finished {
            tracing::warn!(%of, %fault, "a content could not be kept; it is fetched again");
        } else {
            tracing::debug!(%of, "a content is here");
            self.tell(of, &self.0.here, of.bytes, "whole");
        }
        self.hurry(waiting.into_iter().flatten());
        self.0.nudge.notify_one();
    }

    /// Asks one site after the other, the nearest first.
    async fn round(&self, partial: &mut Partial, bytes: &AtomicU64) -> End {
        let of = partial.reference();
        if self.0.store.has(of) {
            return End::Whole;
        }
        let mut worst = End::Missing;
        for site in self.sources(of) {
            match self.converse(&site, partial, bytes).await {
                Ok(()) => return End::Whole,
                Err(end @ (End::NoRoom | End::Whole)) => return end,
                Err(End::Missing) => (),
                Err(End::Wrong) => {
                    tracing::warn!(%of, %site, "what it sent is not that content");
                    self.0.counters.wrong();
                    worst = End::Wrong;
                }
                Err(End::Broken(fault)) => worst = End::Broken(fault),
            }
        }
        worst
    }

    /// Who may have it and is in reach, the nearest first.
    fn sources(&self, of: Reference) -> Vec<SiteName> {
        let picture = self.0.pictures.borrow().clone();
        let from = self.fetches().get(&of).map(|fetch| fetch.from.clone());
        let mut from: Vec<SiteName> = from.into_iter().flatten().collect();
        from.retain(|site| picture.mark(site) == Mark::Connected);
        from.sort_by_key(|site| self.trip(site).unwrap_or(Duration::MAX));
        from
    }

    fn trip(&self, site: &SiteName) -> Option<Duration> {
        let picture = self.0.pictures.borrow();
        let known = picture.view.sites.get(site)?;
        known.rtt.as_ref().map(|rtt| rtt.value)
    }

    /// Gets what is left from one site; returns when all of it is here.
    async fn converse(
        &self,
        site: &SiteName,
        partial: &mut Partial,
        bytes: &AtomicU64,
    ) -> Result<(), End> {
        let dialed = self.0.dialer.dial_blob(site).await;
        let stream = dialed.map_err(|error| End::Broken(io::Error::other(error.to_string())))?;
        let mut pictures = self.0.pictures.clone();
        tokio::select! {
            got = self.get(stream, site, partial, bytes) => got,
            () = given_up(&mut pictures, site) => Err(End::Broken(io::ErrorKind::TimedOut.into())),
        }
    }

    async fn get<S>(
        &self,
        stream: S,
        site: &SiteName,
        partial: &mut Partial,
        bytes: &AtomicU64,
    ) -> Result<(), End>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let of = partial.reference();
        let (mut reader, mut writer) = tokio::io::split(stream);
        if partial.needs_sums() {
            writer.write_all(&ask_frame(&Ask::Sums(of))).await?;
            writer.flush().await?;
            let sums = plain(heard(&mut reader).await?)?;
            partial.set_sums(&sums)?;
        }
        let form = self.form();
        let last = of.bytes.div_ceil(CHUNK_BYTES as u64).max(1);
        let mut window = Window::new();
        let mut asked = partial.next().unwrap_or(last);
        let mut told = Instant::now();
        while let Some(next) = partial.next() {
            let upto = last.min(next + window.size(self.trip(site)) as u64);
            let mut asks = Vec::new();
            while asked < upto {
                let index = asked;
                asks.extend(ask_frame(&Ask::Chunk { of, index, form }));
                asked += 1;
            }
            writer.write_all(&asks).await?;
            writer.flush().await?;
            let reply = heard(&mut reader).await?;
            self.0.counters.received(&reply);
            partial.put(&plain(reply)?)?;
            bytes.store(partial.bytes(), Ordering::Relaxed);
            if told.elapsed() >= TOLD_EVERY {
                told = Instant::now();
                self.set_trouble(of, None);
                self.tell(of, &self.0.here, partial.bytes(), "coming");
            }
        }
        Ok(())
    }

    fn set_trouble(&self, of: Reference, trouble: Option<&'static str>) {
        let mut fetches = self.fetches();
        let Some(fetch) = fetches.get_mut(&of) else {
            return;
        };
        if fetch.trouble != trouble {
            fetch.trouble = trouble;
            let bytes = fetch.bytes.load(Ordering::Relaxed);
            drop(fetches);
            if let Some(why) = trouble {
                tracing::warn!(%of, why, "a content does not come");
                self.tell(of, &self.0.here, bytes, "stuck");
            }
        }
    }

    /// What waits for a content may go on.
    fn hurry(&self, waiting: impl Iterator<Item = ReplicantId>) {
        let Some(inboxes) = self.0.inboxes.get() else {
            return;
        };
        for id in waiting {
            let inbox = &inboxes[id.0 as usize % inboxes.len()];
            let _ = inbox.put(Input::Event(Box::new(Event::Hurry(id))));
        }
    }

    fn form(&self) -> Form {
        match self.settings().compress {
            true => Form::Zstd,
            false => Form::Plain,
        }
    }
}

async fn heard<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Reply> {
    timeout(FRAME_TIME_MAX, read_reply(reader)).await?
}

fn plain(reply: Reply) -> Result<Vec<u8>, End> {
    match reply {
        Reply::Bytes(bytes) => Ok(bytes),
        // What does not open, or opens to more than a chunk, is wrong.
        Reply::Packed(packed) => {
            zstd::bulk::decompress(&packed, CHUNK_BYTES).map_err(|_| End::Wrong)
        }
        Reply::Missing => Err(End::Missing),
    }
}

/// How many chunks are asked for ahead: as many as may be, while the round trips of the link, which are
/// measured beside it, stay as they were. So a content takes what nobody else wants.
struct Window {
    size: usize,
    /// The shortest round trip seen.
    base: Option<Duration>,
    /// The one that was last looked at.
    last: Option<Duration>,
}

impl Window {
    fn new() -> Window {
        Window {
            size: 2,
            base: None,
            last: None,
        }
    }

    fn size(&mut self, trip: Option<Duration>) -> usize {
        let Some(trip) = trip.filter(|trip| self.last != Some(*trip)) else {
            return self.size;
        };
        self.last = Some(trip);
        let base = *self
            .base
            .insert(self.base.map_or(trip, |base| base.min(trip)));
        self.size = match trip > base + base / 2 + Duration::from_millis(2) {
            true => (self.size / 2).max(1),
            false => (self.size + 1).min(ASKS_MAX),
        };
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_takes_less_of_a_link_whose_round_trips_grow() {
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        let mut window = Window::new();
        assert_eq!(window.size(None), 2);
        for trip in 20..40 {
            window.size(Some(Duration::from_micros(trip * 1_000 / 2 + 10_000)));
        }
        assert_eq!(window.size(ms(21)), ASKS_MAX);
        assert_eq!(window.size(ms(90)), ASKS_MAX / 2);
        assert_eq!(
            window.size(ms(90)),
            ASKS_MAX / 2,
            "nothing was measured since"
        );
        assert_eq!(window.size(ms(91)), 2);
        assert_eq!(window.size(ms(92)), 1);
        assert_eq!(window.size(ms(93)), 1);
        assert_eq!(window.size(ms(22)), 2);
    }

    #[test]
    fn what_does_not_open_is_wrong() {
        let chunk = vec![7; CHUNK_BYTES];
        let packed = zstd::bulk::compress(&chunk, 1).unwrap();
        assert!(plain(Reply::Packed(packed)).is_ok_and(|plain| plain == chunk));
        assert!(matches!(
            plain(Reply::Packed(vec![1, 2, 3])),
            Err(End::Wrong)
        ));
        let bomb = zstd::bulk::compress(&vec![0; CHUNK_BYTES + 1], 1).unwrap();
        assert!(matches!(plain(Reply::Packed(bomb)), Err(End::Wrong)));
        assert!(matches!(plain(Reply::Missing), Err(End::Missing)));
    }
}
