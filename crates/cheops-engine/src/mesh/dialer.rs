//! Connections for forwarded requests and for logs, made where they are used.

use std::sync::Arc;

use cheops_model::SiteName;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_rustls::client::TlsStream;

use super::connect::{Connector, DialError};
use super::owner::Event;
use super::view::View;

/// Dials sites. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub struct Dialer {
    requests: Connector,
    log: Connector,
    blob: Connector,
    view: watch::Receiver<Arc<View>>,
    events: mpsc::Sender<Event>,
}

impl Dialer {
    pub(super) fn new(
        [requests, log, blob]: [Connector; 3],
        view: watch::Receiver<Arc<View>>,
        events: mpsc::Sender<Event>,
    ) -> Dialer {
        Dialer {
            requests,
            log,
            blob,
            view,
            events,
        }
    }

    /// A connection to `site`, whose certificate was checked to be its own, ready for HTTP/2.
    /// Takes 2 s at most. It is not asked whether the site is believed to be in reach.
    pub async fn dial_requests(&self, site: &SiteName) -> Result<TlsStream<TcpStream>, DialError> {
        let address = self.address(site)?;
        let connected = self.requests.connect_to(site, &address).await?;
        Ok(connected.stream)
    }

    /// The same for what is told about replicants.
    pub async fn dial_log(&self, site: &SiteName) -> Result<TlsStream<TcpStream>, DialError> {
        let address = self.address(site)?;
        let connected = self.log.connect_to(site, &address).await?;
        Ok(connected.stream)
    }

    /// The same for contents that are too long for a log.
    pub async fn dial_blob(&self, site: &SiteName) -> Result<TlsStream<TcpStream>, DialError> {
        let address = self.address(site)?;
        let connected = self.blob.connect_to(site, &address).await?;
        Ok(connected.stream)
    }

    /// Where the site is. Whoever asks is about to use it, which is worth a link: if it cannot be
    /// told of now, the next time will do.
    fn address(&self, site: &SiteName) -> Result<String, DialError> {
        let _ = self.events.try_send(Event::Used { site: site.clone() });
        let view = self.view.borrow();
        let known = view
            .sites
            .get(site)
            .and_then(|known| known.advertise.clone());
        known.ok_or_else(|| DialError::NoAddress { site: site.clone() })
    }
}
