//! A world in a box: sites, network, disks, clocks, services, clients; everything follows from the seed.

use std::collections::{BTreeMap, BTreeSet};

use cheops_core::eventual::{Bug, Reader, Repair, Tuning};
use cheops_core::limits::PASSING_MS;
use cheops_core::{
    Birth, Call, CallId, ClientId, Envelope, Event, MeshKey, Now, OperationId, Outcome, Output,
    ReplicantId, Site, Submission,
};
use cheops_model::SiteName;
use cheops_store::memory::Snapshot;

use crate::disk::Disk;
use crate::history::{Chain, History};
use crate::network::Network;
use crate::rng::Rng;
use crate::service::Service;
use crate::settings::Settings;

/// How long what was sent may still be executed after it was given up, as agents are told.
pub(crate) const SETTLE_MS: u64 = 1_200;

/// A site with everything around it.
pub struct Host {
    /// Its name.
    pub name: SiteName,
    /// Its agent; none while it is stopped.
    pub core: Option<Site>,
    /// Its disk.
    pub disk: Disk,
    /// Its service.
    pub service: Service,
    /// Counts runs, so that nothing meant for an earlier one is heard.
    pub run: u64,
    /// Of the disk.
    pub incarnation: u64,
    /// Its clock, ahead of the world's.
    pub ahead_ms: u64,
    /// Runs that many thousandths fast.
    pub fast: u64,
    /// Does nothing until then, and does not notice.
    pub frozen_until_ms: u64,
    /// Older contents of its disk.
    pub backup: Option<Backup>,
}

/// A disk as it once was.
pub struct Backup {
    /// When.
    pub at_ms: u64,
    /// What.
    pub disk: Snapshot,
    /// What the history knew of it.
    pub chains: BTreeMap<ReplicantId, Chain>,
    /// What it was to bring to others.
    pub outbox: BTreeSet<OperationId>,
}

/// What waits to happen.
#[allow(missing_docs)]
pub enum Happening {
    /// A message arrives.
    Deliver {
        to: usize,
        from: usize,
        envelope: Envelope,
    },
    /// A timer.
    Wake { host: usize, run: u64 },
    /// A call reaches a service.
    Arrive {
        host: usize,
        run: u64,
        id: CallId,
        replicant: ReplicantId,
        call: Call,
    },
    /// Its answer reaches the agent.
    Return {
        host: usize,
        run: u64,
        id: CallId,
        outcome: Outcome,
    },
    /// A call that was given up reaches a service all the same.
    Linger {
        host: usize,
        disk: u64,
        replicant: ReplicantId,
        call: Call,
    },
    /// A client does something.
    Client,
    /// A client asks again.
    Retry { op: OperationId },
    /// Somebody wants a request not to happen.
    Cancel { host: usize, op: OperationId },
    /// Something breaks or is mended.
    Fault,
    /// A stopped agent starts.
    Start { host: usize },
    /// A person looks after things.
    Operator,
}

/// What was counted on the way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Things that happened.
    pub events: u64,
    /// Simulated time.
    pub ms: u64,
    /// Networks cut.
    pub cuts: u64,
    /// Services that did not listen, had no room, or did things and said nothing, for a while.
    pub outages: u64,
    /// Agents that stood still.
    pub freezes: u64,
    /// Sites told to lead.
    pub promotions: u64,
    /// Agents that stopped.
    pub crashes: u64,
    /// Disks put back.
    pub restores: u64,
    /// Messages lost, repeated or late.
    pub mishaps: u64,
    /// Calls of a service that went wrong.
    pub failures: u64,
    /// Requests of clients, with retries.
    pub tries: u64,
    /// Requests that somebody was told to be given up.
    pub cancels: u64,
    /// Laws checked.
    pub laws: u64,
}

/// Everything.
pub struct World {
    /// What was drawn for this seed.
    pub settings: Settings,
    /// Chance.
    pub rng: Rng,
    /// Chance of its own for what came to the worlds later: the others stay as they were.
    pub aside: Rng,
    /// Time.
    pub now_ms: u64,
    /// All sites.
    pub hosts: Vec<Host>,
    /// Between them.
    pub network: Network,
    /// What was seen.
    pub history: History,
    /// Who waits for which answer: operation and number of the try.
    pub asking: BTreeMap<ClientId, (OperationId, usize)>,
    /// Who waits to hear whether it was given up.
    pub cancelling: BTreeMap<ClientId, OperationId>,
    /// For the summary.
    pub counts: Counts,
    /// False once faults are off.
    pub hostile: bool,
    /// What is told, if somebody listens.
    pub trace: Option<Vec<String>>,
    key: MeshKey,
    bug: Option<Bug>,
    queue: BTreeMap<(u64, u64), Happening>,
    next: u64,
    next_client: u64,
}

impl World {
    /// The world of a seed, before anything has happened.
    pub fn new(seed: u64, bug: Option<Bug>, trace: bool) -> World {
        let mut rng = Rng::new(seed);
        let drawn = Settings {
            idle_max: [0, 0, 2, 256][seed as usize % 4],
            shared_max: [1, 2, 256][seed as usize % 3],
            passing_ms: [None, Some(25_000)][seed as usize / 2 % 2],
            ..Settings::draw(&mut rng)
        };
        let settings = match seed % 10 {
            7 => drawn.in_two_halves(),
            _ => drawn,
        };
        let network = Network::new(settings.sites);
        let mut world = World {
            rng,
            aside: Rng::new(!seed),
            now_ms: 1_000,
            hosts: Vec::new(),
            network,
            history: History::default(),
            asking: BTreeMap::new(),
            cancelling: BTreeMap::new(),
            counts: Counts::default(),
            hostile: true,
            trace: trace.then(Vec::new),
            key: MeshKey::new([7; 32]),
            bug,
            queue: BTreeMap::new(),
            next: 0,
            next_client: 0,
            settings,
        };
        for index in 0..world.settings.sites {
            let host = world.new_host(index);
            world.hosts.push(host);
        }
        for host in 0..world.hosts.len() {
            world.start(host);
        }
        world
    }

    fn new_host(&mut self, index: usize) -> Host {
        let mut service = Service::default();
        service.numbers = self.rng.chance(400_000);
        if self.settings.picky && index == self.settings.sites - 1 {
            service.picky = Some("picky".into());
        }
        service.populate(&mut self.rng);
        Host {
            name: name_of(index + 1),
            core: None,
            disk: Disk::new(self.rng.draw()),
            service,
            run: 0,
            incarnation: 1,
            ahead_ms: self.rng.between(0, 100_000),
            fast: self.rng.between(0, 50),
            frozen_until_ms: 0,
            backup: None,
        }
    }

    /// Tells what happens, if somebody listens.
    pub fn tell(&mut self, what: impl FnOnce(&World) -> String) {
        let Some(mut trace) = self.trace.take() else {
            return;
        };
        trace.push(format!("{:>8} ms  {}", self.now_ms, what(self)));
        self.trace = Some(trace);
    }

    /// Something will happen.
    pub fn at(&mut self, at_ms: u64, what: Happening) {
        self.next += 1;
        self.queue.insert((at_ms.max(self.now_ms), self.next), what);
    }

    /// Runs until then.
    pub fn run_until(&mut self, end_ms: u64) {
        while let Some(entry) = self.queue.first_entry() {
            let at_ms = entry.key().0;
            if at_ms > end_ms {
                break;
            }
            let what = entry.remove();
            self.now_ms = at_ms;
            self.counts.events += 1;
            self.happen(what);
        }
        self.now_ms = end_ms;
        self.counts.ms = end_ms;
    }

    fn happen(&mut self, what: Happening) {
        if let Some(until_ms) = self.frozen(&what) {
            return self.at(until_ms, what);
        }
        match what {
            Happening::Deliver { to, from, envelope } => {
                let from_name = self.hosts[from].name.clone();
                self.tell(|world| {
                    let what = envelope
                        .message
                        .as_ref()
                        .map_or("hello".to_string(), crate::trace::message);
                    format!("{} ← {}: {what}", world.hosts[to].name, from_name)
                });
                self.step(
                    to,
                    Event::Message {
                        from: from_name,
                        envelope,
                    },
                );
            }
            Happening::Wake { host, run } => {
                if self.hosts[host].run == run {
                    self.step(host, Event::Tick);
                }
            }
            Happening::Arrive {
                host,
                run,
                id,
                replicant,
                call,
            } => self.arrive(host, run, id, replicant, call),
            Happening::Return {
                host,
                run,
                id,
                outcome,
            } => {
                if self.hosts[host].run == run {
                    self.tell(|world| {
                        format!(
                            "{} service answers {id:?}: {outcome:?}",
                            world.hosts[host].name
                        )
                    });
                    self.step(host, Event::Outcome { call: id, outcome });
                }
            }
            Happening::Linger {
                host,
                disk,
                replicant,
                call,
            } => self.linger((host, disk), replicant, &call),
            Happening::Client => self.client_acts(),
            Happening::Retry { op } => self.client_retries(op),
            Happening::Cancel { host, op } => self.client_cancels(host, op),
            Happening::Fault => self.fault(),
            Happening::Start { host } => self.start(host),
            Happening::Operator => self.operator_looks(),
        }
    }

    /// Until when this has to wait, if it is for an agent that stands still.
    fn frozen(&self, what: &Happening) -> Option<u64> {
        let host = match what {
            Happening::Deliver { to: host, .. }
            | Happening::Wake { host, .. }
            | Happening::Return { host, .. } => *host,
            Happening::Arrive { .. }
            | Happening::Linger { .. }
            | Happening::Client
            | Happening::Retry { .. }
            | Happening::Cancel { .. }
            | Happening::Fault
            | Happening::Start { .. }
            | Happening::Operator => return None,
        };
        let until_ms = self.hosts[host].frozen_until_ms;
        (until_ms > self.now_ms).then_some(until_ms)
    }

    /// The clock of a host.
    pub fn clock(&self, host: usize) -> Now {
        let host = &self.hosts[host];
        Now {
            monotonic_ms: host.ahead_ms + self.now_ms + self.now_ms * host.fast / 1_000,
        }
    }

    /// Starts an agent from its disk.
    pub fn start(&mut self, host: usize) {
        if self.hosts[host].core.is_some() {
            return;
        }
        // A machine that starts counts its time from anew.
        self.hosts[host].ahead_ms = self.rng.between(0, 1_000_000);
        let now = self.clock(host);
        let peers: Vec<SiteName> = (1..=self.settings.sites).map(name_of).collect();
        let one = &mut self.hosts[host];
        one.run += 1;
        let tuning = Tuning {
            settle_ms: SETTLE_MS,
            refuse_after_ms: 4_000,
            retain_entries: self.settings.retain.0,
            retain_bytes: self.settings.retain.1,
            retain_ms: self.settings.retain.2,
            idle_max: self.settings.idle_max,
            shared_max: self.settings.shared_max,
            passing_ms: self.settings.passing_ms.unwrap_or(PASSING_MS),
        };
        let mut out = Output::new();
        one.disk.open();
        let found = one.disk.read();
        let (name, incarnation) = (one.name.clone(), one.incarnation);
        let birth = Birth {
            me: name,
            key: self.key.clone(),
            tuning,
            incarnation,
            peers,
            found: Box::new(found.into_iter()),
            archive: Some(one.disk.archive()),
            reader: Reader::default(),
            bug: self.bug,
        };
        let core = Site::start(birth, now, &mut out);
        assert!(core.quarantined().is_empty(), "every record can be read");
        self.hosts[host].core = Some(core);
        self.tell(|world| {
            format!(
                "{} starts, incarnation {incarnation}",
                world.hosts[host].name
            )
        });
        self.speak(host, out);
    }

    /// One step of an agent, with its write and what follows; it may stop at any point in between.
    pub fn step(&mut self, host: usize, event: Event) {
        let now = self.clock(host);
        let Some(core) = self.hosts[host].core.as_mut() else {
            return;
        };
        let mut out = Output::new();
        core.step(now, event, &mut out);
        let weight = core.weight();
        self.history.peak_weight = self.history.peak_weight.max(weight);
        if out.is_silent() {
            core.rest();
        } else {
            self.speak(host, out);
        }
    }

    /// Writes, then does what was wished; or stops before, in between or after.
    fn speak(&mut self, host: usize, out: Output) {
        let crash = self.hostile && self.rng.chance(self.settings.crash);
        let point = if crash { self.rng.below(4) } else { 3 };
        if crash && point == 0 {
            // In the write: what was decided never was.
            let bytes = self.rng.below(2_000);
            let disk = &self.hosts[host].disk;
            let torn = out.commit(|batch| {
                disk.tear(batch, bytes);
                Err::<(), ()>(())
            });
            drop(torn);
            return self.crash(host);
        }
        let mut changes = Vec::new();
        let effects = out.commit(|batch| {
            changes = batch;
            Ok::<(), std::convert::Infallible>(())
        });
        let effects = effects.unwrap_or_else(|never| match never {});
        let core = self.hosts[host].core.as_ref().expect("it has just spoken");
        self.history.see(self.now_ms, host, &changes, core);
        self.hosts[host].disk.commit(changes);
        let core = self.hosts[host].core.as_mut();
        core.expect("it has just spoken").rest();
        let count = effects.len();
        for (done, effect) in effects.into_iter().enumerate() {
            let stop = (point == 1 && done == 0) || (point == 2 && done == count / 2);
            if crash && stop {
                return self.crash(host);
            }
            self.effect(host, effect);
        }
        if crash {
            self.crash(host);
        }
    }

    /// Stops an agent without a word.
    pub fn crash(&mut self, host: usize) {
        self.tell(|world| format!("{} stops", world.hosts[host].name));
        self.counts.crashes += 1;
        self.history.disturbed.insert(host);
        self.hosts[host].core = None;
        self.hosts[host].disk.crash();
        self.hosts[host].run += 1;
        let at_ms = self.now_ms + self.rng.between(10, 4_000);
        self.at(at_ms, Happening::Start { host });
    }

    /// A fresh client for a try.
    pub fn ask(&mut self, host: usize, op: OperationId, number: usize, submission: Submission) {
        self.next_client += 1;
        let client = ClientId(self.next_client);
        self.asking.insert(client, (op, number));
        self.counts.tries += 1;
        self.step(host, Event::Submit { client, submission });
    }

    /// A person mends a replica.
    pub fn repair(&mut self, host: usize, replicant: ReplicantId, how: Repair) {
        self.tell(|world| format!("{} is told: {how:?} {replicant:?}", world.hosts[host].name));
        if how == Repair::Retry {
            self.history.retried.insert((host, replicant));
        }
        self.step(host, Event::Repair { replicant, how });
    }
}

pub(crate) fn name_of(number: usize) -> SiteName {
    SiteName::new(&format!("site{number}")).expect("it is a name")
}
