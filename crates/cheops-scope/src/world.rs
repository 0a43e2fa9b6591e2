//! What an agent knows: sites, services, labels, round trips. Resolving looks at nothing else.

use std::collections::HashMap;
use std::time::Duration;

use cheops_model::{Guarantee, Labels, ServiceName, SiteName};
use foldhash::quality::RandomState;

/// A site of a [`World`], by its place in name order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteIndex(pub(crate) u32);

impl SiteIndex {
    /// Its place in name order.
    pub fn place(self) -> usize {
        self.0 as usize
    }
}

/// A service of a [`World`], by its place in name order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceIndex(pub(crate) u32);

/// Estimated round trips. Others plug in here: a table of a file, measured links, coordinates.
pub trait RoundTrips: Send + Sync {
    /// The estimate between two different sites, `None` if there is none. Symmetric.
    fn between(&self, a: SiteIndex, b: SiteIndex) -> Option<Duration>;
}

/// A snapshot: the same scope resolved against the same world gives the same plan.
pub struct World {
    here: SiteIndex,
    sites: Vec<KnownSite>,
    site_by_name: HashMap<SiteName, SiteIndex, RandomState>,
    services: Vec<KnownService>,
    service_by_name: HashMap<ServiceName, ServiceIndex, RandomState>,
    round_trips: Box<dyn RoundTrips>,
}

struct KnownSite {
    name: SiteName,
    labels: Labels,
    /// For `explain` alone: a plan does not depend on who is up.
    reachable: bool,
}

struct KnownService {
    name: ServiceName,
    default: Guarantee,
}

impl World {
    /// Starts a world that knows one site, this one.
    pub fn builder(here: SiteName) -> WorldBuilder {
        WorldBuilder::new(here)
    }

    /// The site where requests enter.
    pub fn here(&self) -> SiteIndex {
        self.here
    }

    /// Every site, in name order.
    pub fn sites(&self) -> impl Iterator<Item = SiteIndex> + use<> {
        (0..self.sites.len() as u32).map(SiteIndex)
    }

    /// Every service, in name order.
    pub fn services(&self) -> impl Iterator<Item = ServiceIndex> + use<> {
        (0..self.services.len() as u32).map(ServiceIndex)
    }

    /// The site of that name.
    pub fn site(&self, name: &str) -> Option<SiteIndex> {
        self.site_by_name.get(name).copied()
    }

    /// The service of that name or alias.
    pub fn service(&self, name: &ServiceName) -> Option<ServiceIndex> {
        self.service_by_name.get(name).copied()
    }

    /// A site's name.
    pub fn site_name(&self, site: SiteIndex) -> &SiteName {
        &self.sites[site.0 as usize].name
    }

    /// A service's registered name.
    pub fn service_name(&self, service: ServiceIndex) -> &ServiceName {
        &self.services[service.0 as usize].name
    }

    /// Every name a service can be bound by, its aliases included, in order.
    pub fn service_names(&self) -> Vec<&ServiceName> {
        let mut names: Vec<_> = self.service_by_name.keys().collect();
        names.sort();
        names
    }

    /// What `&` and `+` mean for that service when the scope names no guarantee.
    pub fn default_guarantee(&self, service: ServiceIndex) -> &Guarantee {
        &self.services[service.0 as usize].default
    }

    /// A site's labels.
    pub fn labels(&self, site: SiteIndex) -> &Labels {
        &self.sites[site.0 as usize].labels
    }

    /// Whether the site could be reached when the world was seen.
    pub fn reachable(&self, site: SiteIndex) -> bool {
        self.sites[site.0 as usize].reachable
    }

    /// The estimated round trip; nothing is inferred from other pairs.
    pub fn round_trip(&self, a: SiteIndex, b: SiteIndex) -> Option<Duration> {
        if a == b {
            Some(Duration::ZERO)
        } else {
            self.round_trips.between(a, b)
        }
    }

    /// The same world seen from another of its sites.
    pub fn seen_from(mut self, here: SiteIndex) -> World {
        self.here = here;
        self
    }
}

/// Gathers what a [`World`] knows.
pub struct WorldBuilder {
    here: SiteName,
    sites: HashMap<SiteName, KnownSite, RandomState>,
    services: Vec<(KnownService, Vec<ServiceName>)>,
    round_trips: Vec<(SiteName, SiteName, Duration)>,
}

impl WorldBuilder {
    fn new(here: SiteName) -> WorldBuilder {
        let mut builder = WorldBuilder {
            here: here.clone(),
            sites: HashMap::default(),
            services: Vec::new(),
            round_trips: Vec::new(),
        };
        builder.site(here);
        builder
    }

    /// Adds a site, reachable and without labels.
    pub fn site(&mut self, name: SiteName) -> &mut WorldBuilder {
        self.site_with(name, Labels::default(), true)
    }

    /// Adds a site, or says more of one.
    pub fn site_with(
        &mut self,
        name: SiteName,
        labels: Labels,
        reachable: bool,
    ) -> &mut WorldBuilder {
        self.sites.insert(
            name.clone(),
            KnownSite {
                name,
                labels,
                reachable,
            },
        );
        self
    }

    /// Adds a service and its aliases. The first to claim a name has it.
    pub fn service(
        &mut self,
        name: ServiceName,
        aliases: impl IntoIterator<Item = ServiceName>,
    ) -> &mut WorldBuilder {
        self.service_with(name, aliases, Guarantee::EVENTUAL)
    }

    /// Adds a service with its default guarantee.
    pub fn service_with(
        &mut self,
        name: ServiceName,
        aliases: impl IntoIterator<Item = ServiceName>,
        default: Guarantee,
    ) -> &mut WorldBuilder {
        self.services.push((
            KnownService { name, default },
            aliases.into_iter().collect(),
        ));
        self
    }

    /// Adds the round trip of a pair of sites.
    pub fn round_trip(&mut self, a: SiteName, b: SiteName, value: Duration) -> &mut WorldBuilder {
        self.round_trips.push((a, b, value));
        self
    }

    /// The world, with round trips from the pairs given.
    pub fn build(self) -> World {
        let pairs = self.round_trips.clone();
        self.build_with(|world| {
            let mut table = Table::default();
            for (a, b, value) in pairs {
                if let (Some(a), Some(b)) = (world.site(a.as_str()), world.site(b.as_str())) {
                    table.0.insert((a.min(b), a.max(b)), value);
                }
            }
            Box::new(table)
        })
    }

    /// The world, with round trips from elsewhere.
    pub fn build_with(self, round_trips: impl FnOnce(&World) -> Box<dyn RoundTrips>) -> World {
        let mut sites: Vec<_> = self.sites.into_values().collect();
        sites.sort_by(|a, b| a.name.cmp(&b.name));
        let index =
            |(place, site): (usize, &KnownSite)| (site.name.clone(), SiteIndex(place as u32));
        let site_by_name: HashMap<_, _, _> = sites.iter().enumerate().map(index).collect();
        let here = site_by_name[&self.here];

        let mut listed = self.services;
        listed.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        listed.dedup_by(|later, first| later.0.name == first.0.name);
        let mut service_by_name = HashMap::default();
        for (place, (service, _)) in listed.iter().enumerate() {
            service_by_name.insert(service.name.clone(), ServiceIndex(place as u32));
        }
        for (place, (_, aliases)) in listed.iter().enumerate() {
            for alias in aliases {
                service_by_name
                    .entry(alias.clone())
                    .or_insert(ServiceIndex(place as u32));
            }
        }
        let services = listed.into_iter().map(|(service, _)| service).collect();
        let unknown = Box::new(Table::default());
        let mut world = World {
            here,
            sites,
            site_by_name,
            services,
            service_by_name,
            round_trips: unknown,
        };
        world.round_trips = round_trips(&world);
        world
    }
}

#[derive(Default)]
struct Table(HashMap<(SiteIndex, SiteIndex), Duration, RandomState>);

impl RoundTrips for Table {
    fn between(&self, a: SiteIndex, b: SiteIndex) -> Option<Duration> {
        self.0.get(&(a.min(b), a.max(b))).copied()
    }
}
