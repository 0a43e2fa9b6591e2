//! Contents too long for a log: kept in files, brought by clients, fetched from other sites, handed to
//! services. A log holds their reference alone.
//!
//! Everything here runs on a thread of its own, with connections of its own: hashing, disks and long
//! transfers hold up neither requests nor what sites tell each other. `intake` takes a client's content
//! in and hands it on to the gate's service meanwhile; `fetch` and `serve` are the two ends of a
//! transfer; `deliver` streams a content to a service; `keep` collects and mends.

mod deliver;
mod fetch;
mod frames;
mod intake;
mod keep;
mod limits;
mod pace;
mod progress;
mod serve;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

pub use cheops_blob::Room;
use cheops_blob::{BlobError, BlobStore, Reader, Reference};
use cheops_model::SiteName;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};

pub(super) use deliver::{ContentBody, Moved};
pub(super) use intake::Fate;
pub use intake::{Intake, NotKept, Valve};
pub(super) use progress::{Arrived, Counters};

use super::aside::Aside;
use super::shard::Inbox;
use crate::events::Bus;
use crate::mesh::Dialer;
use crate::picture::Picture;
use fetch::Fetch;
use intake::Coming;
use limits::{FETCHES_MAX, SERVED_MAX, UPLOADS_MAX};
use pace::Pace;

/// What an operator says of contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobSettings {
    /// What they may take.
    pub room: Room,
    /// Bytes per second to each other site; without a bound if none.
    pub rate: Option<u64>,
    /// Ask other sites to compress what they send here.
    pub compress: bool,
}

/// The contents of this site. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub(super) struct Blobs(Arc<Inner>);

struct Inner {
    here: SiteName,
    store: BlobStore,
    aside: Aside,
    dialer: Dialer,
    pictures: watch::Receiver<Arc<Picture>>,
    events: Bus,
    settings: RwLock<BlobSettings>,
    paces: Mutex<HashMap<SiteName, Arc<Pace>>>,
    uploads: Mutex<HashMap<u128, Coming>>,
    uploading: Arc<Semaphore>,
    fetches: Mutex<HashMap<Reference, Fetch>>,
    fetching: Semaphore,
    serving: Semaphore,
    /// How much of which content went to whom, as it asked for it.
    sent: Mutex<VecDeque<(Reference, SiteName, u64)>>,
    counters: Counters,
    /// To tell what waits for a content that it is here; set once the shards run.
    inboxes: OnceLock<Arc<[Inbox]>>,
    /// It is worth looking what is needed.
    nudge: Notify,
    /// Set once there is any content: without, nobody need look.
    used: AtomicBool,
}

/// What contents start from.
pub(super) struct BlobsConfig<'a> {
    pub(super) here: SiteName,
    pub(super) folder: &'a Path,
    pub(super) settings: BlobSettings,
    pub(super) dialer: Dialer,
    pub(super) pictures: watch::Receiver<Arc<Picture>>,
    pub(super) events: Bus,
}

impl Blobs {
    /// Opens the folder and starts the thread.
    pub(super) fn start(config: BlobsConfig<'_>) -> io::Result<Blobs> {
        let store = BlobStore::open(config.folder, config.settings.room)?;
        let aside = Aside::start("blobs")?;
        let used = AtomicBool::new(store.bytes() > 0);
        Ok(Blobs(Arc::new(Inner {
            here: config.here,
            store,
            aside,
            dialer: config.dialer,
            pictures: config.pictures,
            events: config.events,
            settings: RwLock::new(config.settings),
            paces: Mutex::default(),
            uploads: Mutex::default(),
            uploading: Arc::new(Semaphore::new(UPLOADS_MAX)),
            fetches: Mutex::default(),
            fetching: Semaphore::new(FETCHES_MAX),
            serving: Semaphore::new(SERVED_MAX),
            sent: Mutex::default(),
            counters: Counters::default(),
            inboxes: OnceLock::new(),
            nudge: Notify::new(),
            used,
        })))
    }

    /// From now on the shards can be asked and told.
    pub(super) fn attend(&self, inboxes: Arc<[Inbox]>) {
        if self.0.inboxes.set(inboxes).is_ok() {
            self.runtime().spawn(self.clone().keep());
        }
    }

    /// Where calls with a content are made.
    pub(super) fn runtime(&self) -> &Handle {
        self.0.aside.runtime()
    }

    pub(super) fn set(&self, settings: BlobSettings) {
        self.0.store.set_room(settings.room);
        for pace in self.paces().values() {
            pace.set(settings.rate);
        }
        *self
            .0
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// A content that is here whole. One that is damaged is not: it goes, to be fetched again.
    pub(super) fn reader(&self, of: Reference) -> Option<Reader> {
        match self.0.store.reader(of) {
            Ok(reader) => reader.filter(|_| self.0.store.has(of)),
            Err(fault) => {
                self.note_fault(of, &fault);
                None
            }
        }
    }

    /// What was read is not what it should be.
    pub(super) fn note_fault(&self, of: Reference, fault: &BlobError) {
        tracing::warn!(%of, %fault, "a content cannot be read");
        if matches!(fault, BlobError::Damaged(_)) {
            self.tell(of, &self.0.here, 0, "damaged");
            let _ = self.0.store.discard(of);
        }
        self.0.nudge.notify_one();
    }

    /// Ends the thread; what is under way breaks off.
    pub(super) fn stop(&self) {
        self.0.aside.stop();
    }

    /// Answers a peer that asks for contents, on the thread that is there for it.
    pub(super) async fn serve_peer<S>(&self, peer: SiteName, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let blobs = self.clone();
        let serving = self
            .runtime()
            .spawn(async move { blobs.serve(peer, stream).await });
        let _ = serving.await;
    }

    fn mark_used(&self) {
        self.0.used.store(true, Ordering::Relaxed);
    }

    fn settings(&self) -> BlobSettings {
        let settings = self.0.settings.read();
        settings.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pace(&self, site: &SiteName) -> Arc<Pace> {
        let rate = self.settings().rate;
        let mut paces = self.paces();
        let pace = paces.entry(site.clone());
        pace.or_insert_with(|| Arc::new(Pace::new(rate))).clone()
    }

    fn paces(&self) -> MutexGuard<'_, HashMap<SiteName, Arc<Pace>>> {
        self.0.paces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetches(&self) -> MutexGuard<'_, HashMap<Reference, Fetch>> {
        self.0
            .fetches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn uploads(&self) -> MutexGuard<'_, HashMap<u128, Coming>> {
        self.0
            .uploads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
