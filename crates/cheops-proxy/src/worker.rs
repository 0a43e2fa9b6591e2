//! Threads of the data plane: what each owns, how they start and stop.

use std::cell::RefCell;
use std::fmt;
use std::net::TcpListener as StdListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cheops_engine::Picture;
use cheops_engine::mesh::{Dialer, MeshAcceptor};
use cheops_engine::replication::Replication;
use cheops_model::{ServiceName, SiteName};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::backend::Backend;
use crate::carrier::Carrier;
use crate::config::{ProxyConfig, Rule, ServiceConfig};
use crate::correlation::Correlation;
use crate::headers::Stamps;
use crate::home::Homes;
use crate::listen;
use crate::metrics::{Metrics, ServiceCounters};
use crate::peer::Peers;
use crate::replicate::Replicas;
use crate::scope::Decider;
use crate::sweep::Sweep;

/// How long open requests may take to end once the agent was told to stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(8);

/// The running data plane.
pub struct Proxy {
    threads: Vec<JoinHandle<()>>,
    metrics: Metrics,
}

/// Why the data plane could not start.
#[derive(Debug)]
pub enum ProxyError {
    /// No thread or runtime could be had.
    Thread(std::io::Error),
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyError::Thread(error) => write!(f, "cannot start a thread: {error}"),
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
}

/// Bound sockets, one of each per thread.
pub struct Sockets {
    /// For each service, in the order of the configuration.
    pub services: Vec<Vec<StdListener>>,
    /// For other agents.
    pub mesh: Vec<StdListener>,
}

impl Proxy {
    /// Starts the threads. They stop, after ending what is open, when `stop` becomes true.
    pub fn start(
        config: ProxyConfig,
        sockets: Sockets,
        links: Links,
        stop: watch::Receiver<bool>,
    ) -> Result<Proxy, ProxyError> {
        let config = Arc::new(config);
        let threads = config.threads.get();
        let names = config
            .services
            .iter()
            .map(|service| service.name.to_string());
        let metrics = Metrics::new(names, threads);
        let correlation = Arc::new(Correlation::new());
        let open = Arc::new(AtomicUsize::new(0));
        let homes = homes(&config);
        let mut handles = Vec::new();
        let mut services: Vec<_> = sockets.services.into_iter().map(Vec::into_iter).collect();
        for (index, mesh) in sockets.mesh.into_iter().enumerate() {
            let seed = Seed {
                index,
                config: config.clone(),
                links: links.clone(),
                correlation: correlation.clone(),
                homes: homes.clone(),
                metrics: metrics.clone(),
                stop: stop.clone(),
                open: open.clone(),
                services: services.iter_mut().filter_map(Iterator::next).collect(),
                mesh,
            };
            let thread = std::thread::Builder::new().name(format!("data-{index}"));
            handles.push(
                thread
                    .spawn(move || seed.run())
                    .map_err(ProxyError::Thread)?,
            );
        }
        Ok(Proxy {
            threads: handles,
            metrics,
        })
    }

    /// The counters.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Waits until every thread has ended.
    pub fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn homes(config: &ProxyConfig) -> Vec<Arc<Homes>> {
    let homes = |service: &ServiceConfig| {
        let rules = service.home.clone()?;
        let homes = Homes::new(service.name.clone(), config.here.clone(), rules);
        Some(Arc::new(homes))
    };
    config.services.iter().filter_map(homes).collect()
}

/// What a thread is started with.
struct Seed {
    index: usize,
    config: Arc<ProxyConfig>,
    links: Links,
    correlation: Arc<Correlation>,
    homes: Vec<Arc<Homes>>,
    metrics: Metrics,
    stop: watch::Receiver<bool>,
    open: Arc<AtomicUsize>,
    services: Vec<StdListener>,
    mesh: StdListener,
}

impl Seed {
    fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "a thread of the data plane has no runtime");
                return;
            }
        };
        tokio::task::LocalSet::new().block_on(&runtime, self.serve());
    }

    async fn serve(self) {
        let mut stop = self.stop.clone();
        let service = |(place, config): (usize, &ServiceConfig)| {
            Rc::new(Service::new(
                config,
                &self.config,
                &self.homes,
                self.links.replication.clone(),
                self.metrics.of(place, self.index),
            ))
        };
        let worker = Rc::new(Worker {
            here: self.config.here.clone(),
            stamps: Stamps::new(&self.config.here),
            access_log: self.config.access_log,
            correlation: self.correlation,
            homes: self.homes.clone(),
            peers: Peers::new(self.links.dialer),
            acceptor: self.links.acceptor,
            replication: self.links.replication.clone(),
            services: self
                .config
                .services
                .iter()
                .enumerate()
                .map(service)
                .collect(),
            picture: RefCell::new(self.links.picture.borrow().clone()),
            sweep: Sweep::default(),
            stop: self.stop,
            open: self.open,
        });
        for (service, listener) in worker.services.iter().zip(self.services) {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    let clients = listen::clients(worker.clone(), service.clone(), listener);
                    tokio::task::spawn_local(clients);
                }
                Err(error) => tracing::error!(%error, "a listener was lost"),
            }
        }
        match TcpListener::from_std(self.mesh) {
            Ok(listener) => {
                tokio::task::spawn_local(listen::peers(worker.clone(), listener));
            }
            Err(error) => tracing::error!(%error, "the mesh listener was lost"),
        }
        tokio::task::spawn_local(follow(worker.clone(), self.links.picture));
        let sweeping = worker.clone();
        tokio::task::spawn_local(async move { sweeping.sweep.run().await });
        let _ = stop.wait_for(|stopping| *stopping).await;
        worker.sweep.stop();
        worker.drain().await;
    }
}

/// Keeps a thread's picture of the world current, and ends connections to sites that are gone.
async fn follow(worker: Rc<Worker>, mut pictures: watch::Receiver<Arc<Picture>>) {
    while pictures.changed().await.is_ok() {
        let picture = pictures.borrow_and_update().clone();
        worker.peers.kill_unreachable(&picture);
        worker.picture.replace(picture);
    }
}

/// Everything that one thread owns.
pub(crate) struct Worker {
    pub(crate) here: SiteName,
    pub(crate) stamps: Stamps,
    pub(crate) access_log: bool,
    pub(crate) correlation: Arc<Correlation>,
    /// One for each service whose values have homes.
    pub(crate) homes: Vec<Arc<Homes>>,
    pub(crate) peers: Peers,
    pub(crate) acceptor: MeshAcceptor,
    pub(crate) replication: Replication,
    pub(crate) sweep: Sweep,
    pub(crate) stop: watch::Receiver<bool>,
    services: Vec<Rc<Service>>,
    picture: RefCell<Arc<Picture>>,
    /// Connections of all threads: the links that one of them serves carry the requests of others.
    open: Arc<AtomicUsize>,
}

impl Worker {
    /// The world as this thread last saw it.
    pub(crate) fn picture(&self) -> Arc<Picture> {
        self.picture.borrow().clone()
    }

    /// A service of this site by its registered name.
    pub(crate) fn service(&self, name: &ServiceName) -> Option<&Service> {
        self.services
            .iter()
            .map(Rc::as_ref)
            .find(|service| service.config.name == *name)
    }

    /// Counts a connection for as long as the guard lives.
    pub(crate) fn opened(self: &Rc<Worker>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    async fn drain(&self) {
        let until = Instant::now() + DRAIN_TIME_MAX;
        while self.open.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// An open connection of a client, or of a peer that forwards requests.
pub(crate) struct Open(Rc<Worker>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One service, as one thread sees it.
pub(crate) struct Service {
    pub(crate) config: Settings,
    pub(crate) backend: Backend,
    pub(crate) decider: Decider,
    pub(crate) counters: Arc<ServiceCounters>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// The site's rules that can concern this service.
    pub(crate) rules: Vec<Rule>,
    /// How the scope of a workflow reaches this listener: through any service of the site.
    pub(crate) carriers_in: Vec<Carrier>,
    /// Where this service's values are good.
    pub(crate) homes: Option<Arc<Homes>>,
    /// Its resources that live on several sites.
    pub(crate) replicas: Replicas,
}

/// The part of a service's configuration that requests look at.
pub(crate) struct Settings {
    pub(crate) name: ServiceName,
    pub(crate) accept_scope: bool,
    pub(crate) carriers: Vec<Carrier>,
    pub(crate) deadline: Duration,
    pub(crate) no_room: Vec<http::StatusCode>,
}

impl Service {
    fn new(
        config: &ServiceConfig,
        all: &ProxyConfig,
        homes: &[Arc<Homes>],
        engine: Replication,
        counters: Arc<ServiceCounters>,
    ) -> Service {
        let concerns = |rule: &&Rule| {
            rule.matches
                .service
                .as_ref()
                .is_none_or(|s| *s == config.name)
        };
        Service {
            config: Settings {
                name: config.name.clone(),
                accept_scope: config.accept_scope,
                carriers: config.carriers.clone(),
                deadline: config.deadline,
                no_room: config.no_room.clone(),
            },
            backend: Backend::new(config.endpoints.clone()),
            decider: Decider::new(config.name.clone()),
            counters,
            tls: config.tls.clone().map(TlsAcceptor::from),
            rules: all.rules.iter().filter(concerns).cloned().collect(),
            carriers_in: config.carriers_in.clone(),
            homes: homes.iter().find(|h| h.service == config.name).cloned(),
            replicas: Replicas {
                engine,
                api: config.api.clone(),
                service: config.name.clone(),
                here: all.here.clone(),
            },
        }
    }
}
