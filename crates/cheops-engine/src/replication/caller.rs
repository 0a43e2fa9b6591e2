//! Operations run on the local service: meta-ids become this site's ids on the way there, and the
//! other way round on the way back.

mod bring;
mod content;
mod create;
mod look;
mod renewed;
mod run;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use cheops_core::operation::{Fields, Refusal};
use cheops_core::{Call, CallId, MeshKey, Operation, OperationId, Outcome, ReplicantId, Wait};
use cheops_model::SiteName;
use cheops_rest::{Api, Body, CallKind, Class, Id, Side};
use http_body_util::Full;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::aside::give_way;
use super::blobs::Blobs;
use super::http::{Heard, Silence, Way};
use super::index::Index;
use super::limits::BRINGS_MAX;
use super::replaced::Replaced;
use super::shard::{Inbox, Input};
use super::wire::{self, Asked, Replied};
use super::{Carry, ReplicatedService, Shown};
use crate::mesh::Dialer;
use crate::picture::Picture;
use renewed::Renewed;

/// The request cannot be made of what is known.
const UNPROCESSABLE: u16 = 422;
/// Between `request` and the call: how the service gets it is not decided here.
const SCOPE: HeaderName = HeaderName::from_static("x-scope");

/// One call, with what the core does not know.
pub(super) struct Job {
    pub(super) replicant: ReplicantId,
    pub(super) service: String,
    pub(super) call: Call,
    /// How the replicant was made.
    pub(super) create: Option<Asked>,
    /// Its newest request: in whose name it is settled.
    pub(super) latest: Option<Asked>,
    /// Where the request entered that it is made for.
    pub(super) origin: Option<SiteName>,
    /// Everything clients wrote.
    pub(super) desired: Fields,
    /// Who may have a content of it.
    pub(super) sites: Vec<SiteName>,
}

/// Calls the services of this site. Cheap to clone.
#[derive(Clone)]
pub(super) struct Caller(Arc<Inner>);

struct Inner {
    /// As configured now: a reload brings others.
    services: RwLock<HashMap<String, Arc<Service>>>,
    /// Contents on their way from other sites, each whole in memory.
    brings: Semaphore,
    of: CallerParts,
    renewed: Renewed,
}

/// What a caller knows besides the services.
pub(super) struct CallerParts {
    pub(super) here: SiteName,
    pub(super) index: Arc<Index>,
    pub(super) key: MeshKey,
    pub(super) runtime: Handle,
    pub(super) dialer: Dialer,
    pub(super) pictures: watch::Receiver<Arc<Picture>>,
    pub(super) blobs: Blobs,
    pub(super) shown: Shown,
    pub(super) carry: Carry,
}

impl std::ops::Deref for Inner {
    type Target = CallerParts;

    fn deref(&self) -> &CallerParts {
        &self.of
    }
}

impl Inner {
    fn asked(&self, op: &Operation) -> Option<Asked> {
        let asked = wire::decode(&op.rest)?;
        Some(self.renewed.over(op.id, asked))
    }
}

struct Service {
    name: String,
    api: Arc<Api>,
    way: Way,
}

impl Caller {
    pub(super) fn new(of: CallerParts, services: Vec<ReplicatedService>) -> Caller {
        Caller(Arc::new(Inner {
            services: RwLock::new(by_name(services)),
            brings: Semaphore::new(BRINGS_MAX),
            of,
            renewed: Renewed::default(),
        }))
    }

    /// Whether a call waits until this site takes changes from elsewhere again. To look is no
    /// change; to settle brings along what others have done.
    fn is_held(&self, job: &Job) -> bool {
        let held = self.0.pictures.borrow().view.held;
        held && match &job.call {
            Call::Probe { .. } => false,
            Call::Settle { .. } => true,
            Call::Create { op, .. } | Call::Run { op, .. } => op.origin != self.0.here,
            Call::Delete { .. } => job.origin.as_ref() != Some(&self.0.here),
        }
    }

    /// From now on these services are called; calls under way end where they began.
    pub(super) fn set_services(&self, services: Vec<ReplicatedService>) {
        let mut now = self.0.services.write().unwrap_or_else(|e| e.into_inner());
        *now = by_name(services);
    }

    fn service(&self, name: &str) -> Option<Arc<Service>> {
        let services = self.0.services.read().unwrap_or_else(|e| e.into_inner());
        services.get(name).cloned()
    }

    /// What has to be known of a service's API.
    pub(super) fn api(&self, service: &str) -> Option<Arc<Api>> {
        self.service(service).map(|service| service.api.clone())
    }

    /// The request that an operation stands for, with the credentials its caller gave last.
    pub(super) fn asked(&self, op: &Operation) -> Option<Asked> {
        self.0.asked(op)
    }

    /// From now on an operation is run with these headers in place of those it came with.
    pub(super) fn renew(&self, op: OperationId, headers: Vec<(String, Vec<u8>)>) {
        self.0.renewed.put(op, headers);
    }

    /// Makes the call in its own time; its outcome comes to `door`.
    pub(super) fn call(&self, job: Job, door: Inbox, (life, call): (u64, CallId)) {
        let caller = self.clone();
        let runtime = match content::is_in(&job.call) {
            true => self.0.blobs.runtime(),
            false => &self.0.runtime,
        };
        runtime.spawn(async move {
            let what = (job.replicant, word(&job.call));
            let outcome = Box::new(caller.run(job).await);
            tracing::debug!(replicant = ?what.0, call = what.1, outcome = told(&outcome), "called a service");
            // The agent stops if nobody hears it.
            let _ = door.put(Input::Outcome {
                life,
                call,
                outcome,
            });
            give_way();
        });
    }

    async fn run(&self, job: Job) -> Outcome {
        if self.is_held(&job) {
            return Outcome::Waits(Wait::Held);
        }
        let Some(service) = self.service(&job.service) else {
            // Not configured here now: tried again, since it may be after the next start.
            return Outcome::NotSent;
        };
        let mut sites = job.sites;
        if let Call::Run { op, .. } | Call::Create { op, .. } = &job.call {
            // Where it entered has its content, whether or not it lives there.
            sites.push(op.origin.clone());
        }
        let desk = Desk {
            inner: &self.0,
            service: &service,
            replicant: job.replicant,
            create: job.create,
            latest: job.latest,
            desired: job.desired,
            sites,
        };
        match job.call {
            Call::Create { op, fields } => desk.create(&op, &fields).await,
            Call::Run { op, local } => desk.run(&op, local.as_deref()).await,
            Call::Settle {
                local,
                fields,
                unset,
            } => desk.settle(&local, &fields, &unset).await,
            Call::Delete {
                local,
                only_if,
                knows,
            } => desk.delete(&local, only_if.as_ref(), &knows).await,
            Call::Probe { how, op, fields } => desk.probe(how, &op, &fields).await,
        }
    }
}

fn word(call: &Call) -> &'static str {
    match call {
        Call::Create { .. } => "create",
        Call::Run { .. } => "run",
        Call::Settle { .. } => "settle",
        Call::Delete { .. } => "delete",
        Call::Probe { .. } => "probe",
    }
}

/// What a log may say of an outcome: nothing that a client sent or a service said.
fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied { status, .. } => format!("applied {status}"),
        Outcome::Refused { class, status, .. } => format!("refused {status} {class:?}"),
        Outcome::NotSent => "not sent".to_owned(),
        Outcome::Waits(wait) => format!("waits {wait:?}"),
        Outcome::Unknown => "unknown".to_owned(),
        Outcome::Found(found) => match found {
            cheops_core::operation::Found::Ours(_) => "found it".to_owned(),
            cheops_core::operation::Found::None => "found nothing".to_owned(),
            cheops_core::operation::Found::Several => "found several".to_owned(),
        },
    }
}

fn by_name(services: Vec<ReplicatedService>) -> HashMap<String, Arc<Service>> {
    let service = |service: ReplicatedService| {
        let made = Service {
            name: service.name.clone(),
            api: service.api,
            way: Way::new(service.endpoints, service.deadline),
        };
        (service.name, Arc::new(made))
    };
    services.into_iter().map(service).collect()
}

/// One call being made.
struct Desk<'a> {
    inner: &'a Inner,
    service: &'a Service,
    replicant: ReplicantId,
    create: Option<Asked>,
    latest: Option<Asked>,
    desired: Fields,
    sites: Vec<SiteName>,
}

/// A request in the ids of this site, or why it cannot be made.
struct Local {
    target: String,
    body: Vec<u8>,
}

impl Desk<'_> {
    fn api(&self) -> &Api {
        &self.service.api
    }

    /// Whose rights, and whatever else the request came with.
    fn name(&self) -> Option<&Asked> {
        self.latest.as_ref().or(self.create.as_ref())
    }

    fn asked(&self, op: &Operation) -> Option<Asked> {
        self.inner.asked(op)
    }

    /// What this site calls what clients call `id`; its own resource as `own`.
    fn to_local<'m>(&self, id: &Id<'_>, own: Option<&'m str>) -> Option<Cow<'m, str>> {
        let known = self.inner.index.find(&self.service.name, &id.text)?;
        if *known.meta != *id.text || !id.fits(&known.kind) {
            return None;
        }
        if known.id == self.replicant {
            return own.map(Cow::Borrowed);
        }
        known
            .local
            .as_deref()
            .map(|local| Cow::Owned(local.to_owned()))
    }

    /// What clients call what this site calls `id`; what was just made as `made`.
    fn to_meta<'m>(
        &self,
        id: &Id<'_>,
        made: Option<(&str, &'m str, &str)>,
    ) -> Option<Cow<'m, str>> {
        if let Some((local, meta, kind)) = made
            && *local == *id.text
            && id.fits(kind)
        {
            return Some(Cow::Borrowed(meta));
        }
        let known = self.inner.index.find(&self.service.name, &id.text)?;
        let fits = known.local.as_deref() == Some(&*id.text) && id.fits(&known.kind);
        fits.then(|| Cow::Owned(known.meta.to_string()))
    }

    /// The request as the service of this site reads it. `Err` if it names what is not here.
    fn localise(&self, asked: &Asked, own: Option<&str>) -> Result<Local, Outcome> {
        let missing = std::cell::Cell::new(false);
        let map = |id: &Id<'_>| {
            let named = own.filter(|own| **own == *id.text).map(Cow::Borrowed);
            let local = named.or_else(|| self.to_local(id, own));
            if local.is_none() && self.inner.key.recognises(&id.text) {
                let elsewhere = asked.is_foreign(&id.text)
                    || !self.inner.index.find_anywhere(&id.text).is_empty();
                missing.set(missing.get() || !elsewhere);
            }
            local
        };
        let target = self.api().rewrite_target(&asked.path, map).into_owned();
        let media = text(asked.header("content-type"));
        let body = Body {
            side: Side::Request,
            kind: Some(&asked.kind),
            media,
            encoding: text(asked.header("content-encoding")),
            bytes: &asked.body,
        };
        let body = self.api().rewrite_body(&body, map);
        if missing.get() {
            return Err(Outcome::Waits(Wait::Dependency));
        }
        let body = body.map_err(|_| refused(Refusal::Verdict, UNPROCESSABLE))?;
        Ok(Local {
            target,
            body: body.into_owned(),
        })
    }

    /// A collection or item in the ids of this site.
    fn local_path(&self, path: &str) -> String {
        let map = |id: &Id<'_>| self.to_local(id, None);
        self.api().rewrite_target(path, map).into_owned()
    }

    /// Before a call: the service may have a value checked while it answers. What is to be restored then is told.
    fn show(&self, headers: &mut HeaderMap) -> Vec<Replaced> {
        if let Some(told) = headers.remove(wire::HOMES) {
            (self.inner.shown)(&told, headers);
        }
        (self.inner.carry)(&self.service.name, headers)
    }

    async fn ask(&self, mut request: Request<Full<Bytes>>, max: usize) -> Result<Heard, Outcome> {
        let replaced = self.show(request.headers_mut());
        match self.service.way.ask(request, max).await {
            Ok(heard) => Ok(heard.restored(replaced)),
            Err(Silence::NotSent) => Err(Outcome::NotSent),
            Err(Silence::Unknown) => Err(Outcome::Unknown),
        }
    }

    /// What an answer means for the core.
    fn outcome(
        &self,
        call: CallKind,
        heard: &Heard,
        asked: &Asked,
        local: Option<&str>,
    ) -> Outcome {
        let status = heard.status.as_u16();
        let body = heard.body.as_deref().unwrap_or_default();
        match self.api().class(call, status, body) {
            Class::Applied => Outcome::Applied {
                status,
                local: local.map(str::to_owned),
                body: self.replied(heard, asked, local),
            },
            Class::Verdict => self.said_no(Refusal::Verdict, heard, asked),
            Class::NoRoom => self.said_no(Refusal::NoRoom, heard, asked),
            Class::NotReady => self.said_no(Refusal::NotReady, heard, asked),
            Class::Unknown => Outcome::Unknown,
        }
    }

    fn said_no(&self, class: Refusal, heard: &Heard, asked: &Asked) -> Outcome {
        Outcome::Refused {
            class,
            status: heard.status.as_u16(),
            body: self.replied(heard, asked, None),
        }
    }

    /// The answer as clients are to see it. `made` is the local id of what a create has made.
    fn replied(&self, heard: &Heard, asked: &Asked, made: Option<&str>) -> Vec<u8> {
        let meta = made.map(|local| self.meta_of(local));
        let made = made
            .zip(meta.as_deref())
            .map(|(local, meta)| (local, meta, asked.kind.as_str()));
        let map = |id: &Id<'_>| self.to_meta(id, made);
        let body = heard.body.as_deref().unwrap_or_default();
        let header = |name: HeaderName| heard.headers.get(name).and_then(|v| v.to_str().ok());
        let answer = Body {
            side: Side::Answer,
            kind: Some(&asked.kind),
            media: header(header::CONTENT_TYPE),
            encoding: header(header::CONTENT_ENCODING),
            bytes: body,
        };
        // An answer that cannot be rewritten is not shown: it would name what clients do not know.
        let body = self.api().rewrite_body(&answer, map).unwrap_or_default();
        let mut headers = Vec::new();
        for (name, value) in &heard.headers {
            if !passes_back(name) {
                continue;
            }
            let value = match value.to_str() {
                Ok(text) => self
                    .api()
                    .rewrite_header(name.as_str(), text, map)
                    .into_owned()
                    .into_bytes(),
                Err(_) => value.as_bytes().to_vec(),
            };
            headers.push((name.as_str().to_owned(), value));
        }
        wire::encode(&Replied {
            headers,
            body: body.into_owned(),
            site: self.inner.here.to_string(),
        })
    }

    /// What clients call what this service calls `local`.
    fn meta_of(&self, local: &str) -> String {
        match self.inner.index.get(self.replicant) {
            Some(known) => known.meta.to_string(),
            None => {
                let shape = cheops_core::Shape::of(local);
                self.inner.key.meta_id(self.replicant, shape)
            }
        }
    }
}

fn refused(class: Refusal, status: u16) -> Outcome {
    Outcome::Refused {
        class,
        status,
        body: Vec::new(),
    }
}

fn text(value: Option<&[u8]>) -> Option<&str> {
    value.and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// What of a request goes to the service again.
pub(super) enum With<'a> {
    /// Everything, preconditions of the entry site aside.
    All(&'a Api),
    /// What says who asks, and nothing of the content.
    Rights,
}

/// A request of the applier's.
fn request(
    method: &str,
    target: &str,
    asked: &Asked,
    with: &With<'_>,
    body: Vec<u8>,
) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::builder().method(method).uri(target);
    let headers = request.headers_mut()?;
    for (name, value) in asked
        .headers
        .iter()
        .filter(|(name, _)| name != wire::FOREIGN)
    {
        let passes = match with {
            With::All(api) => !api.is_precondition(name),
            With::Rights => !wire::is_of_content(name),
        };
        let pair = HeaderName::try_from(name.as_str())
            .ok()
            .zip(HeaderValue::from_bytes(value).ok());
        if let Some((name, value)) = pair.filter(|_| passes) {
            headers.append(name, value);
        }
    }
    if let (With::All(_), Some(scope)) = (with, &asked.scope)
        && let Ok(scope) = HeaderValue::from_str(scope)
    {
        headers.insert(SCOPE, scope);
    }
    headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    if !headers.contains_key(header::HOST) {
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    }
    if body.is_empty() && matches!(method, "GET" | "DELETE" | "HEAD") {
        headers.remove(header::CONTENT_TYPE);
    }
    request.body(Full::new(Bytes::from(body))).ok()
}

/// Headers of an answer that mean something to whoever asked, at whatever site.
fn passes_back(name: &HeaderName) -> bool {
    let name = name.as_str();
    let of_hop = matches!(
        name,
        "connection"
            | "keep-alive"
            | "transfer-encoding"
            | "te"
            | "upgrade"
            | "content-length"
            | "date"
            | "trailer"
            | "via"
    );
    !of_hop && !name.starts_with("proxy-") && !name.starts_with("x-cheops-")
}

fn pairs(headers: &HeaderMap) -> Vec<(&str, &str)> {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
        .collect()
}
