//! The data plane as a whole: its threads, how they start, change and stop.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

use cheops_engine::Picture;
use cheops_engine::mesh::{Dialer, MeshAcceptor};
use cheops_engine::replication::Replication;
use tokio::sync::{mpsc, oneshot, watch};

use crate::config::{ListenerConfig, ProxyConfig, ServiceConfig};
use crate::express::Post;
use crate::guard::Guards;
use crate::home::{HomeBook, Homes};
use crate::listen;
use crate::metrics::Metrics;
use crate::passage::Passage;
use crate::worker::Seed;

/// Orders that may wait for one thread; whoever gives more waits.
const ORDERS_MAX: usize = 4;

/// The running data plane.
pub struct Proxy {
    threads: Vec<Thread>,
    metrics: Metrics,
    current: Arc<Generation>,
    book: HomeBook,
    passage: Passage,
}

struct Thread {
    handle: JoinHandle<()>,
    orders: mpsc::Sender<Order>,
}

/// Why the data plane could not start, or not change.
#[derive(Debug)]
pub enum ProxyError {
    /// No thread or runtime could be had.
    Thread(io::Error),
    /// A listener could not be had.
    Bind {
        /// The key that asks for it.
        key: String,
        /// Its address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// What cannot change while it runs.
    Fixed(&'static str),
    /// It is stopping.
    Stopped,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyError::Thread(error) => write!(f, "cannot start a thread: {error}"),
            ProxyError::Bind {
                key,
                address,
                source,
            } => write!(
                f,
                "key `{key}`: cannot listen on {address}; is the port taken? {source}"
            ),
            ProxyError::Fixed(key) => write!(f, "key `{key}` changes with a restart only"),
            ProxyError::Stopped => write!(f, "the agent is stopping"),
        }
    }
}

impl std::error::Error for ProxyError {}

/// What the data plane needs of the engine.
#[derive(Clone)]
pub struct Links {
    /// The world as it is, and its changes.
    pub picture: watch::Receiver<Arc<Picture>>,
    /// To other agents.
    pub dialer: Dialer,
    /// From other agents.
    pub acceptor: MeshAcceptor,
    /// Resources on several sites.
    pub replication: Replication,
    /// Where values such as tokens are at home.
    pub homes: HomeBook,
    /// How scopes are carried to services.
    pub passage: Passage,
}

/// Bound sockets, one of each per thread.
pub struct Sockets {
    /// For each listener, in the order of the configuration.
    listeners: Vec<Vec<StdListener>>,
    /// For other agents.
    mesh: Vec<StdListener>,
}

impl Sockets {
    /// Binds the listeners of clients, and the one of other agents.
    pub fn bind(
        listeners: &[ListenerConfig],
        mesh: SocketAddr,
        threads: usize,
    ) -> Result<Sockets, ProxyError> {
        let listeners = listeners.iter().map(|listener| bind(listener, threads));
        Ok(Sockets {
            listeners: listeners.collect::<Result<_, _>>()?,
            mesh: bind_key("mesh.listen", mesh, threads)?,
        })
    }
}

fn bind(listener: &ListenerConfig, threads: usize) -> Result<Vec<StdListener>, ProxyError> {
    bind_key(&listener.key, listener.address, threads)
}

fn bind_key(
    key: &str,
    address: SocketAddr,
    threads: usize,
) -> Result<Vec<StdListener>, ProxyError> {
    listen::bind(address, threads).map_err(|source| ProxyError::Bind {
        key: key.to_owned(),
        address,
        source,
    })
}

/// What every thread works by, from one change of the configuration to the next.
pub(crate) struct Generation {
    pub(crate) config: ProxyConfig,
    /// For each listener: stays the same for as long as its socket does.
    pub(crate) listener_ids: Vec<u64>,
    pub(crate) homes: Vec<Arc<Homes>>,
    /// For each service.
    pub(crate) guards: Vec<Arc<Guards>>,
}

impl Generation {
    fn first(config: ProxyConfig, book: &HomeBook) -> Generation {
        let listener_ids = (0..config.listeners.len() as u64).collect();
        Generation {
            listener_ids,
            homes: book.all(),
            guards: config.services.iter().map(|s| guards(s, None)).collect(),
            config,
        }
    }

    /// The next one; what stays as it was keeps what it knows.
    fn next(&self, config: ProxyConfig, book: &HomeBook) -> Generation {
        let mut next_id = self.listener_ids.iter().max().map_or(0, |id| id + 1);
        let mut fresh = || {
            next_id += 1;
            next_id - 1
        };
        let ids = config.listeners.iter();
        let ids = ids.map(|listener| self.id_of(listener).unwrap_or_else(&mut fresh));
        let before = |service: &ServiceConfig| {
            let services = self.config.services.iter();
            let place = services.clone().position(|s| s.name == service.name)?;
            self.guards.get(place)
        };
        Generation {
            listener_ids: ids.collect(),
            homes: book.next(&config),
            guards: config
                .services
                .iter()
                .map(|service| guards(service, before(service)))
                .collect(),
            config,
        }
    }

    /// Two that leave the port to the system are told apart by their keys.
    fn id_of(&self, wanted: &ListenerConfig) -> Option<u64> {
        let same = |have: &ListenerConfig| {
            have.address == wanted.address && (wanted.address.port() != 0 || have.key == wanted.key)
        };
        let place = self.config.listeners.iter().position(same)?;
        self.listener_ids.get(place).copied()
    }
}

fn guards(service: &ServiceConfig, before: Option<&Arc<Guards>>) -> Arc<Guards> {
    let (local, remote) = (&service.local, &service.remote);
    match before.filter(|guards| guards.have(local, remote)) {
        Some(same) => same.clone(),
        None => Arc::new(Guards::new(local, remote)),
    }
}

/// A change of the configuration, for one thread.
pub(crate) struct Order {
    pub(crate) generation: Arc<Generation>,
    /// The new sockets, by the ids of their listeners.
    pub(crate) sockets: Vec<(u64, StdListener)>,
    pub(crate) done: oneshot::Sender<()>,
}

impl Proxy {
    /// Starts the threads. They stop, after ending what is open, when `stop` becomes true.
    pub fn start(
        config: ProxyConfig,
        sockets: Sockets,
        links: Links,
        stop: watch::Receiver<bool>,
    ) -> Result<Proxy, ProxyError> {
        let metrics = Metrics::new(config.threads.get());
        let generation = Arc::new(Generation::first(config, &links.homes));
        let correlation = links.passage.correlation();
        let (open, seated) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut threads = Vec::new();
        let mut listeners: Vec<_> = sockets.listeners.into_iter().map(Vec::into_iter).collect();
        let post = Post::new();
        for (index, mesh) in sockets.mesh.into_iter().enumerate() {
            let (orders, receiver) = mpsc::channel(ORDERS_MAX);
            let own = listeners.iter_mut().filter_map(Iterator::next);
            let own = generation.listener_ids.iter().copied().zip(own);
            let seed = Seed {
                index,
                generation: generation.clone(),
                links: links.clone(),
                correlation: correlation.clone(),
                metrics: metrics.clone(),
                stop: stop.clone(),
                open: open.clone(),
                seated: seated.clone(),
                post: post.clone(),
                sockets: own.collect(),
                mesh,
                orders: receiver,
            };
            let thread = std::thread::Builder::new().name(format!("data-{index}"));
            let spawned = thread.spawn(move || seed.run());
            let handle = spawned.map_err(ProxyError::Thread)?;
            threads.push(Thread { handle, orders });
        }
        Ok(Proxy {
            threads,
            metrics,
            current: generation,
            book: links.homes,
            passage: links.passage,
        })
    }

    /// Works by another configuration from now on. A listener whose address stays is kept with all
    /// its connections; those of one that goes end with their current requests. On an error nothing
    /// has changed.
    pub async fn reload(&mut self, config: ProxyConfig) -> Result<(), ProxyError> {
        if config.here != self.current.config.here {
            return Err(ProxyError::Fixed("site"));
        }
        if config.threads != self.current.config.threads {
            return Err(ProxyError::Fixed("threads"));
        }
        let next = Arc::new(self.current.next(config, &self.book));
        let mut sockets = self.bind_new(&next)?;
        self.book.turn_to(next.homes.clone());
        self.passage.turn_to(&next.config);
        let mut all_done = Vec::new();
        for thread in &self.threads {
            let own = sockets
                .iter_mut()
                .filter_map(|(id, sockets)| Some((*id, sockets.next()?)));
            let (done, is_done) = oneshot::channel();
            let order = Order {
                generation: next.clone(),
                sockets: own.collect(),
                done,
            };
            let sent = thread.orders.send(order).await;
            sent.map_err(|_| ProxyError::Stopped)?;
            all_done.push(is_done);
        }
        self.current = next;
        for is_done in all_done {
            is_done.await.map_err(|_| ProxyError::Stopped)?;
        }
        Ok(())
    }

    fn bind_new(
        &self,
        next: &Generation,
    ) -> Result<Vec<(u64, std::vec::IntoIter<StdListener>)>, ProxyError> {
        let threads = self.threads.len();
        let listeners = next.listener_ids.iter().zip(&next.config.listeners);
        let new = listeners.filter(|(id, _)| !self.current.listener_ids.contains(id));
        new.map(|(id, listener)| Ok((*id, bind(listener, threads)?.into_iter())))
            .collect()
    }

    /// The counters.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Waits until every thread has ended.
    pub fn join(self) {
        for thread in self.threads {
            let _ = thread.handle.join();
        }
    }
}
