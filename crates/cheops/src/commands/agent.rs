//! `cheops agent`: one site's agent, from its file to its last request.

mod backends;
mod reload;
mod report;

use std::fs::File;
use std::net::{SocketAddr, TcpListener as StdListener, UdpSocket};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cheops_control::server::{self, Sources};
use cheops_core::eventual::Tuning;
use cheops_engine::events::Bus;
use cheops_engine::identity::Identity;
use cheops_engine::mesh::{Announcement, Mesh, MeshConfig, ServiceAnnouncement, new_incarnation};
use cheops_engine::replication::{ReplicatedService, Replication, ReplicationConfig};
use cheops_engine::{LocalService, follow_picture};
use cheops_proxy::{HomeBook, Links, Passage, Proxy, ServiceConfig, Sockets};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::cli::AgentArgs;
use crate::config::{Config, ServiceSettings};
use crate::terminal;
use backends::Backends;
use reload::Running;
use report::Reporter;

/// Open requests end, then threads; an agent told to stop is gone within 10 s.
const STOP_TIME_MAX: Duration = Duration::from_secs(9);

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
    let served = runtime.block_on(serve(config, identity, args));
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

async fn serve(config: Config, identity: Identity, args: &AgentArgs) -> anyhow::Result<()> {
    let _lock = claim_data(&config)?;
    let threads = config.threads.get();
    let sockets = Sockets::bind(&config.listeners, config.mesh.listen, threads)?;
    let admin = bind_admin(config.admin)?;
    let admin_address = admin.local_addr()?;
    // Asked for before anything runs: a signal that comes early is not lost.
    let (mut terminate, mut interrupt, mut hang_up) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    );

    let events = Bus::new();
    let secret = identity.secret().clone();
    let mesh_config = mesh_config(&config, identity, &events)?;
    let incarnation = mesh_config.announcement.incarnation;
    let mesh = Mesh::start(mesh_config)?;
    let local = watch::Sender::new(local(&config));
    let picture = follow_picture(mesh.view(), local.subscribe());
    let (stop, stopping) = watch::channel(false);
    let (site, data_dir) = (config.site.clone(), config.data.clone());
    let (proxy_config, backends) = Backends::default().proxy_config(&config).await;
    let homes = HomeBook::of(&proxy_config);
    let shown_to = homes.clone();
    let passage = Passage::of(&proxy_config, picture.clone());
    let carried_by = passage.clone();
    let replication = Replication::start(ReplicationConfig {
        here: site.clone(),
        data_dir,
        secret,
        services: proxy_config.services.iter().map(replicated).collect(),
        dialer: mesh.dialer(),
        pictures: picture.clone(),
        tuning: Tuning::default(),
        blobs: config.blobs.clone(),
        events: events.clone(),
        shown: Arc::new(move |told, headers| shown_to.learn_logged(told, headers)),
        carry: Arc::new(move |service, headers| carried_by.carry(service, headers)),
    })
    .context("key `data`")?;
    let links = Links {
        picture: picture.clone(),
        dialer: mesh.dialer(),
        acceptor: mesh.acceptor(),
        replication: replication.clone(),
        homes,
        passage,
    };
    let proxy = Proxy::start(proxy_config, sockets, links, stopping.clone())?;

    let watched = watch::Sender::new(backends.watched());
    let reporter = Reporter::new(
        proxy.metrics(),
        picture.clone(),
        watched.subscribe(),
        config.data.clone(),
    );
    tokio::spawn(reporter.run(mesh.council(), stopping.clone()));
    tokio::spawn(replication.clone().tell_backlogs(mesh.backlogs()));
    let metrics = proxy.metrics();
    let sources = Sources {
        replication: replication.clone(),
        ask: cheops_proxy::ask_site(mesh.dialer(), picture.clone()),
        picture,
        events,
        council: mesh.council(),
        metrics: Arc::new(move || metrics.render()),
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut admin_stop = stopping.clone();
    let admin = tokio::spawn(server::serve(admin, sources, async move {
        let _ = admin_stop.wait_for(|stopping| *stopping).await;
    }));
    terminal::print(&format!("ready site={site} admin={admin_address}"));

    let mut running = Running {
        file: args.config.clone(),
        config,
        incarnation,
        proxy,
        mesh,
        local,
        backends,
        watched,
        replication: replication.clone(),
    };
    let mut stdin_closed = pin!(stdin_closed());
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            () = &mut stdin_closed, if args.watch_stdin => break,
            _ = hang_up.recv() => running.reload().await,
        }
    }
    let Running { proxy, mesh, .. } = running;
    tracing::info!("stopping");
    stop.send_replace(true);
    let ended = async {
        let _ = tokio::task::spawn_blocking(move || {
            proxy.join();
            replication.stop();
        })
        .await;
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

fn bind_admin(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = StdListener::bind(address).with_context(|| {
        format!("key `admin.listen`: cannot listen on {address}; is the port taken?")
    })?;
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

fn mesh_config(config: &Config, identity: Identity, events: &Bus) -> anyhow::Result<MeshConfig> {
    let listen = config.mesh.listen;
    let socket = UdpSocket::bind(listen).with_context(|| {
        format!("key `mesh.listen`: cannot take datagrams on {listen}; is the port taken?")
    })?;
    socket.set_nonblocking(true)?;
    Ok(MeshConfig {
        socket: Some(socket),
        events: events.clone(),
        identity: Arc::new(identity),
        announcement: announcement(config, new_incarnation()),
        join: config.mesh.join.clone(),
        routes: config.mesh.routes.clone(),
        data_dir: config.data.clone(),
        links_all_max: cheops_engine::limits::LINKS_ALL_MAX,
    })
}

/// What this site says of itself.
fn announcement(config: &Config, incarnation: u64) -> Announcement {
    let announced = |service: &ServiceSettings| ServiceAnnouncement {
        name: service.name.clone(),
        aliases: service.aliases.clone(),
        version: service.version.clone(),
    };
    Announcement {
        site: config.site.clone(),
        incarnation,
        labels: config.labels.clone(),
        parent: config.parent.clone(),
        links: config.mesh.links.clone(),
        held: false,
        advertise: config.mesh.advertise.clone(),
        services: config.services.iter().map(announced).collect(),
        protocol: cheops_engine::mesh::PROTOCOL,
    }
}

/// This site's services, as scopes see them.
fn local(config: &Config) -> Vec<LocalService> {
    let local = |service: &ServiceSettings| LocalService {
        name: service.name.clone(),
        aliases: service.aliases.clone(),
        default: service.default.clone(),
    };
    config.services.iter().map(local).collect()
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

fn replicated(service: &ServiceConfig) -> ReplicatedService {
    ReplicatedService {
        name: service.name.to_string(),
        api: service.api.clone(),
        endpoints: service.endpoints.clone(),
        deadline: service.deadline,
    }
}
