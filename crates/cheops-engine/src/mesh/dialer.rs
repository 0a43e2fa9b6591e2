//! Connections for forwarded requests, made where requests are served.

use std::sync::Arc;

use cheops_model::SiteName;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;

use super::connect::{Connector, DialError};
use super::view::View;

/// Dials sites for requests. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub struct Dialer {
    connector: Connector,
    view: watch::Receiver<Arc<View>>,
}

impl Dialer {
    pub(super) fn new(connector: Connector, view: watch::Receiver<Arc<View>>) -> Dialer {
        Dialer { connector, view }
    }

    /// A connection to `site`, whose certificate was checked to be its own, ready for HTTP/2.
    /// Takes 2 s at most. It is not asked whether the site is believed to be in reach.
    pub async fn dial_requests(&self, site: &SiteName) -> Result<TlsStream<TcpStream>, DialError> {
        let address = self.address(site)?;
        let connected = self.connector.connect_to(site, &address).await?;
        Ok(connected.stream)
    }

    fn address(&self, site: &SiteName) -> Result<String, DialError> {
        let view = self.view.borrow();
        let known = view
            .sites
            .get(site)
            .and_then(|known| known.advertise.clone());
        known.ok_or_else(|| DialError::NoAddress { site: site.clone() })
    }
}
