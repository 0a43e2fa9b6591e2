//! A mesh in a box: identities in a temporary folder, agents on loopback, a raw peer, a path that
//! can be cut.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cheops_engine::events::Bus;
use cheops_engine::identity::{Identity, init};
use cheops_engine::limits::LINKS_ALL_MAX;
use cheops_engine::mesh::{
    AcceptError, Accepted, Announcement, Kind, Mesh, MeshAcceptor, MeshConfig, PROTOCOL,
    ServiceAnnouncement, View, new_incarnation,
};
use cheops_model::{Labels, Mark, ServiceName, SiteName};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

pub(crate) struct World {
    folder: tempfile::TempDir,
    /// Up to so many other sites, agents keep a link to every one.
    pub(crate) links_all_max: usize,
}

impl World {
    pub(crate) fn new(names: &[&str]) -> World {
        let folder = tempfile::tempdir().unwrap();
        let sites: Vec<SiteName> = names.iter().map(|name| site(name)).collect();
        init("demo", &folder.path().join("mesh"), &sites).unwrap();
        World {
            folder,
            links_all_max: LINKS_ALL_MAX,
        }
    }

    fn identity(&self, name: &str) -> Identity {
        Identity::load(&self.folder.path().join("mesh").join(name)).unwrap()
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    /// What the agent will find when it starts.
    pub(crate) fn save(&self, name: &str, content: &str) {
        std::fs::create_dir_all(self.data(name)).unwrap();
        std::fs::write(self.data(name).join("sites.json"), content).unwrap();
    }

    /// An address that is free now.
    pub(crate) async fn reserve(&self) -> SocketAddr {
        TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap()
    }

    pub(crate) async fn agent(&self, name: &str) -> Agent {
        self.join(name, &[]).await
    }

    pub(crate) async fn join(&self, name: &str, join: &[String]) -> Agent {
        self.start(name, "127.0.0.1:0".parse().unwrap(), join, None)
            .await
    }

    pub(crate) async fn start(
        &self,
        name: &str,
        at: SocketAddr,
        join: &[String],
        advertise: Option<SocketAddr>,
    ) -> Agent {
        let listener = TcpListener::bind(at).await.unwrap();
        let at = listener.local_addr().unwrap();
        let announcement = announcement(name, advertise.unwrap_or(at));
        self.launch(listener, announcement, join, Bus::new())
    }

    /// As if the machine's clock were that much behind; tells what happens on the bus.
    pub(crate) async fn start_behind(
        &self,
        name: &str,
        at: SocketAddr,
        behind: Duration,
        events: Bus,
    ) -> Agent {
        let listener = TcpListener::bind(at).await.unwrap();
        let mut announcement = announcement(name, at);
        announcement.incarnation -= (behind.as_millis() as u64) << 11;
        self.launch(listener, announcement, &[], events)
    }

    fn launch(
        &self,
        listener: TcpListener,
        announcement: Announcement,
        join: &[String],
        events: Bus,
    ) -> Agent {
        let name = announcement.site.to_string();
        let at = listener.local_addr().unwrap();
        let socket = std::net::UdpSocket::bind(at).unwrap();
        socket.set_nonblocking(true).unwrap();
        let config = MeshConfig {
            identity: Arc::new(self.identity(&name)),
            announcement,
            join: join.to_vec(),
            data_dir: self.data(&name),
            routes: Default::default(),
            socket: Some(socket),
            events,
            links_all_max: self.links_all_max,
        };
        let mesh = Mesh::start(config).unwrap();
        let (refused_in, refused) = mpsc::channel(64);
        let (requests_in, requests) = mpsc::channel(64);
        let listening = tokio::spawn(listen(listener, mesh.acceptor(), refused_in, requests_in));
        Agent {
            mesh,
            at,
            listening,
            refused,
            requests,
        }
    }

    /// A TLS connection to an agent, as `name`.
    pub(crate) async fn connect(
        &self,
        name: &str,
        to: &Agent,
        alpn: &[u8],
    ) -> io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(self.identity(name).client_config(&[alpn]));
        let tcp = TcpStream::connect(to.at).await.unwrap();
        connector.connect(Identity::server_name(), tcp).await
    }

    /// A raw control connection to an agent, as `name`.
    pub(crate) async fn wire(&self, name: &str, to: &Agent) -> Wire {
        let stream = self.connect(name, to, b"cheops-ctl/1").await.unwrap();
        let io = TokioIo::new(stream);
        let (sender, work) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        Wire {
            sender,
            work: tokio::spawn(async move { drop(work.await) }),
        }
    }
}

fn announcement(name: &str, advertise: SocketAddr) -> Announcement {
    let service = |text: &str| ServiceName::new(text).unwrap();
    Announcement {
        site: site(name),
        incarnation: new_incarnation(),
        labels: Labels::from_iter([("region".to_owned(), "west".to_owned())]),
        parent: None,
        links: Vec::new(),
        held: false,
        advertise: advertise.to_string(),
        services: vec![ServiceAnnouncement {
            name: service("image"),
            aliases: vec![service("glance")],
            version: None,
        }],
        protocol: PROTOCOL,
    }
}

pub(crate) struct Agent {
    pub(crate) mesh: Mesh,
    at: SocketAddr,
    listening: JoinHandle<()>,
    refused: mpsc::Receiver<AcceptError>,
    requests: mpsc::Receiver<Accepted>,
}

impl Agent {
    pub(crate) fn address(&self) -> String {
        self.at.to_string()
    }

    pub(crate) fn now(&self) -> Arc<View> {
        self.mesh.view().borrow().clone()
    }

    pub(crate) fn incarnation(&self) -> u64 {
        let view = self.now();
        view.sites[&view.here]
            .announcement
            .as_ref()
            .unwrap()
            .incarnation
    }

    pub(crate) async fn until(&self, condition: impl Fn(&View) -> bool) -> Arc<View> {
        self.until_within(PATIENCE, condition).await
    }

    pub(crate) async fn until_within(
        &self,
        patience: Duration,
        condition: impl Fn(&View) -> bool,
    ) -> Arc<View> {
        let mut view = self.mesh.view();
        let found = timeout(patience, view.wait_for(|view| condition(view))).await;
        found.expect("the view came to it in time").unwrap().clone()
    }

    pub(crate) async fn waits_for(&self, name: &str, mark: Mark) {
        self.until(|view| view.sites.get(name).is_some_and(|seen| seen.mark == mark))
            .await;
    }

    pub(crate) async fn refused(&mut self) -> AcceptError {
        timeout(PATIENCE, self.refused.recv())
            .await
            .unwrap()
            .unwrap()
    }

    pub(crate) async fn request(&mut self) -> Accepted {
        timeout(PATIENCE, self.requests.recv())
            .await
            .unwrap()
            .unwrap()
    }

    /// Ends it without a word to anybody.
    pub(crate) async fn kill(self) {
        self.listening.abort();
        let _ = self.listening.await;
    }

    /// Ends it, and says where it was.
    pub(crate) async fn stop(self) -> SocketAddr {
        self.listening.abort();
        let _ = self.listening.await;
        self.mesh.stop().await;
        self.at
    }
}

async fn listen(
    listener: TcpListener,
    acceptor: MeshAcceptor,
    refused: mpsc::Sender<AcceptError>,
    requests: mpsc::Sender<Accepted>,
) {
    let mut serving = JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        let (acceptor, refused, requests) = (acceptor.clone(), refused.clone(), requests.clone());
        serving.spawn(async move {
            match acceptor.accept(tcp).await {
                Ok(accepted) if accepted.kind == Kind::Control => {
                    acceptor.serve_control(accepted).await;
                }
                Ok(accepted) => drop(requests.try_send(accepted)),
                Err(fault) => drop(refused.try_send(fault)),
            }
        });
    }
}

/// A peer that says whatever it likes.
pub(crate) struct Wire {
    sender: SendRequest<Full<Bytes>>,
    work: JoinHandle<()>,
}

impl Wire {
    pub(crate) async fn post(&mut self, path: &str, body: String) -> (StatusCode, String) {
        let request = Request::post(format!("https://cheops.mesh{path}"))
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let answer = timeout(PATIENCE, self.sender.send_request(request))
            .await
            .unwrap()
            .unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// Waits for the other end to close.
    pub(crate) async fn ends(&mut self) {
        timeout(PATIENCE, &mut self.work).await.unwrap().unwrap();
    }
}

/// A path to an address: closed, it swallows bytes and says nothing, as a cut cable does.
pub(crate) struct Cut {
    at: SocketAddr,
    open: watch::Sender<bool>,
    swallowed: watch::Sender<u32>,
    _listening: JoinSet<()>,
}

impl Cut {
    pub(crate) async fn before(target: SocketAddr) -> Cut {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (open, is_open) = watch::channel(true);
        let swallowed = watch::Sender::new(0);
        let count = swallowed.clone();
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut paths = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                if !*is_open.borrow() {
                    count.send_modify(|count| *count += 1);
                }
                paths.spawn(carry(near, target, is_open.clone()));
            }
        });
        Cut {
            at,
            open,
            swallowed,
            _listening: listening,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.at
    }

    pub(crate) fn close(&self) {
        self.open.send_replace(false);
    }

    /// Waits until somebody tries the closed path.
    pub(crate) async fn swallows(&self) {
        let mut swallowed = self.swallowed.subscribe();
        timeout(PATIENCE, swallowed.wait_for(|count| *count > 0))
            .await
            .unwrap()
            .unwrap();
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn carry(mut near: TcpStream, target: SocketAddr, mut open: watch::Receiver<bool>) {
    if *open.borrow() {
        let Ok(mut far) = TcpStream::connect(target).await else {
            return;
        };
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
            _ = open.wait_for(|open| !open) => (),
        }
        // Kept open, both of them, and silent.
        std::future::pending::<()>().await;
    }
    std::future::pending::<()>().await;
}
