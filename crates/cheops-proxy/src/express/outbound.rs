//! From an ordinary request to the bytes that its service gets, and what is to be known of it.

use std::rc::Rc;
use std::time::Instant;

use cheops_engine::replication::Replaced;
use cheops_model::SiteName;
use http::{HeaderValue, Method};

use super::lines::write_line;
use super::request::Ordinary;
use crate::carrier::Carrier;
use crate::correlation::Trail;
use crate::entry::{AccessLine, Connection, Told};
use crate::headers;
use crate::here::Called;
use crate::limits;
use crate::replicate::{self, Asked, Bearing, Mention};
use crate::scope::{Decision, Route};
use crate::service::Service;
use crate::worker::Worker;

/// What is known of a request until it is answered.
pub(super) struct Ticket {
    pub(super) told: Told,
    pub(super) method: Method,
    /// The scope says nothing of the service.
    pub(super) unbound: bool,
    pub(super) called: Called,
    /// Ids of replicants may stand in its answer.
    pub(super) mention: Option<Mention>,
}

/// Writes what the service gets to `out`. `None` if it is not for this site's own service alone, or
/// is to be refused: the request is left to the HTTP library.
pub(super) fn write(
    connection: &Connection,
    mut request: Ordinary<'_, '_>,
    out: &mut Vec<u8>,
) -> Option<Ticket> {
    let (worker, started) = (&connection.worker, Instant::now());
    let service = connection.doorway.only()?;
    if service.homes.is_some() || takes_detour(&service) {
        return None;
    }
    let placed = place(worker, &service, &request, started)?;
    let unbound = match &placed {
        Some(placed) if !matches!(placed.decision.route, Route::Here) => return None,
        Some(placed) => placed.decision.unbound,
        None => false,
    };
    let mention = match replicate::bearing(&service, &request.method, request.target) {
        Bearing::None => None,
        Bearing::Mention(mention) if passes(&mention, &service, &mut request) => Some(mention),
        Bearing::Mention(_) | Bearing::More => return None,
    };
    let replaced = match placed {
        Some(placed) if !service.config.carriers.is_empty() => {
            let trail = placed.trail();
            replace(worker, &service, &mut request, &trail, started)?
        }
        _ => Vec::new(),
    };
    out.clear();
    request.lines.write(request.without, out);
    for Replaced { header, ours, .. } in &replaced {
        write_line(out, header.as_str(), ours.as_bytes());
    }
    if mention.is_some() {
        write_line(out, "accept-encoding", b"identity");
    }
    write_line(out, "forwarded", connection.forwarded.as_bytes());
    write_line(out, "via", worker.stamps.via.as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(request.body);
    let logged = worker.access_log.get().then(|| AccessLine {
        method: request.method.clone(),
        path: request.target.split('?').next().unwrap_or("/").to_owned(),
    });
    Some(Ticket {
        unbound,
        mention,
        called: Called {
            is_safe: request.method.is_safe(),
            may_leave: false,
            limit: service.config.deadline,
            pass: None,
            replaced,
        },
        method: request.method,
        told: Told {
            service: Some(service),
            started,
            open: connection.idle.begin(),
            logged,
        },
    })
}

/// Whether no id in a request is to be replaced. Its answer has to come in plain bytes then, in which ids
/// can be.
fn passes(mention: &Mention, service: &Service, request: &mut Ordinary<'_, '_>) -> bool {
    let api = &service.replicas.api;
    let replaced = service.config.carriers.iter().any(|carrier| match carrier {
        Carrier::Correlate(correlate) => api.holds_ids(correlate.header.as_str()),
        Carrier::Header | Carrier::Baggage => false,
    });
    let asked = Asked {
        method: &request.method,
        target: request.target,
        headers: request.lines.headers,
        body: request.body,
    };
    if replaced || !mention.asks_as_it_is(&service.replicas, &asked) {
        return false;
    }
    for (place, header) in request.lines.headers.iter().enumerate() {
        if header.name.eq_ignore_ascii_case("accept-encoding") {
            request.without.add(place);
        }
    }
    true
}

/// Whether the service's answers were not plain of late.
fn takes_detour(service: &Service) -> bool {
    let left = service.detours.get();
    service.detours.set(left.saturating_sub(1));
    left > 0
}

/// What a scope means for a request, and where it comes from.
struct Placed {
    decision: Rc<Decision>,
    entry: SiteName,
    hops: u32,
}

impl Placed {
    fn trail(self) -> Trail {
        Trail {
            scope: self.decision.scope.clone(),
            entry: self.entry,
            hops: self.hops,
        }
    }
}

/// The scope of a request, if it has any: its own, or the one its workflow came with. `None` if
/// there is more to say of it.
fn place(
    worker: &Worker,
    service: &Service,
    request: &Ordinary<'_, '_>,
    now: Instant,
) -> Option<Option<Placed>> {
    if let Some(text) = request.scope {
        let allowed = service.config.accept_scope;
        return allowed.then(|| decide(worker, service, text, worker.here.clone(), 0).map(Some))?;
    }
    for carrier in &service.carriers_in {
        // A request with baggage is not ordinary, and with a scope of its own it is not here.
        let Carrier::Correlate(correlate) = carrier else {
            continue;
        };
        let value = request.header(correlate.header.as_str()).ok()?;
        let memory = &worker.correlation;
        if let Some(found) = value.and_then(|(_, value)| memory.find(correlate, value, now)) {
            let (text, hops) = (found.scope.as_bytes(), found.hops + 1);
            return decide(worker, service, text, found.entry, hops).map(Some);
        }
    }
    // Rules look at the request in ways of their own.
    service.rules.is_empty().then_some(None)
}

fn decide(
    worker: &Worker,
    service: &Service,
    text: &[u8],
    entry: SiteName,
    hops: u32,
) -> Option<Placed> {
    let decided = service
        .decider
        .decide(&worker.picture_now(), &entry, text)
        .ok()?;
    (hops <= limits::HOPS_MAX).then_some(Placed {
        decision: decided,
        entry,
        hops,
    })
}

/// Gives the scope to the service the ways it asked for: lines to add, and those of the client that
/// they stand for.
fn replace(
    worker: &Worker,
    service: &Service,
    request: &mut Ordinary<'_, '_>,
    trail: &Trail,
    now: Instant,
) -> Option<Vec<Replaced>> {
    let mut replaced = Vec::new();
    for carrier in &service.config.carriers {
        match carrier {
            Carrier::Baggage => return None,
            Carrier::Header => replaced.push(Replaced {
                header: headers::SCOPE,
                ours: trail.scope.clone(),
                own: None,
            }),
            Carrier::Correlate(correlate) => {
                let found = request.header(correlate.header.as_str()).ok()?;
                let own = found.map(|(_, value)| value);
                let ours = worker.correlation.remember(correlate, own, trail, now);
                if let Some((place, _)) = found {
                    request.without.add(place);
                }
                replaced.push(Replaced {
                    header: correlate.header.clone(),
                    ours: ours.ok()?,
                    own: own.and_then(|own| HeaderValue::from_bytes(own).ok()),
                });
            }
        }
    }
    Some(replaced)
}
