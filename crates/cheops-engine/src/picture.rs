//! The world as this agent sees it now: what scopes are resolved against, and who can be reached.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cheops_core::membership::limits::NEAR_ERROR;
use cheops_core::membership::{Against, Coordinate, StandingWord, trip_in};
use cheops_model::{Guarantee, Labels, Mark, ServiceName, SiteName};
use cheops_scope::{RoundTrips, SiteIndex, World};
use tokio::sync::watch;

use crate::mesh::{Announcement, SiteView, View};

/// A snapshot. Requests read it; only a new view of the mesh makes a new one.
pub struct Picture {
    /// Grows when a plan could come out otherwise, or another site came or went.
    pub version: u64,
    /// This site.
    pub here: SiteName,
    /// What scopes are resolved against.
    pub world: Arc<World>,
    /// Every known site.
    pub view: Arc<View>,
    /// Which sites run which services; this site's are not in it.
    runs: Arc<HashSet<(SiteName, ServiceName)>>,
}

/// A service of this site, as scopes see it.
#[derive(Clone, Debug)]
pub struct LocalService {
    /// Its registered name.
    pub name: ServiceName,
    /// Its other names.
    pub aliases: Vec<ServiceName>,
    /// What `&` and `+` promise when the scope does not say.
    pub default: Guarantee,
}

impl Picture {
    /// What is known of a site's state, for requests: one that is synchronizing is connected.
    pub fn mark(&self, site: &SiteName) -> Mark {
        let mark = self.view.sites.get(site).map(|known| known.mark);
        match mark.unwrap_or(Mark::Unknown) {
            Mark::Synchronizing => Mark::Connected,
            mark => mark,
        }
    }

    /// Whether this site may address another; else why not.
    pub fn allows(&self, from: &SiteName, to: &SiteName) -> Result<(), Against> {
        self.view.tree.allows(from, to)
    }

    /// The site to send a request for `site` to: itself if our own path works or nothing better is
    /// known, else the one on the way down that is nearest to it and linked.
    pub fn next_hop(&self, site: &SiteName) -> SiteName {
        let linked = |site: &SiteName| self.view.sites.get(site).is_some_and(|known| known.linked);
        if linked(site) {
            return site.clone();
        }
        let between = self.view.tree.between(&self.here, site);
        let hop = between.into_iter().find(|hop| linked(hop));
        hop.unwrap_or(site).clone()
    }

    /// The round trip between any two sites: measured, or estimated from where they lie.
    pub fn round_trip(&self, from: &SiteName, to: &SiteName) -> Option<Distance> {
        distance(&self.view, from, to)
    }

    /// What an operator decided of a site that keeps it out of the mesh.
    pub fn out(&self, site: &SiteName) -> Option<StandingWord> {
        let standing = self.view.sites.get(site)?.standing;
        standing.is_out().then_some(standing)
    }

    /// Whether another site announces that service.
    pub fn runs(&self, site: &SiteName, service: &ServiceName) -> bool {
        self.runs.contains(&(site.clone(), service.clone()))
    }

    /// Whether a request for the service may be tried there.
    pub fn usable(&self, site: &SiteName, service: &ServiceName) -> bool {
        *site == self.here
            || (self.mark(site) == Mark::Connected
                && self.runs(site, service)
                && self.allows(&self.here, site).is_ok())
    }

    /// Whether that site is known to run the service, or nothing is known of it yet.
    pub fn may_run(&self, site: &SiteName, service: &ServiceName) -> bool {
        let known = self.view.sites.get(site);
        known.is_none_or(|known| known.announcement.is_none()) || self.runs(site, service)
    }

    /// That all these sites run the same version of a service, as far as they say. Else who runs which.
    pub fn same_version(&self, sites: &[SiteName], service: &ServiceName) -> Result<(), String> {
        let mut versions = sites.iter().filter_map(|site| {
            let said = self.view.sites.get(site)?.announcement.as_deref()?;
            let found = said.services.iter().find(|s| s.name == *service)?;
            Some((site, found.version.as_deref()?))
        });
        let Some((first, version)) = versions.next() else {
            return Ok(());
        };
        match versions.find(|(_, other)| *other != version) {
            None => Ok(()),
            Some((site, other)) => Err(format!(
                "{service} is {version} at {first} and {other} at {site}"
            )),
        }
    }

    fn first(view: Arc<View>, local: &[LocalService]) -> Picture {
        let world = Arc::new(world(&view, local));
        let runs = Arc::new(runs(&view));
        Picture {
            version: 1,
            here: view.here.clone(),
            world,
            view,
            runs,
        }
    }

    /// The picture after a change of the view. Round trips that moved a little change no plan.
    fn next(&self, view: Arc<View>, local: &[LocalService]) -> Picture {
        let here = self.here.clone();
        if view.version == self.view.version && !moved(&self.world, &view) {
            let (world, runs) = (self.world.clone(), self.runs.clone());
            return Picture {
                version: self.version,
                here,
                world,
                view,
                runs,
            };
        }
        Picture {
            version: self.version + 1,
            ..Picture::first(view, local)
        }
    }
}

/// Turns views of the mesh, and this site's services as they are now, into pictures, until either
/// ends. Needs a tokio runtime.
pub fn follow_picture(
    mut views: watch::Receiver<Arc<View>>,
    mut local: watch::Receiver<Vec<LocalService>>,
) -> watch::Receiver<Arc<Picture>> {
    let view = views.borrow_and_update().clone();
    let first = Picture::first(view, &local.borrow_and_update());
    let (sender, receiver) = watch::channel(Arc::new(first));
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                changed = views.changed() => changed.map(|()| {
                    let view = views.borrow_and_update().clone();
                    sender.borrow().next(view, &local.borrow())
                }),
                changed = local.changed() => changed.map(|()| {
                    let before = sender.borrow().clone();
                    Picture {
                        version: before.version + 1,
                        ..Picture::first(before.view.clone(), &local.borrow_and_update())
                    }
                }),
            };
            match next {
                Ok(next) => sender.send_replace(Arc::new(next)),
                Err(_) => return,
            };
        }
    });
    receiver
}

fn world(view: &View, local: &[LocalService]) -> World {
    let mut world = World::builder(view.here.clone());
    for service in local {
        let aliases = service.aliases.iter().cloned();
        world.service_with(service.name.clone(), aliases, service.default.clone());
    }
    for (name, site) in &view.sites {
        let said = site.announcement.as_deref();
        let labels = said.map_or_else(Labels::default, |said| said.labels.clone());
        let near = matches!(site.mark, Mark::Connected | Mark::Synchronizing);
        world.site_with(name.clone(), labels, near);
        for service in said.into_iter().flat_map(|said| &said.services) {
            world.service(service.name.clone(), service.aliases.iter().cloned());
        }
    }
    world.build_with(|world| Box::new(Distances::new(view, world)))
}

fn from_ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.max(0.0) / 1000.0)
}

/// Round trips for plans: measured from here or by one of the two, else from where sites lie.
struct Distances {
    here: usize,
    /// In the order of the world's sites.
    sites: Vec<(Option<Duration>, Option<Coordinate>)>,
    /// By pairs of places, as one of the two measured it.
    near: HashMap<(usize, usize), Duration>,
}

impl Distances {
    fn new(view: &View, world: &World) -> Distances {
        let site = |index| {
            let seen = view.sites.get(world.site_name(index));
            let trip = seen.and_then(round_trip);
            (trip, seen.and_then(|seen| seen.place))
        };
        let mut near = HashMap::new();
        for (name, seen) in &view.sites {
            let Some(a) = world.site(name.as_str()) else {
                continue;
            };
            for (other, trip_ms) in seen.near.iter().flat_map(|near| near.iter()) {
                if let Some(b) = world.site(other.as_str()) {
                    near.insert((a.place(), b.place()), from_ms(*trip_ms));
                }
            }
        }
        Distances {
            here: world.here().place(),
            sites: world.sites().map(site).collect(),
            near,
        }
    }
}

impl RoundTrips for Distances {
    fn between(&self, a: SiteIndex, b: SiteIndex) -> Option<Duration> {
        let (a, b) = (a.place(), b.place());
        let measured = match (a == self.here, b == self.here) {
            (true, _) => self.sites[b].0,
            (_, true) => self.sites[a].0,
            (false, false) => None,
        };
        let estimated = || {
            let (a, b) = (self.sites[a].1.as_ref()?, self.sites[b].1.as_ref()?);
            Some(from_ms(a.estimate(b).ms))
        };
        let told = || self.near.get(&(a, b)).or_else(|| self.near.get(&(b, a)));
        measured.or_else(|| told().copied()).or_else(estimated)
    }
}

/// How far two sites are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// The round trip.
    pub ms: f64,
    /// How far off that may be.
    pub error_ms: f64,
    /// Measured by one of the two; else estimated from where they lie.
    pub measured: bool,
}

fn distance(view: &View, from: &SiteName, to: &SiteName) -> Option<Distance> {
    let (a, b) = (view.sites.get(from)?, view.sites.get(to)?);
    if from == to {
        return Some(Distance {
            ms: 0.0,
            error_ms: 0.0,
            measured: true,
        });
    }
    let measured = match (*from == view.here, *to == view.here) {
        (true, _) => b.rtt,
        (_, true) => a.rtt,
        (false, false) => None,
    };
    if let Some(trip) = measured {
        return Some(Distance {
            ms: trip.value.as_secs_f64() * 1000.0,
            error_ms: trip.error.as_secs_f64() * 1000.0,
            measured: true,
        });
    }
    let told = |by: &SiteView, of: &SiteName| trip_in(by.near.as_deref()?, of);
    if let Some(ms) = told(a, to).or_else(|| told(b, from)) {
        return Some(Distance {
            ms,
            error_ms: ms * NEAR_ERROR,
            measured: true,
        });
    }
    let estimate = a.place?.estimate(&b.place?);
    Some(Distance {
        ms: estimate.ms,
        error_ms: estimate.error_ms,
        measured: false,
    })
}

fn runs(view: &View) -> HashSet<(SiteName, ServiceName)> {
    let mut runs = HashSet::new();
    for (name, site) in &view.sites {
        let services = |said: &Announcement| said.services.clone();
        let announced = site
            .announcement
            .as_deref()
            .map(services)
            .unwrap_or_default();
        runs.extend(
            announced
                .into_iter()
                .map(|service| (name.clone(), service.name)),
        );
    }
    runs
}

fn round_trip(site: &SiteView) -> Option<Duration> {
    site.rtt.as_ref().map(|rtt| rtt.value)
}

/// Whether a round trip differs from the one plans were made with by more than its noise.
fn moved(world: &World, view: &View) -> bool {
    view.sites.keys().any(|name| {
        let before = world
            .site(name.as_str())
            .and_then(|i| world.round_trip(world.here(), i));
        let now = distance(view, &view.here, name);
        let now = now.map(|now| Duration::from_secs_f64(now.ms / 1000.0));
        match (before, now) {
            (Some(before), Some(now)) => {
                before.abs_diff(now) > (before / 5).max(Duration::from_millis(1))
            }
            (None, None) => false,
            // This site is 0 away from itself, and nobody measures that.
            (before, now) => *name != view.here && before.is_some() != now.is_some(),
        }
    })
}
