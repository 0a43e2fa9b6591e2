//! One thread of the data plane: what it owns, how it takes a change, how it stops.

use std::cell::{Cell, Ref, RefCell};
use std::net::TcpListener as StdListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cheops_engine::Picture;
use cheops_engine::mesh::MeshAcceptor;
use cheops_engine::replication::Replication;
use cheops_model::{ServiceName, SiteName};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::correlation::Correlation;
use crate::doorway::Doorway;
use crate::express::{Lookout, Pipes, Post, Scratch};
use crate::headers::Stamps;
use crate::home::Homes;
use crate::limits;
use crate::listen;
use crate::metrics::Metrics;
use crate::peer::Peers;
use crate::proxy::{Generation, Links, Order};
use crate::service::Service;
use crate::sweep::Sweep;

/// How long open requests may take to end once the agent was told to stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(8);

/// What a thread is started with.
pub(crate) struct Seed {
    pub(crate) index: usize,
    pub(crate) generation: Arc<Generation>,
    pub(crate) links: Links,
    pub(crate) correlation: Arc<Correlation>,
    pub(crate) metrics: Metrics,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) seated: Arc<AtomicUsize>,
    pub(crate) post: Post,
    pub(crate) sockets: Vec<(u64, StdListener)>,
    pub(crate) mesh: StdListener,
    pub(crate) orders: mpsc::Receiver<Order>,
}

impl Seed {
    pub(crate) fn run(self) {
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
        let here = &self.generation.config.here;
        let worker = Rc::new(Worker {
            index: self.index,
            here: here.clone(),
            stamps: Stamps::new(here),
            access_log: Cell::new(false),
            client_idle: Cell::new(Duration::MAX),
            connections_max: Cell::new(usize::MAX),
            correlation: self.correlation,
            metrics: self.metrics,
            homes: RefCell::default(),
            peers: Peers::new(self.links.dialer),
            acceptor: self.links.acceptor,
            replication: self.links.replication,
            services: RefCell::default(),
            doorways: RefCell::default(),
            picture: RefCell::new(self.links.picture.borrow().clone()),
            sweep: Sweep::default(),
            scratch: RefCell::default(),
            pipes: Rc::default(),
            lookout: Lookout::new(self.post),
            stop: self.stop,
            open: self.open,
            seated: self.seated,
        });
        worker.take(&self.generation, self.sockets);
        match TcpListener::from_std(self.mesh) {
            Ok(listener) => {
                tokio::task::spawn_local(listen::peers(worker.clone(), listener));
            }
            Err(error) => tracing::error!(%error, "the mesh listener was lost"),
        }
        tokio::task::spawn_local(follow(worker.clone(), self.links.picture));
        tokio::task::spawn_local(obey(worker.clone(), self.orders));
        tokio::task::spawn_local(tidy(worker.clone()));
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

/// Closes what services have closed, now and then.
async fn tidy(worker: Rc<Worker>) {
    let mut ticks = tokio::time::interval(limits::TIDY_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for service in worker.services.borrow().iter() {
            service.backend.tidy();
        }
    }
}

/// Takes changes of the configuration as they come.
async fn obey(worker: Rc<Worker>, mut orders: mpsc::Receiver<Order>) {
    while let Some(order) = orders.recv().await {
        worker.take(&order.generation, order.sockets);
        // Whoever ordered it may have gone.
        let _ = order.done.send(());
    }
}

/// Everything that one thread owns.
pub(crate) struct Worker {
    index: usize,
    pub(crate) here: SiteName,
    pub(crate) stamps: Stamps,
    pub(crate) access_log: Cell<bool>,
    /// How long a client may ask nothing.
    pub(crate) client_idle: Cell<Duration>,
    connections_max: Cell<usize>,
    pub(crate) correlation: Arc<Correlation>,
    metrics: Metrics,
    /// One for each service whose values have homes.
    homes: RefCell<Rc<[Arc<Homes>]>>,
    pub(crate) peers: Peers,
    pub(crate) acceptor: MeshAcceptor,
    pub(crate) replication: Replication,
    pub(crate) sweep: Sweep,
    pub(crate) stop: watch::Receiver<bool>,
    /// What its connections read into and write from, one at a time.
    pub(crate) scratch: RefCell<Scratch>,
    /// What long bodies pass through.
    pub(crate) pipes: Rc<Pipes>,
    /// Who waits for an answer.
    pub(crate) lookout: Lookout,
    services: RefCell<Vec<Rc<Service>>>,
    doorways: RefCell<Vec<(u64, Rc<Doorway>)>>,
    picture: RefCell<Arc<Picture>>,
    /// Connections of all threads: the links that one of them serves carry the requests of others.
    open: Arc<AtomicUsize>,
    /// Connections of clients, of all threads.
    seated: Arc<AtomicUsize>,
}

impl Worker {
    /// The world as this thread last saw it.
    pub(crate) fn picture(&self) -> Arc<Picture> {
        self.picture.borrow().clone()
    }

    /// The same, for a look without a wait: the local path counts no references that threads share.
    pub(crate) fn picture_now(&self) -> Ref<'_, Arc<Picture>> {
        self.picture.borrow()
    }

    /// A service of this site by its registered name.
    pub(crate) fn service(&self, name: &ServiceName) -> Option<Rc<Service>> {
        let services = self.services.borrow();
        let found = services.iter().find(|service| service.config.name == *name);
        found.cloned()
    }

    /// What is known of values' homes.
    pub(crate) fn homes(&self) -> Rc<[Arc<Homes>]> {
        self.homes.borrow().clone()
    }

    /// Works by a configuration: its services, and its listeners with the sockets that are new.
    fn take(self: &Rc<Worker>, generation: &Generation, mut sockets: Vec<(u64, StdListener)>) {
        let config = &generation.config;
        self.access_log.set(config.access_log);
        self.client_idle.set(config.clients.idle);
        self.connections_max.set(config.clients.connections.get());
        self.homes.replace(generation.homes.clone().into());
        let made = config.services.iter().zip(&generation.guards);
        let made = made.map(|(service, guards)| {
            let counters = self.metrics.of(&service.name, self.index);
            let before = self.service(&service.name);
            let (engine, before) = (&self.replication, before.as_deref());
            let service = Service::new(service, generation, guards, counters, engine, before);
            Rc::new(service)
        });
        let services: Vec<Rc<Service>> = made.collect();
        self.services.replace(services.clone());
        let before = self.doorways.take();
        let mut doorways = Vec::new();
        for (id, listener) in generation.listener_ids.iter().zip(&config.listeners) {
            if let Some((_, doorway)) = before.iter().find(|(known, _)| known == id) {
                doorway.lead(listener, &services);
                doorways.push((*id, doorway.clone()));
                continue;
            }
            let doorway = Rc::new(Doorway::new(listener, &services));
            let place = sockets.iter().position(|(socket, _)| socket == id);
            let socket = place.map(|place| sockets.swap_remove(place).1);
            match socket.map(TcpListener::from_std) {
                Some(Ok(socket)) => {
                    let clients = listen::clients(self.clone(), doorway.clone(), socket);
                    tokio::task::spawn_local(clients);
                    doorways.push((*id, doorway));
                }
                Some(Err(error)) => {
                    tracing::error!(%error, key = listener.key, "a listener was lost")
                }
                None => tracing::error!(key = listener.key, "a listener has no socket"),
            }
        }
        for (id, doorway) in before {
            if !generation.listener_ids.contains(&id) {
                doorway.close();
            }
        }
        self.doorways.replace(doorways);
        // Connections of a closed doorway are woken to end.
        self.sweep.nudge();
    }

    /// Counts a connection for as long as the guard lives.
    pub(crate) fn opened(self: &Rc<Worker>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    /// Room for a client's connection, if there is any.
    pub(crate) fn seat(self: &Rc<Worker>) -> Option<Seat> {
        let taken = self.seated.fetch_add(1, Ordering::Relaxed);
        // Given back when it is dropped, also here.
        let seat = Seat(self.clone());
        (taken < self.connections_max.get()).then_some(seat)
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

/// The place of one client's connection.
pub(crate) struct Seat(Rc<Worker>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.seated.fetch_sub(1, Ordering::Relaxed);
    }
}
