//! Links between agents: how they find, greet and watch each other.
//!
//! Each agent has one TCP port for the mesh. Over mutual TLS 1.3 the name of ALPN says what a
//! connection is for, and in which version: control, forwarded requests or logs. Each agent keeps one
//! control link to every site it knows; whoever joins through any site learns of all. One task owns
//! the state ([`Mesh::start`]); everybody else reads the [`View`] it publishes.
//!
//! Sockets are listened on elsewhere: whoever does hands connections to a [`MeshAcceptor`].

mod accept;
mod announcement;
mod connect;
mod control;
mod dialer;
mod exchange;
mod handshake;
mod join;
mod known;
mod leash;
mod link;
mod message;
mod owner;
mod pause;
mod roster;
mod saved;
mod trips;
mod view;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use cheops_model::SiteName;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub use accept::{AcceptError, Accepted, Kind, MeshAcceptor};
pub use announcement::{
    Announcement, AnnouncementFault, PROTOCOL, ServiceAnnouncement, check_address, new_incarnation,
};
pub use connect::DialError;
pub use dialer::Dialer;
pub use leash::{Leash, Leashed};
pub use trips::RoundTrip;
pub use view::{SiteView, View};

use crate::identity::Identity;
use crate::limits::EVENTS_MAX;
use connect::Connector;
use link::Shared;
use message::{ALPN_CONTROL, ALPN_LOG, ALPN_REQUESTS};
use owner::{Event, Outlets, Owner};
use roster::{Change, Now, Roster};
use saved::Saved;

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
        } = config;
        check(&identity, &announcement)?;
        join.iter()
            .chain(routes.values())
            .try_for_each(|address| announcement::check_address(address))?;
        fs::create_dir_all(&data_dir).map_err(|source| MeshError::Data {
            path: data_dir.clone(),
            source,
        })?;
        let now = Now {
            instant: Instant::now(),
            time: SystemTime::now(),
        };
        let (mut roster, first) = Roster::new(announcement, Saved::load(&data_dir), now);

        let (events, inbox) = mpsc::channel(EVENTS_MAX);
        let (view_in, view) = watch::channel(Arc::new(roster.view(Change::Matter)));
        let (greeting_in, greeting) = watch::channel(Arc::new(roster.hello().greeting()));
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
        let owner = Owner::new(roster, outlets, shared, data_dir);
        let owner = tokio::spawn(owner.run(first, identity.site().clone(), join, inbox));
        Ok(Mesh {
            acceptor: MeshAcceptor::new(identity.clone(), events.clone()),
            dialer: Dialer::new(connector(ALPN_REQUESTS), connector(ALPN_LOG), view.clone()),
            identity,
            events,
            view,
            owner,
        })
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
