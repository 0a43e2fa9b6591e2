//! The world as this agent sees it now: what scopes are resolved against, and who can be reached.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cheops_model::{Guarantee, Labels, Mark, ServiceName, SiteName};
use cheops_scope::World;
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
    /// What is known of a site's state.
    pub fn mark(&self, site: &SiteName) -> Mark {
        self.view
            .sites
            .get(site)
            .map_or(Mark::Unknown, |known| known.mark)
    }

    /// Whether another site announces that service.
    pub fn runs(&self, site: &SiteName, service: &ServiceName) -> bool {
        self.runs.contains(&(site.clone(), service.clone()))
    }

    /// Whether a request for the service may be tried there.
    pub fn usable(&self, site: &SiteName, service: &ServiceName) -> bool {
        *site == self.here || (self.mark(site) == Mark::Connected && self.runs(site, service))
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
        world.site_with(name.clone(), labels, site.mark == Mark::Connected);
        for service in said.into_iter().flat_map(|said| &said.services) {
            world.service(service.name.clone(), service.aliases.iter().cloned());
        }
        if let Some(value) = round_trip(site) {
            world.round_trip(view.here.clone(), name.clone(), value);
        }
    }
    world.build()
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
    view.sites.iter().any(|(name, site)| {
        let before = world
            .site(name.as_str())
            .and_then(|i| world.round_trip(world.here(), i));
        match (before, round_trip(site)) {
            (Some(before), Some(now)) => {
                before.abs_diff(now) > (before / 5).max(Duration::from_millis(1))
            }
            (None, None) => false,
            // This site is 0 away from itself, and nobody measures that.
            (before, now) => *name != view.here && before.is_some() != now.is_some(),
        }
    })
}
