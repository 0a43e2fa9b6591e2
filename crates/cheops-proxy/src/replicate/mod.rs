//! Requests about resources that live on several sites.
//!
//! [`here()`] stands before the service of this site: a request that names a replicant is answered by
//! its local replica if it reads, and ordered by its log if it writes; anything else goes straight
//! on. [`spread`] carries out `a & b`. Clients see meta-ids only; the service sees its own.

mod answer;
mod body;
mod content;
mod documents;
mod ids;
mod list;
mod mention;
mod precondition;
mod queue;
mod read;
mod submission;
mod write;

use std::sync::Arc;

use cheops_core::ReplicantId;
use cheops_engine::replication::{Known, Population, Replication};
use cheops_model::{Guarantee, ServiceName, SiteName};
use cheops_rest::{Absent, Api, Item, Meaning};
use http::{Method, Response};

use crate::body::Body;
use crate::here::{self, Call};
use crate::peer;
use crate::problem::Problem;
use crate::route::Journey;
use crate::service::Service;
pub(crate) use answer::operation_url;
pub(crate) use documents::Documents;
use ids::{Ids, fits};
pub(crate) use mention::{Answered, Asked, Changes, Look, Mention};
pub(crate) use queue::{Queue, carry};
use write::Wanted;

/// What the data plane needs to know of one service to replicate its resources.
#[derive(Clone)]
pub(crate) struct Replicas {
    pub(crate) engine: Replication,
    pub(crate) api: Arc<Api>,
    pub(crate) service: ServiceName,
    pub(crate) here: SiteName,
    /// Of this service: ids of another one's replicants are not looked for.
    pub(crate) population: Population,
}

/// Where the resources of a scope live, and what is promised of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) sites: Vec<SiteName>,
    pub(crate) guarantee: Guarantee,
    /// What new resources lie below.
    pub(crate) parent: Option<ReplicantId>,
}

/// What a request has to do with the replicants of this site.
enum Concern {
    /// Nothing: straight to the service.
    None,
    /// It may name some in passing: ids are replaced.
    Mention(Mention),
    /// It reads one.
    Read(Arc<Known>),
    /// It changes one.
    Write(Arc<Known>, Wanted),
    /// It makes something below one, on the sites of that.
    Below(Arc<Known>),
    /// It names one that this site has no record of.
    Unknown(String),
}

/// Whether a request for this site's own service has anything to do with replicants. Asked of every
/// request: an ordinary one costs no lock and no allocation.
pub(crate) fn concerns(service: &Service, method: &Method, target: &str) -> bool {
    !matches!(service.replicas.concern(method, target), Concern::None)
}

/// The same, for whoever passes requests on as bytes.
pub(crate) enum Bearing {
    /// None.
    None,
    /// It may name some in passing.
    Mention(Mention),
    /// More than that.
    More,
}

/// What a request for this site's own service has to do with replicants. As cheap as [`concerns`].
pub(crate) fn bearing(service: &Service, method: &Method, target: &str) -> Bearing {
    match service.replicas.concern(method, target) {
        Concern::None => Bearing::None,
        Concern::Mention(mention) => Bearing::Mention(mention),
        Concern::Read(_) | Concern::Write(..) | Concern::Below(_) | Concern::Unknown(_) => {
            Bearing::More
        }
    }
}

/// A request for the service of this site, wherever it entered the mesh.
pub(crate) async fn here(journey: &Journey<'_>, call: Call) -> Result<Response<Body>, Problem> {
    let replicas = &journey.service.replicas;
    if call.upgrade.is_some() {
        return to_service(journey, call).await;
    }
    match replicas.concern(&call.head.method, target(&call)) {
        Concern::None => to_service(journey, call).await,
        Concern::Mention(Mention { kind }) => read::mention(journey, call, kind.as_deref()).await,
        Concern::Read(known) => read::replica(journey, &known, call).await,
        Concern::Write(known, wanted) => write::change(journey, &known, wanted, call).await,
        Concern::Below(parent) => {
            let spread = Spread {
                sites: parent.sites.to_vec(),
                guarantee: Guarantee::EVENTUAL,
                parent: Some(parent.id),
            };
            write::create(journey, &spread, call).await
        }
        Concern::Unknown(id) => Err(Problem::UnknownReplicant { id }),
    }
}

/// A request whose scope says `a & b`.
pub(crate) async fn spread(
    journey: &Journey<'_>,
    spread: &Spread,
    call: Call,
) -> Result<Response<Body>, Problem> {
    supported(&spread.guarantee)?;
    let replicas = &journey.service.replicas;
    let kind = {
        let target = target(&call);
        let meaning = replicas.classify(call.head.method.as_str(), target);
        Intent::of(&meaning, |item| replicas.find(item).is_some())
    };
    match kind {
        Intent::Create => write::create(journey, spread, call).await,
        Intent::List => list::merged(journey, &spread.sites, call).await,
        Intent::Known => here(journey, call).await,
        Intent::Read => journey.to_first_of(&spread.sites, call).await,
        Intent::Elsewhere if spread.sites.contains(&replicas.here) => {
            match replicas.concern(&call.head.method, target(&call)) {
                Concern::Unknown(id) => Err(Problem::UnknownReplicant { id }),
                _ => Err(Problem::NoReplicant),
            }
        }
        Intent::Elsewhere => elsewhere(journey, &spread.sites, call).await,
    }
}

/// A change to a resource that this site has no part in: to the first site that has and can be
/// reached. After it may have been executed there is no second try.
async fn elsewhere(
    journey: &Journey<'_>,
    sites: &[SiteName],
    call: Call,
) -> Result<Response<Body>, Problem> {
    let picture = journey.worker.picture();
    let name = &journey.service.config.name;
    let usable = sites.iter().find(|site| picture.usable(site, name));
    match usable {
        Some(site) => peer::send(journey, site, call).await,
        None => Err(Problem::NoUsableSite(sites.to_vec())),
    }
}

async fn to_service(journey: &Journey<'_>, call: Call) -> Result<Response<Body>, Problem> {
    let Journey {
        worker,
        service,
        trail,
        patience,
    } = journey;
    here::run(worker, service, call, *trail, patience).await
}

/// What a request under `a & b` wants.
enum Intent {
    Create,
    List,
    Read,
    /// Something with a replicant of this site.
    Known,
    /// Something with a resource that is no replicant here.
    Elsewhere,
}

impl Intent {
    fn of(meaning: &Meaning<'_>, known: impl Fn(&Item<'_>) -> bool) -> Intent {
        if meaning.item().is_some_and(&known) {
            return Intent::Known;
        }
        match meaning {
            Meaning::Create { .. } => Intent::Create,
            Meaning::Update {
                absent: Absent::Made,
                item,
            } if item.sub.is_empty() => Intent::Create,
            Meaning::List(_) => Intent::List,
            Meaning::Read(_) | Meaning::Other => Intent::Read,
            Meaning::Update { .. } | Meaning::Delete(_) | Meaning::Action(_) => Intent::Elsewhere,
        }
    }
}

/// Only what the log of a leader can promise is built.
fn supported(guarantee: &Guarantee) -> Result<(), Problem> {
    match guarantee {
        Guarantee::Eventual { .. } => Ok(()),
        Guarantee::None
        | Guarantee::Causal { .. }
        | Guarantee::Transactional { .. }
        | Guarantee::Strong { .. } => Err(Problem::NotImplemented(format!(
            "no agent replicates with the guarantee `{}` yet; leave it out for `eventual`",
            guarantee.kind()
        ))),
    }
}

pub(crate) fn target(call: &Call) -> &str {
    call.head
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str())
}

/// Whether there is room in a target for an id that this mesh made: 16 decimal or 32 hexadecimal
/// digits, maybe with dashes, maybe written with `%`.
fn may_hold_id(target: &str) -> bool {
    const SHORTEST: u32 = 16;
    let mut run = 0;
    for byte in target.bytes() {
        run = if DIGITS[usize::from(byte)] {
            run + 1
        } else {
            0
        };
        if run == SHORTEST || byte == b'%' {
            return true;
        }
    }
    false
}

/// What such an id is made of; looked up, since every local request is gone through.
const DIGITS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_hexdigit() || byte as u8 == b'-';
        byte += 1;
    }
    table
};

impl Replicas {
    fn ids(&self) -> Ids<'_> {
        Ids {
            index: self.engine.index(),
            service: self.service.as_str(),
        }
    }

    fn classify<'a>(&'a self, method: &str, target: &'a str) -> Meaning<'a> {
        let index = self.engine.index();
        let service = self.service.as_str();
        self.api
            .classify_knowing(method, target, |id| index.find(service, &id.text).is_some())
    }

    /// The replicant that an item is.
    fn find(&self, item: &Item<'_>) -> Option<Arc<Known>> {
        let known = self.engine.index().find(self.service.as_str(), item.id)?;
        fits(&known, item.id, item.spot.kind).then_some(known)
    }

    fn concern(&self, method: &Method, target: &str) -> Concern {
        let index = self.engine.index();
        // Where there is no replicant, which is nearly everywhere, only the id of one that is not
        // known here matters: nothing else has to be understood of the request.
        if self.population.is_empty() && !may_hold_id(target) {
            return Concern::None;
        }
        let meaning = self.classify(method.as_str(), target);
        let mention = || match self.population.is_empty() {
            true => Concern::None,
            false => Concern::Mention(Mention {
                kind: meaning.spot().map(|spot| spot.kind.to_owned()),
            }),
        };
        if let Meaning::Create { spot, .. } = &meaning {
            let parent = spot.parent.and_then(|(kind, id)| {
                let known = index.find(self.service.as_str(), id)?;
                fits(&known, id, kind).then_some(known)
            });
            return parent.map_or_else(mention, Concern::Below);
        }
        let Some(item) = meaning.item() else {
            return mention();
        };
        match self.find(item) {
            Some(known) => match Wanted::of(&meaning) {
                None => Concern::Read(known),
                Some(wanted) => Concern::Write(known, wanted),
            },
            None if index.recognises(item.id) => Concern::Unknown(item.id.to_owned()),
            None => mention(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::may_hold_id;

    #[test]
    fn what_can_be_an_id_is_not_overlooked() {
        for one in [
            "/images/6f1ed002-ab59-4f3b-8b5b-0123456789ab",
            "/images/6f1ed002ab594f3b8b5b0123456789ab/file?x=1",
            "/images/r-6f1ed002ab594f3b8b5b0123456789ab",
            "/items/4503599627370496",
            "/items/4503599627370496:stop",
            "/items/%34503599627370496",
        ] {
            assert!(may_hold_id(one), "{one}");
        }
        for none in [
            "/",
            "/v2.1/servers/detail?limit=20",
            "/items/450359962737049",
        ] {
            assert!(!may_hold_id(none), "{none}");
        }
    }
}
