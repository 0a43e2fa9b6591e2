//! Links between agents: how they find, greet and watch each other.
//!
//! Each agent has one TCP port for the mesh. Over mutual TLS 1.3 the name of ALPN says what a
//! connection is for, and in which version: control, forwarded requests or logs. In a small mesh each agent keeps
//! one control link to every site it knows, in a large one to a few; whoever joins through any site learns of all. One task owns
//! the state ([`Mesh::start`]); everybody else reads the [`View`] it publishes.
//!
//! Sockets are listened on elsewhere: whoever does hands connections to a [`MeshAcceptor`].

mod accept;
mod announcement;
mod clock;
mod connect;
mod control;
mod decide;
mod dialer;
mod exchange;
mod handshake;
mod join;
mod known;
mod leash;
mod link;
mod members;
mod message;
mod owner;
mod pause;
mod post;
mod refused;
mod roster;
mod saved;
mod standing;
mod tend;
mod trips;
mod view;
mod wanted;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cheops_core::membership::Report;
use cheops_model::SiteName;
use serde_json::json;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::warn;

pub use accept::{AcceptError, Accepted, Kind, MeshAcceptor};
pub use announcement::{
    Announcement, AnnouncementFault, PROTOCOL, ServiceAnnouncement, check_address, new_incarnation,
};
pub use connect::DialError;
pub use decide::{DecideError, Decision};
pub use dialer::Dialer;
pub use leash::{Leash, Leashed};
pub use trips::RoundTrip;
pub use view::{Backlog, Backlogs, HeldReport, SiteView, View};

use crate::events::Bus;
use crate::identity::Identity;
use crate::limits::EVENTS_MAX;
use clock::Now;
use connect::Connector;
use known::Known;
use link::Shared;
use members::Members;
use message::{ALPN_BLOB, ALPN_CONTROL, ALPN_LOG, ALPN_REQUESTS};
use owner::{Estate, Event, Outlets, Owner};
use roster::{Change, Roster};
use saved::Saved;
use standing::Decisions;

/// What a mesh starts from.
#[derive(Debug)]
pub struct MeshConfig {
    /// Who we are.
    pub identity: Arc<Identity>,
    /// What we say of ourselves, the address to reach us included.
    pub announcement: Announcement,
    /// Addresses to join through, tried for ever.
    pub join: Vec<String>,
    /// Addresses of sites as reached from here, whatever they announce: behind a relay or NAT.
    pub routes: BTreeMap<SiteName, String>,
    /// Where the known sites are kept; created.
    pub data_dir: PathBuf,
    /// For datagrams: bound to the same address and port as the mesh listener. Without one, links
    /// carry them.
    pub socket: Option<std::net::UdpSocket>,
    /// Where marks that change are told.
    pub events: Bus,
    /// Up to so many other known sites, a link is kept to every one: see
    /// [`LINKS_ALL_MAX`](crate::limits::LINKS_ALL_MAX).
    pub links_all_max: usize,
}

/// Why a mesh does not start, or does not take an announcement. Correct the configuration.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// The configuration and the certificate name different sites.
    #[error(
        "the identity is of site {identity}, but the configuration names {named}; use the identity made for it"
    )]
    OtherSite {
        /// The certificate's.
        identity: SiteName,
        /// The announcement's.
        named: SiteName,
    },
    /// What we would say of ourselves would be refused by peers.
    #[error("this site cannot announce itself: {0}")]
    Announcement(#[from] AnnouncementFault),
    /// The data folder cannot be made.
    #[error("{}: {source}", path.display())]
    Data {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The mesh has stopped.
    #[error("the mesh has stopped")]
    Stopped,
}

/// This agent's part of the mesh. Dropping it ends its links; [`stop`](Mesh::stop) also waits
/// until everything is saved.
pub struct Mesh {
    identity: Arc<Identity>,
    events: mpsc::Sender<Event>,
    view: watch::Receiver<Arc<View>>,
    acceptor: MeshAcceptor,
    dialer: Dialer,
    backlogs: Arc<watch::Sender<Arc<Backlogs>>>,
    owner: JoinHandle<()>,
}

impl Mesh {
    /// Starts on the current tokio runtime. Never waits for a peer.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(config: MeshConfig) -> Result<Mesh, MeshError> {
        let MeshConfig {
            identity,
            announcement,
            join,
            routes,
            data_dir,
            socket,
            events: bus,
            links_all_max,
        } = config;
        check(&identity, &announcement)?;
        join.iter()
            .chain(routes.values())
            .try_for_each(|address| announcement::check_address(address))?;
        fs::create_dir_all(&data_dir).map_err(|source| MeshError::Data {
            path: data_dir.clone(),
            source,
        })?;
        let data = |source| MeshError::Data {
            path: data_dir.clone(),
            source,
        };
        let now = Now::read();
        let mut decisions = Decisions::load(&data_dir).map_err(data)?;
        let mut announcement = announcement;
        let configured_parent = announcement.parent.clone();
        announcement.parent = decisions.parent(configured_parent.clone());
        announcement.held = decisions.held;
        if announcement.incarnation <= decisions.started {
            let behind_s = (decisions.started - announcement.incarnation) / 2048 / 1000;
            warn!(
                behind_s,
                "this clock is behind what it was at the last start"
            );
            bus.publish("clock-behind", &json!({ "seconds": behind_s }));
            announcement.incarnation = decisions.started + 1;
        }
        decisions.started = announcement.incarnation;
        decisions.write(&data_dir).map_err(data)?;
        let mut members = Members::new(&identity, &announcement, now.instant);
        let (mut roster, mut first) = Roster::new(announcement, Saved::load(&data_dir), now);
        for site in roster.names().cloned().collect::<Vec<_>>() {
            let address = roster.known(&site).and_then(Known::advertise);
            let address = address.unwrap_or_default().as_str().into();
            members.swim.meet(&site, address, &mut Vec::new());
        }
        for (site, standing) in decisions.standings.clone() {
            members.swim.meet(&site, "".into(), &mut Vec::new());
            members.swim.restore(&site, standing);
        }
        roster.set_standings(members.standings().into_iter().collect(), &mut first);
        let socket = socket.map(UdpSocket::from_std).transpose().map_err(data)?;

        let (events, inbox) = mpsc::channel(EVENTS_MAX);
        let (view_in, view) = watch::channel(Arc::new(roster.view(Change::Matter)));
        let (greeting_in, greeting) =
            watch::channel(Arc::new(roster.hello().greeting(links_all_max)));
        let saved_in = watch::Sender::new(Arc::new(roster.saved()));
        let outlets = Outlets {
            view: view_in,
            greeting: greeting_in,
            saved: saved_in,
        };

        let routes = Arc::new(routes);
        let connector = |alpn| Connector::new(identity.clone(), alpn, routes.clone());
        let shared = Shared {
            connector: connector(ALPN_CONTROL),
            greeting,
            events: events.clone(),
        };
        let (backlogs_in, backlogs) = watch::channel(Arc::default());
        let owner = Owner::new(Estate {
            roster,
            members,
            outlets,
            shared,
            folder: data_dir,
            events: bus,
            socket: socket.map(Arc::new),
            routes: routes.clone(),
            backlogs,
            decisions,
            configured_parent,
            links_all_max,
        });
        let owner = tokio::spawn(owner.run(first, identity.site().clone(), join, inbox));
        Ok(Mesh {
            acceptor: MeshAcceptor::new(identity.clone(), events.clone()),
            dialer: Dialer::new(
                [ALPN_REQUESTS, ALPN_LOG, ALPN_BLOB].map(connector),
                view.clone(),
                events.clone(),
            ),
            identity,
            events,
            view,
            backlogs: Arc::new(backlogs_in),
            owner,
        })
    }

    /// Where another part of the agent says what waits for each site.
    pub fn backlogs(&self) -> Arc<watch::Sender<Arc<Backlogs>>> {
        self.backlogs.clone()
    }

    /// For whoever lets operators decide.
    pub fn council(&self) -> Council {
        Council(self.events.clone())
    }

    /// What is known of the mesh: read it at any time, or wait for it to change.
    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// For whoever listens on the mesh port.
    pub fn acceptor(&self) -> MeshAcceptor {
        self.acceptor.clone()
    }

    /// For whoever forwards requests.
    pub fn dialer(&self) -> Dialer {
        self.dialer.clone()
    }

    /// See [`MeshAcceptor::serve_control`].
    pub fn serve_control(
        &self,
        accepted: Accepted,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.acceptor.serve_control(accepted)
    }

    /// Says something new of this site; peers hear it with the next beat.
    pub async fn announce(&self, announcement: Announcement) -> Result<(), MeshError> {
        check(&self.identity, &announcement)?;
        let event = Event::Announce(Box::new(announcement));
        self.events
            .send(event)
            .await
            .map_err(|_| MeshError::Stopped)
    }

    /// Ends the links, and returns when everything is saved.
    pub async fn stop(mut self) {
        if self.events.send(Event::Stop).await.is_ok() {
            let _ = (&mut self.owner).await;
        }
    }
}

/// Takes what operators decide. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub struct Council(mpsc::Sender<Event>);

impl Council {
    /// Decides something about a site. When this returns `Ok`, it survives a restart, and the rest
    /// of the mesh is being told. Returns the version of the [`View`] that shows it.
    pub async fn decide(&self, site: SiteName, decision: Decision) -> Result<u64, DecideError> {
        let (reply, answer) = oneshot::channel();
        let event = Event::Decide {
            site,
            decision,
            reply,
        };
        self.0.send(event).await.map_err(|_| DecideError::Stopped)?;
        answer.await.map_err(|_| DecideError::Stopped)?
    }

    /// How it is at this site, for the sites above.
    pub async fn report(&self, report: Report) {
        let _ = self.0.send(Event::Report(Box::new(report))).await;
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.owner.abort();
    }
}

fn check(identity: &Identity, announcement: &Announcement) -> Result<(), MeshError> {
    if announcement.site != *identity.site() {
        let (identity, named) = (identity.site().clone(), announcement.site.clone());
        return Err(MeshError::OtherSite { identity, named });
    }
    Ok(announcement.check()?)
}
