//! A listener, as one thread sees it: where it leads now, and whether it is still open.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cheops_model::ServiceName;
use http::uri::Authority;
use http::{Uri, header};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use crate::claim::HostClaim;
use crate::config::{Door, ListenerConfig};
use crate::problem::Problem;
use crate::service::Service;
use crate::worker::Worker;

/// Where clients come in. Connections keep it, so a change reaches those that are open too.
pub(crate) struct Doorway {
    tls: RefCell<Option<TlsAcceptor>>,
    way: RefCell<Way>,
    closed: Cell<bool>,
    bell: Notify,
}

/// Where it leads.
enum Way {
    One(Rc<Service>),
    /// The end of a tunnel: whatever serves under that name when it is asked.
    Named(ServiceName),
    Shared(Vec<Rc<Service>>),
    Forward(Vec<Rc<Service>>),
}

impl Way {
    fn of(listener: &ListenerConfig, services: &[Rc<Service>]) -> Way {
        let all = || services.to_vec();
        match &listener.door {
            Door::Service(name) => {
                let found = services.iter().find(|service| service.config.name == *name);
                found.map_or_else(|| Way::Named(name.clone()), |found| Way::One(found.clone()))
            }
            Door::Shared => Way::Shared(all()),
            Door::Forward => Way::Forward(all()),
        }
    }
}

impl Doorway {
    pub(crate) fn new(listener: &ListenerConfig, services: &[Rc<Service>]) -> Doorway {
        Doorway {
            tls: RefCell::new(listener.tls.clone().map(TlsAcceptor::from)),
            way: RefCell::new(Way::of(listener, services)),
            closed: Cell::new(false),
            bell: Notify::new(),
        }
    }

    /// The end of a tunnel to a service.
    pub(crate) fn within_tunnel(service: &Service) -> Doorway {
        Doorway {
            tls: RefCell::new(service.config.tls.clone()),
            way: RefCell::new(Way::Named(service.config.name.clone())),
            closed: Cell::new(false),
            bell: Notify::new(),
        }
    }

    /// Leads elsewhere from the next request on; TLS changes with the next connection.
    pub(crate) fn lead(&self, listener: &ListenerConfig, services: &[Rc<Service>]) {
        self.tls
            .replace(listener.tls.clone().map(TlsAcceptor::from));
        self.way.replace(Way::of(listener, services));
    }

    /// No further connection, and the open ones end with their requests.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.bell.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Ends when the doorway is closed; one at a time may wait.
    pub(crate) async fn closing(&self) {
        while !self.is_closed() {
            self.bell.notified().await;
        }
    }

    pub(crate) fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.borrow().clone()
    }

    /// The service that every request is for, if there is only one.
    pub(crate) fn only(&self) -> Option<Rc<Service>> {
        match &*self.way.borrow() {
            Way::One(service) => Some(service.clone()),
            Way::Named(_) | Way::Shared(_) | Way::Forward(_) => None,
        }
    }

    /// The service that a request is for.
    pub(crate) fn choose<B>(
        &self,
        worker: &Worker,
        request: &http::Request<B>,
    ) -> Result<Rc<Service>, Problem> {
        match &*self.way.borrow() {
            Way::One(service) => Ok(service.clone()),
            Way::Named(name) => worker.service(name).ok_or_else(|| gone(name)),
            Way::Shared(services) => {
                let host = host_of(request)?;
                let path = request.uri().path();
                let fits = |service: &Service| service.config.claim.at_shared(host.as_ref(), path);
                best(services, fits).ok_or_else(|| unclaimed(host.as_ref(), path))
            }
            Way::Forward(services) => {
                let asked = request.uri().authority().ok_or_else(not_whole)?;
                let (asked, path) = (read(asked.as_str())?, request.uri().path());
                let fits = |service: &Service| service.config.claim.at_forward(&asked, path);
                best(services, fits).ok_or_else(never_elsewhere)
            }
        }
    }

    /// The service that a tunnel is asked to; at a forward proxy alone.
    pub(crate) fn choose_tunnel(&self, uri: &Uri) -> Result<Rc<Service>, Problem> {
        let way = self.way.borrow();
        let (Way::Forward(services), Some(asked)) = (&*way, uri.authority()) else {
            return Err(never_elsewhere());
        };
        let asked = read(asked.as_str())?;
        best(services, |service| service.config.claim.at_tunnel(&asked)).ok_or_else(never_elsewhere)
    }
}

fn best<T: Ord>(
    services: &[Rc<Service>],
    fits: impl Fn(&Service) -> Option<T>,
) -> Option<Rc<Service>> {
    let fitting = services.iter().filter_map(|s| Some((fits(s)?, s)));
    let best = fitting.max_by(|one, two| one.0.cmp(&two.0));
    best.map(|(_, service)| service.clone())
}

/// The host that a request names: in its target before in `Host`.
fn host_of<B>(request: &http::Request<B>) -> Result<Option<HostClaim>, Problem> {
    if let Some(authority) = request.uri().authority() {
        return read(authority.as_str()).map(Some);
    }
    let Some(value) = request.headers().get(header::HOST) else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| bad_host())?;
    // An empty one is allowed, and names nothing.
    (!text.is_empty()).then(|| read(text)).transpose()
}

fn read(text: &str) -> Result<HostClaim, Problem> {
    let _: Authority = text.parse().map_err(|_| bad_host())?;
    text.parse().map_err(|_| bad_host())
}

fn bad_host() -> Problem {
    Problem::BadRequest("the host is not one".to_owned())
}

fn not_whole() -> Problem {
    let detail = "a forward proxy is asked for a whole URL, such as http://image/v2/images";
    Problem::BadRequest(detail.to_owned())
}

fn gone(name: &ServiceName) -> Problem {
    Problem::NotFound(format!("{name} is no longer served here"))
}

fn unclaimed(host: Option<&HostClaim>, path: &str) -> Problem {
    let host = host.map_or_else(|| "no host".to_owned(), ToString::to_string);
    Problem::NotFound(format!("no service here answers for {host} and {path}"))
}

fn never_elsewhere() -> Problem {
    let detail = "an agent forwards to registered services only, never to an address";
    Problem::ForbiddenByPolicy(detail.to_owned())
}
