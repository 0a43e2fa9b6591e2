//! The network between sites: delays, loss, cuts; and the clock that all of them share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use cheops_core::membership::{Chance, Datagram, Effect, Moment, Record, State, Swim};

use crate::ground::{Ground, NEVER_MEASURED_MS};
use crate::matrix::Matrix;
use crate::site::Site;

/// What every datagram costs besides its content: seal, UDP and IP.
const AROUND_BYTES: usize = 33 + 28;

/// What a world is like.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many sites.
    pub sites: u16,
    /// Datagrams lost, of a thousand, each by itself.
    pub loss_permille: u64,
    /// Where chance begins.
    pub seed: u64,
}

/// Something that a site came to believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// When.
    pub at_ms: u64,
    /// Who.
    pub by: Site,
    /// Of whom.
    pub of: Site,
    /// What.
    pub state: State,
}

/// Whether a datagram from one site to another is cut off.
pub type Cut = Box<dyn Fn(Site, Site) -> bool>;

/// All sites and what is under way between them.
pub struct World {
    /// Every site's part of the protocol.
    pub swims: Vec<Swim<Site>>,
    /// What was believed anew since it was last taken.
    pub beliefs: Vec<Belief>,
    /// Bytes sent, of every site together.
    pub bytes: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Sites that neither hear nor speak.
    pub dead: Vec<bool>,
    /// What does not get through.
    pub cut: Option<Cut>,
    /// Round trips that sites measured, of every site together.
    pub samples: u64,
    settings: Settings,
    ground: Ground,
    now: Moment,
    queue: BinaryHeap<Reverse<Due>>,
    wakes_ms: Vec<u64>,
    number: u64,
    chance: Chance,
    effects: Vec<Effect<Site>>,
}

struct Due {
    at: Moment,
    number: u64,
    what: What,
}

enum What {
    Wake(Site),
    Deliver(Box<Datagram<Site>>),
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl World {
    /// Sites that have just joined and know each other.
    pub fn new(settings: Settings) -> World {
        let mut chance = Chance::new(settings.seed);
        let count = usize::from(settings.sites);
        let ground = Ground::plane(count, &mut chance);
        World::build(settings, ground, chance)
    }

    /// Sites that are as far apart as was measured.
    pub fn on(matrix: Matrix, loss_permille: u64, seed: u64) -> World {
        let settings = Settings {
            sites: matrix.sites() as u16,
            loss_permille,
            seed,
        };
        World::build(settings, Ground::Measured(matrix), Chance::new(seed))
    }

    fn build(settings: Settings, ground: Ground, mut chance: Chance) -> World {
        let address: Arc<str> = "192.0.2.123:7700".into();
        let count = usize::from(settings.sites);
        let record = |number: u16| Record {
            site: Site(number),
            incarnation: 1,
            state: State::Alive,
            address: address.clone(),
            said: 7,
            standing: None,
        };
        let all: Vec<_> = (0..settings.sites).map(record).collect();
        let mut swims = Vec::with_capacity(count);
        for number in 0..settings.sites {
            let seed = chance.draw();
            let mut swim = Swim::new(Site(number), 1, address.clone(), 7, seed, Moment(0));
            swim.know(&all);
            swims.push(swim);
        }
        let mut world = World {
            swims,
            beliefs: Vec::new(),
            bytes: 0,
            datagrams: 0,
            dead: vec![false; count],
            cut: None,
            samples: 0,
            settings,
            ground,
            now: Moment(0),
            queue: BinaryHeap::new(),
            wakes_ms: vec![u64::MAX; count],
            number: 0,
            chance,
            effects: Vec::new(),
        };
        (0..settings.sites).for_each(|number| world.plan_wake(Site(number)));
        world
    }

    /// The time.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// How many sites there are.
    pub fn sites(&self) -> u16 {
        self.settings.sites
    }

    /// The true round trip between two sites, without jitter.
    pub fn trip_ms(&self, a: Site, b: Site) -> f64 {
        let (a, b) = (usize::from(a.0), usize::from(b.0));
        self.ground.trip_ms(a, b).unwrap_or(NEVER_MEASURED_MS)
    }

    /// From now on sites are as far apart as this says.
    pub fn move_to(&mut self, matrix: Matrix) {
        self.ground = Ground::Measured(matrix);
    }

    /// Goes on for that long.
    pub fn run_ms(&mut self, ms: u64) {
        let end = Moment::from_ms(self.now.ms() + ms);
        while let Some(Reverse(due)) = self.queue.peek() {
            if due.at > end {
                break;
            }
            let Some(Reverse(due)) = self.queue.pop() else {
                break;
            };
            self.now = due.at;
            match due.what {
                What::Wake(site) => self.wake(site),
                What::Deliver(datagram) => self.deliver(*datagram),
            }
        }
        self.now = end;
    }

    /// A site that was dead is started again on its old memory.
    pub fn revive(&mut self, site: Site) {
        self.dead[usize::from(site.0)] = false;
        self.wakes_ms[usize::from(site.0)] = u64::MAX;
        self.plan_wake(site);
    }

    fn wake(&mut self, site: Site) {
        let index = usize::from(site.0);
        if self.wakes_ms[index] > self.now.ms() || self.dead[index] {
            return;
        }
        self.wakes_ms[index] = u64::MAX;
        let mut effects = std::mem::take(&mut self.effects);
        self.swims[index].tick(self.now, &mut effects);
        self.carry_out(site, effects);
    }

    fn deliver(&mut self, datagram: Datagram<Site>) {
        let site = datagram.to;
        if self.dead[usize::from(site.0)] {
            return;
        }
        let mut effects = std::mem::take(&mut self.effects);
        self.swims[usize::from(site.0)].receive(self.now, datagram, &mut effects);
        self.carry_out(site, effects);
    }

    fn carry_out(&mut self, site: Site, mut effects: Vec<Effect<Site>>) {
        for effect in effects.drain(..) {
            match effect {
                Effect::Send(datagram) => self.send(datagram),
                Effect::Changed(of) => self.note(site, of),
                Effect::Answered { .. } => self.samples += 1,
                Effect::Learnt(_) | Effect::OwnNameAhead { .. } => (),
            }
        }
        self.effects = effects;
        self.plan_wake(site);
    }

    fn note(&mut self, by: Site, of: Site) {
        if let Some(member) = self.swims[usize::from(by.0)].member(&of) {
            self.beliefs.push(Belief {
                at_ms: self.now.ms(),
                by,
                of,
                state: member.state,
            });
        }
    }

    fn send(&mut self, datagram: Datagram<Site>) {
        let size = postcard::experimental::serialized_size(&datagram).unwrap_or_default();
        self.bytes += (size + AROUND_BYTES) as u64;
        self.datagrams += 1;
        let lost = self.chance.draw() % 1000 < self.settings.loss_permille;
        let (from, to) = (datagram.from, datagram.to);
        if lost || self.cut.as_ref().is_some_and(|cut| cut(from, to)) {
            return;
        }
        // One way, and up to a tenth more for queues.
        let delay_ms = self.trip_ms(from, to) / 2.0 * (1.0 + self.chance.unit() * 0.1);
        let at = Moment(self.now.0 + (delay_ms * 1000.0) as u64);
        self.plan(at, What::Deliver(Box::new(datagram)));
    }

    fn plan_wake(&mut self, site: Site) {
        let index = usize::from(site.0);
        let wake_ms = self.swims[index].wake_ms().max(self.now.ms());
        if wake_ms < self.wakes_ms[index] {
            self.wakes_ms[index] = wake_ms;
            self.plan(Moment::from_ms(wake_ms), What::Wake(site));
        }
    }

    fn plan(&mut self, at: Moment, what: What) {
        self.number += 1;
        let number = self.number;
        self.queue.push(Reverse(Due { at, number, what }));
    }
}
