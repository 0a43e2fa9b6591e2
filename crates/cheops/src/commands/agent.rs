//! `cheops agent`: one site's agent, from its file to its last request.

use std::fs::File;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cheops_control::server::{self, Sources};
use cheops_engine::events::Bus;
use cheops_engine::identity::Identity;
use cheops_engine::mesh::{Announcement, Mesh, MeshConfig, ServiceAnnouncement, new_incarnation};
use cheops_engine::registry::{Addresses, Endpoints, Health, Names, follow};
use cheops_engine::{LocalService, follow_picture};
use cheops_proxy::{Links, Proxy, ProxyConfig, ServiceConfig, Sockets};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::cli::AgentArgs;
use crate::config::{Backend, Config, ServiceSettings};
use crate::terminal;

/// Open requests end, then threads; an agent told to stop is gone within 10 s.
const STOP_TIME_MAX: Duration = Duration::from_secs(9);

/// How long the first look at the services' addresses may hold back `ready`.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    let identity = Identity::load(&config.mesh.identity).context("key `mesh.identity`")?;
    if *identity.site() != config.site {
        let (theirs, ours) = (identity.site(), &config.site);
        bail!("key `mesh.identity`: it is the identity of {theirs}, and this is {ours}");
    }
    if args.check {
        terminal::print(&format!(
            "{}: nothing is wrong with it",
            args.config.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(config, identity, args.watch_stdin));
    // Whoever reads standard input for us may do so for ever.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CHEOPS_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        .with_writer(std::io::stderr)
        .init();
}

async fn serve(config: Config, identity: Identity, watch_stdin: bool) -> anyhow::Result<()> {
    let _lock = claim_data(&config)?;
    let sockets = bind_all(&config)?;
    let admin = bind_admin(config.admin)?;
    let admin_address = admin.local_addr()?;
    // Asked for before anything runs: a signal that comes early is not lost.
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );

    let events = Bus::new();
    let mesh = Mesh::start(mesh_config(&config, identity))?;
    let picture = follow_picture(mesh.view(), config.services.iter().map(local).collect());
    let (stop, stopping) = watch::channel(false);
    let links = Links {
        picture: picture.clone(),
        dialer: mesh.dialer(),
        acceptor: mesh.acceptor(),
    };
    let site = config.site.clone();
    let proxy_config = proxy_config(config).await;
    let proxy = Proxy::start(proxy_config, sockets, links, stopping.clone())?;

    let metrics = proxy.metrics();
    let sources = Sources {
        picture,
        events: events.clone(),
        metrics: Arc::new(move || metrics.render()),
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut admin_stop = stopping.clone();
    let admin = tokio::spawn(server::serve(admin, sources, async move {
        let _ = admin_stop.wait_for(|stopping| *stopping).await;
    }));
    terminal::print(&format!("ready site={site} admin={admin_address}"));

    tokio::select! {
        _ = terminate.recv() => (),
        _ = interrupt.recv() => (),
        () = stdin_closed(), if watch_stdin => (),
    }
    tracing::info!("stopping");
    stop.send_replace(true);
    let ended = async {
        let _ = tokio::task::spawn_blocking(|| proxy.join()).await;
        mesh.stop().await;
        let _ = admin.await;
    };
    if tokio::time::timeout(STOP_TIME_MAX, ended).await.is_err() {
        tracing::warn!("some requests had not ended");
    }
    Ok(())
}

/// Two agents on one folder would overwrite each other's memory.
fn claim_data(config: &Config) -> anyhow::Result<File> {
    let folder = config.data.display();
    std::fs::create_dir_all(&config.data).with_context(|| format!("key `data`: {folder}"))?;
    let lock =
        File::create(config.data.join("lock")).with_context(|| format!("key `data`: {folder}"))?;
    lock.try_lock()
        .map_err(|_| anyhow!("key `data`: another agent uses {folder}; stop it first"))?;
    Ok(lock)
}

fn bind_all(config: &Config) -> anyhow::Result<Sockets> {
    let threads = config.threads.get();
    let bind = |key: &str, address: SocketAddr| -> anyhow::Result<Vec<StdListener>> {
        cheops_proxy::bind(address, threads)
            .with_context(|| format!("key `{key}`: cannot listen on {address}; is the port taken?"))
    };
    let services = config
        .services
        .iter()
        .map(|service| bind(&format!("service.{}.listen", service.name), service.listen));
    let services: anyhow::Result<Vec<_>> = services.collect();
    Ok(Sockets {
        services: services?,
        mesh: bind("mesh.listen", config.mesh.listen)?,
    })
}

fn bind_admin(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = StdListener::bind(address).with_context(|| {
        format!("key `admin.listen`: cannot listen on {address}; is the port taken?")
    })?;
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

fn mesh_config(config: &Config, identity: Identity) -> MeshConfig {
    let announced = |service: &ServiceSettings| ServiceAnnouncement {
        name: service.name.clone(),
        aliases: service.aliases.clone(),
        version: service.version.clone(),
    };
    MeshConfig {
        identity: Arc::new(identity),
        announcement: Announcement {
            site: config.site.clone(),
            incarnation: new_incarnation(),
            labels: config.labels.clone(),
            parent: config.parent.clone(),
            advertise: config.mesh.advertise.clone(),
            services: config.services.iter().map(announced).collect(),
            protocol: cheops_engine::mesh::PROTOCOL,
        },
        join: config.mesh.join.clone(),
        routes: config.mesh.routes.clone(),
        data_dir: config.data.clone(),
    }
}

fn local(service: &ServiceSettings) -> LocalService {
    LocalService {
        name: service.name.clone(),
        aliases: service.aliases.clone(),
        default: service.default.clone(),
    }
}

async fn proxy_config(config: Config) -> ProxyConfig {
    // A service is called by its siblings: whatever they pass on can bring a scope.
    let mut carriers_in = Vec::new();
    for carrier in config.services.iter().flat_map(|service| &service.carriers) {
        if !carriers_in.contains(carrier) {
            carriers_in.push(carrier.clone());
        }
    }
    let mut services = Vec::new();
    for service in config.services {
        services.push(ServiceConfig {
            name: service.name,
            listen: service.listen,
            tls: service.tls,
            endpoints: endpoints(service.backend, service.health),
            accept_scope: service.accept_scope,
            carriers: service.carriers,
            carriers_in: carriers_in.clone(),
            deadline: service.deadline,
            no_room: service.no_room,
            home: service.home,
        });
    }
    look_first(&services).await;
    ProxyConfig {
        here: config.site,
        services,
        rules: config.rules,
        threads: config.threads,
        access_log: config.access_log,
    }
}

fn endpoints(backend: Backend, health: Option<String>) -> watch::Receiver<Arc<Endpoints>> {
    let health = Health { path: health };
    match backend {
        Backend::Addresses(addresses) => follow(Addresses(addresses), health),
        Backend::Names(names) => follow(Names(names), health),
    }
}

/// Waits until every service has an address, or the time for all of them together is up.
async fn look_first(services: &[ServiceConfig]) {
    let until = tokio::time::Instant::now() + LOOK_TIME_MAX;
    for service in services {
        let mut endpoints = service.endpoints.clone();
        let first = endpoints.wait_for(|now| !now.addresses.is_empty());
        let _ = tokio::time::timeout_at(until, first).await;
    }
}

/// For whoever started this agent and may be killed: the pipe ends with it.
async fn stdin_closed() {
    let mut byte = [0];
    while tokio::io::stdin()
        .read(&mut byte)
        .await
        .is_ok_and(|read| read > 0)
    {}
}
