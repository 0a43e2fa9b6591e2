//! The core of replication made real: threads that own replicants, a disk below them, links to the
//! other sites, calls to the services of this one.
//!
//! A request is handed in with [`Replication::submit`]; whether an id is a replicant at all is asked
//! of the [`Index`], which costs ordinary requests next to nothing. `shard` is the run loop: what the
//! core wants written is durable before what it wants said is said. `links` carries messages between
//! agents, `caller` runs operations on the local service, `disk` and `seal` keep records encrypted.
//! What a replica does next is not decided here but in cheops-core.

pub mod api;
mod aside;
mod blobs;
mod caller;
mod disk;
mod http;
mod index;
mod limits;
mod links;
mod mint;
pub mod populate;
mod replaced;
mod reread;
mod seal;
mod shard;
mod wire;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cheops_core::eventual::{Glance, Tuning};
use cheops_core::operation::Form;
use cheops_core::{Answer, Event, MeshKey, Operation, OperationId, ReplicantId, Site, Submission};
use cheops_model::SiteName;
use cheops_rest::Api;
use cheops_store::sqlite::SqliteStore;
use cheops_store::{Opening, StoreError};
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use tokio::sync::{oneshot, watch};

pub use blobs::{BlobSettings, Intake, NotKept, Room, Valve};
pub use cheops_blob::Reference;
pub use index::{Index, Known, Population};
pub use limits::BODY_BYTES_MAX;
pub use mint::{lasting_id, passing_id, unix_ms};
pub use replaced::Replaced;
pub use shard::NotTaken;
pub use wire::{Asked, Carried, Content, ENTRY, FOREIGN, HOMES, Replied, decode, encode};

use crate::events::Bus;
use crate::identity::MeshSecret;
use crate::mesh::{Accepted, Dialer};
use crate::picture::Picture;
use crate::registry::Endpoints;
use aside::Aside;
use blobs::{Blobs, BlobsConfig};
use caller::{Caller, CallerParts};
use disk::{Disk, DiskFault, Past};
use limits::SHARDS;
use links::Outlets;
use seal::Seal;
use shard::{Inbox, Input, Seed};

/// What the keys of ids are made for.
const IDS: &str = "cheops ids of replicants";

/// A service whose resources may be replicated.
pub struct ReplicatedService {
    /// Its registered name.
    pub name: String,
    /// What has to be known of its API.
    pub api: Arc<Api>,
    /// Where it is.
    pub endpoints: watch::Receiver<Arc<Endpoints>>,
    /// How long it may take to answer.
    pub deadline: Duration,
}

/// Takes the scope (`X-Scope`, and [`ENTRY`]) off a call to this service that is about to be made from a
/// log, and gives it to the service the way that one wants it; tells what is to be restored in the answer.
pub type Carry = Arc<dyn Fn(&str, &mut HeaderMap) -> Vec<Replaced> + Send + Sync>;

/// Hears of a call that is about to be made from a log: what was logged of where the values it
/// shows are at home, and its headers.
pub type Shown = Arc<dyn Fn(&HeaderValue, &HeaderMap) + Send + Sync>;

/// What replication starts from.
pub struct ReplicationConfig {
    /// This site.
    pub here: SiteName,
    /// Where the records are; a folder of its own is made below it.
    pub data_dir: PathBuf,
    /// Of the mesh.
    pub secret: MeshSecret,
    /// The services of this site.
    pub services: Vec<ReplicatedService>,
    /// To other agents.
    pub dialer: Dialer,
    /// Who is in reach.
    pub pictures: watch::Receiver<Arc<Picture>>,
    /// Patience.
    pub tuning: Tuning,
    /// Of contents too long for a log.
    pub blobs: BlobSettings,
    /// Where it is told how they move.
    pub events: Bus,
    /// Told of every call before it is made.
    pub shown: Shown,
    /// How services get the scope of an operation.
    pub carry: Carry,
}

/// Why replication does not start. Stop the agent: acknowledged operations may be on that disk.
#[derive(Debug, thiserror::Error)]
pub enum ReplicationError {
    /// The records cannot be used.
    #[error("{}: {why}", path.display())]
    Store {
        /// The folder.
        path: PathBuf,
        /// What is wrong, and what can be done.
        why: String,
    },
}

/// Replication on this site. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub struct Replication(Arc<Inner>);

struct Inner {
    started: Instant,
    counters: api::Counters,
    key: MeshKey,
    index: Arc<Index>,
    inboxes: Arc<[Inbox]>,
    threads: std::sync::Mutex<Vec<JoinHandle<()>>>,
    pictures: watch::Receiver<Arc<Picture>>,
    caller: Caller,
    here: SiteName,
    /// One at a time, so that nothing is adopted twice.
    adopting: tokio::sync::Mutex<()>,
    blobs: Blobs,
    /// Makes the calls and carries the links.
    aside: Aside,
}

impl Replication {
    /// Reads the records and starts the threads.
    pub fn start(config: ReplicationConfig) -> Result<Replication, ReplicationError> {
        let folder = config.data_dir.join("store");
        let broken = |why: String| ReplicationError::Store {
            path: folder.clone(),
            why,
        };
        let others = others(&config.pictures.borrow());
        let opened = open(&folder, &others).map_err(|fault| broken(worded(fault)))?;
        let (disk, life, opening) = opened;
        if opening.is_new_incarnation() && life > 1 {
            tracing::warn!(%opening, "the records are of an earlier time: other sites are asked what was done since");
        }
        let aside = Aside::start("replication").map_err(|fault| broken(fault.to_string()))?;
        let runtime = aside.runtime();
        let key = MeshKey::new(config.secret.key_for(IDS));
        let index = Arc::new(Index::new(key.clone()));
        let contents = config.data_dir.join("blobs");
        let blobs = Blobs::start(BlobsConfig {
            here: config.here.clone(),
            folder: &contents,
            settings: config.blobs,
            dialer: config.dialer.clone(),
            pictures: config.pictures.clone(),
            events: config.events,
        });
        let blobs = blobs.map_err(|fault| ReplicationError::Store {
            path: contents.clone(),
            why: fault.to_string(),
        })?;
        let parts = CallerParts {
            here: config.here.clone(),
            index: index.clone(),
            key: key.clone(),
            runtime: runtime.clone(),
            dialer: config.dialer.clone(),
            pictures: config.pictures.clone(),
            blobs: blobs.clone(),
            shown: config.shown,
            carry: config.carry,
        };
        let caller = Caller::new(parts, config.services);
        let outlets = Outlets::new(config.dialer, config.pictures.clone(), runtime.clone());
        let disk = Arc::new(disk);
        let started = Instant::now();
        let (mut inboxes, mut threads, mut seeds) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..SHARDS {
            let seed = Seed {
                number,
                started,
                here: config.here.clone(),
                key: key.clone(),
                tuning: config.tuning.clone(),
                incarnation: life,
                peers: others.clone(),
                pictures: config.pictures.clone(),
                disk: disk.clone(),
                index: index.clone(),
                outlets: outlets.clone(),
                caller: caller.clone(),
            };
            seeds.push(seed);
        }
        // Each reads its own records: with many of them, as fast as the machine allows.
        let started_shards = std::thread::scope(|scope| {
            let start = |seed| {
                scope.spawn(move || {
                    let _entered = runtime.enter();
                    shard::start(seed)
                })
            };
            let starting: Vec<_> = seeds.into_iter().map(start).collect();
            let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                let stopped = || Err(DiskFault::Unusable("a shard did not start".to_owned()));
                thread.join().unwrap_or_else(|_| stopped())
            };
            starting.into_iter().map(ended).collect::<Vec<_>>()
        });
        for shard in started_shards {
            let (inbox, thread) = shard.map_err(|fault| broken(worded(fault)))?;
            inboxes.push(inbox);
            threads.push(thread);
        }
        let inboxes: Arc<[Inbox]> = inboxes.into();
        runtime.spawn(links::follow(config.pictures.clone(), inboxes.clone()));
        blobs.attend(inboxes.clone());
        Ok(Replication(Arc::new(Inner {
            started,
            counters: api::Counters::default(),
            key,
            index,
            inboxes,
            threads: threads.into(),
            pictures: config.pictures,
            caller,
            here: config.here,
            adopting: tokio::sync::Mutex::default(),
            blobs,
            aside,
        })))
    }

    /// Which ids are replicants.
    pub fn index(&self) -> &Arc<Index> {
        &self.0.index
    }

    /// Makes and recognises ids.
    pub fn key(&self) -> &MeshKey {
        &self.0.key
    }

    /// Asks for an operation; returns what its client is to hear.
    pub async fn submit(&self, submission: Submission) -> Result<Answer, NotTaken> {
        let (reply, answer) = oneshot::channel();
        let inbox = self.inbox(submission.op.replicant);
        let submission = Box::new(submission);
        let answer = match inbox.offer(Input::Submit { submission, reply }) {
            Ok(()) => answer.await.unwrap_or(Err(NotTaken::Stopped)),
            Err(not_taken) => Err(not_taken),
        };
        self.0.counters.count(&answer);
        answer
    }

    /// Takes a content in that is too long for a log; with its length if that was said.
    pub fn take_in(&self, length: Option<u64>) -> Result<Intake, NotKept> {
        self.0.blobs.take_in(length)
    }

    /// Asks for an operation whose content is still coming in. 503 means that this site cannot have it
    /// decided now: it is to be submitted when it is whole.
    pub async fn stream(&self, submission: Submission) -> Result<Answer, NotTaken> {
        let (reply, answer) = oneshot::channel();
        let inbox = self.inbox(submission.op.replicant);
        let submission = Box::new(submission);
        inbox.offer(Input::Stream { submission, reply })?;
        answer.await.unwrap_or(Err(NotTaken::Stopped))
    }

    /// The content of such an operation is whole; `op` is what it is now. After [`Answer::Accepted`] the
    /// service may have the end of it, and its client waits for that long.
    pub async fn complete(&self, op: Operation, wait: Duration) -> Result<Answer, NotTaken> {
        let (reply, answer) = oneshot::channel();
        let inbox = self.inbox(op.replicant);
        let (op, wait_ms) = (Box::new(op), wait.as_millis() as u64);
        inbox.put(Input::Complete { op, wait_ms, reply })?;
        answer.await.unwrap_or(Err(NotTaken::Stopped))
    }

    /// Keeps a content for a while for whoever will ask for it: this site has no part in the operation that names it.
    pub fn hold(&self, intake: Intake) {
        self.0.blobs.hold(intake);
    }

    /// Gives contents to a peer that asks for them.
    pub async fn serve_blobs(&self, accepted: Accepted) {
        let Accepted { peer, stream, .. } = accepted;
        self.0.blobs.serve_peer(peer, stream).await;
    }

    /// From now on this is said of contents.
    pub fn set_blobs(&self, settings: BlobSettings) {
        self.0.blobs.set(settings);
    }

    /// Asks for an operation not to happen. `None` if nothing is known of it.
    pub async fn cancel(&self, op: OperationId) -> Result<Option<Answer>, NotTaken> {
        // The name of a queue does not tell its shard: it has one for each life of the disk.
        let of = move |site: &Site| {
            let view = site.operation(op)?;
            view.replicant.or(view.op.map(|op| op.replicant))
        };
        for inbox in self.0.inboxes.iter() {
            if look_into(inbox, of).await.flatten().is_none() {
                continue;
            }
            let (reply, answer) = oneshot::channel();
            inbox.offer(Input::Cancel { op, reply })?;
            return answer.await.unwrap_or(Err(NotTaken::Stopped)).map(Some);
        }
        Ok(None)
    }

    /// Tells the shard of a replicant what somebody has decided about it.
    pub fn tell(&self, replicant: ReplicantId, event: Event) -> Result<(), NotTaken> {
        self.inbox(replicant).put(Input::Event(Box::new(event)))
    }

    /// Stands for the queue of requests for a service of another site.
    pub fn queue_for(&self, service: &str, site: &SiteName) -> ReplicantId {
        self.0.key.queue_of(&self.0.here, site, service, 0)
    }

    /// Requests that this site holds for a service of another one.
    pub async fn queued_for(&self, service: &str, site: &SiteName) -> u64 {
        let (queue, service, site) = (
            self.queue_for(service, site),
            service.to_owned(),
            site.clone(),
        );
        let waiting = self.look(queue, move |core| {
            let of = |glance: &Glance<'_>| {
                let row = glance.rows().get(&site);
                let row = row.filter(|_| glance.form() == Form::Queue && glance.leads());
                let left = row.filter(|_| glance.service() == service);
                left.map_or(0, |row| glance.last().saturating_sub(row.applied))
            };
            core.awake().map(|glance| of(&glance)).sum()
        });
        waiting.await.unwrap_or(0)
    }

    /// Looks at the state of the shard that owns a replicant. `None` if it has stopped.
    pub async fn look<T: Send + 'static>(
        &self,
        replicant: ReplicantId,
        look: impl FnOnce(&Site) -> T + Send + 'static,
    ) -> Option<T> {
        look_into(self.inbox(replicant), look).await
    }

    /// Looks at the state of every shard.
    pub async fn look_everywhere<T: Send + 'static>(
        &self,
        look: impl Fn(&Site) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let mut seen = Vec::new();
        for inbox in self.0.inboxes.iter() {
            seen.extend(look_into(inbox, look.clone()).await);
        }
        seen
    }

    /// Hears what a peer says about replicants until the link to it is given up.
    pub async fn serve_link(&self, accepted: Accepted) {
        let Accepted { peer, stream, .. } = accepted;
        let mut pictures = self.0.pictures.clone();
        let inboxes = self.0.inboxes.clone();
        let hearing = async move { links::hear(peer, stream, inboxes, &mut pictures).await };
        let hearing = self.0.aside.runtime().spawn(hearing);
        let _ = hearing.await;
    }

    /// Reads a resource of this site's own service, in the ids that clients see.
    pub async fn read_local(&self, known: &Known, create: &Asked) -> Option<LocalAnswer> {
        self.0.caller.read(known, create).await
    }

    /// From now on these are the services of this site.
    pub fn set_services(&self, services: Vec<ReplicatedService>) {
        self.0.caller.set_services(services);
    }

    /// Ends the threads, after what they have begun to write is written.
    pub fn stop(&self) {
        for inbox in self.0.inboxes.iter() {
            let _ = inbox.put(Input::Stop);
        }
        let mut threads = self.0.threads.lock().unwrap_or_else(|e| e.into_inner());
        for thread in threads.drain(..) {
            let _ = thread.join();
        }
        self.0.aside.stop();
        self.0.blobs.stop();
    }

    fn inbox(&self, replicant: ReplicantId) -> &Inbox {
        &self.0.inboxes[replicant.0 as usize % self.0.inboxes.len()]
    }
}

/// What a service answered to a look at one resource.
#[derive(Clone, Debug)]
pub struct LocalAnswer {
    /// As it said.
    pub status: u16,
    /// In meta-ids.
    pub body: Vec<u8>,
    /// Its version, as the service there names it.
    pub etag: Option<String>,
    /// When it was changed, as the service there says.
    pub modified: Option<String>,
}

async fn look_into<T: Send + 'static>(
    inbox: &Inbox,
    look: impl FnOnce(&Site) -> T + Send + 'static,
) -> Option<T> {
    let (seen, answer) = oneshot::channel();
    let look = Input::Look(Box::new(move |site: &Site| {
        // Nobody waits any more if it is not heard.
        let _ = seen.send(look(site));
    }));
    inbox.offer(look).ok()?;
    answer.await.ok()
}

/// Stands for a body that is not JSON among the fields of its operation.
pub fn opaque_reference(body: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(body).to_hex())
}

fn open(folder: &Path, others: &[SiteName]) -> Result<(Disk, u64, Opening), DiskFault> {
    let unusable = |fault: io::Error| DiskFault::Unusable(fault.to_string());
    std::fs::create_dir_all(folder).map_err(unusable)?;
    let opened = aside::standing_back(|| SqliteStore::open(folder)).map_err(unusable)?;
    let store = opened.map_err(|error: StoreError| DiskFault::from(error))?;
    let opening = store.opening();
    let seal = Seal::open(&folder.join("seal.key")).map_err(unusable)?;
    let disk = Disk::new(Arc::new(store), seal);
    let past = match others.is_empty() {
        true => Past::None,
        false => Past::Some,
    };
    let life = disk.life(opening, past)?;
    Ok((disk, life, opening))
}

/// Whom this site knew when it started: whom to ask what an earlier disk of it did.
fn others(picture: &Picture) -> Vec<SiteName> {
    let sites = picture.view.sites.keys();
    sites
        .filter(|site| **site != picture.here)
        .cloned()
        .collect()
}

fn worded(fault: DiskFault) -> String {
    match fault {
        DiskFault::Full => "no room on disk".to_owned(),
        DiskFault::Later(why) | DiskFault::Unusable(why) => why,
    }
}
