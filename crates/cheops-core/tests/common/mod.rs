//! Two or three sites in one hand: events in by name, effects out as lists. No network, no chance.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::BTreeMap;

use std::sync::{Arc, Mutex};

use cheops_core::eventual::{Archive, Reader, Tuning};
use cheops_core::limits::{NEWS_MS, REPORT_MS};
use cheops_core::operation::{DoubtBy, Fields, Kind};
use cheops_core::{
    Answer, Birth, Call, CallId, Change, ClientId, Effect, Envelope, Event, MeshKey, Now,
    Operation, OperationId, Outcome, Output, ReplicantId, Site, Submission, Table,
};
use cheops_model::SiteName;

pub fn name(text: &str) -> SiteName {
    SiteName::new(text).unwrap()
}

/// What is kept for a site that is away.
pub const RETAIN_BYTES: usize = 10_000;

/// Replicants on one page.
pub const SHARED_MAX: usize = 4;

/// What is on one disk.
pub type Disk = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// A disk, as a site reads it back.
#[derive(Default)]
pub struct Shelved(Mutex<Disk>);

impl Archive for Shelved {
    fn read(&self, table: Table, prefix: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let disk = self.0.lock().unwrap();
        let of = |((found, key), _): &(&(Table, Vec<u8>), &Vec<u8>)| {
            *found == table && key.starts_with(prefix)
        };
        let rows = disk.iter().filter(of);
        Some(
            rows.map(|((_, key), value)| (key.clone(), value.clone()))
                .collect(),
        )
    }
}

/// Records in order.
pub type Records = Vec<(Table, Vec<u8>, Vec<u8>)>;

pub struct Bench {
    pub archives: BTreeMap<SiteName, Arc<Shelved>>,
    pub sites: BTreeMap<SiteName, Site>,
    pub disks: BTreeMap<SiteName, Disk>,
    pub now_ms: u64,
    pub calls: Vec<(SiteName, CallId, Call)>,
    pub posts: Vec<(SiteName, SiteName, Envelope)>,
    pub answers: Vec<(ClientId, Answer)>,
    pub writes: Vec<Change>,
}

impl Bench {
    pub fn new(names: &[&str]) -> Bench {
        let mut bench = Bench {
            archives: BTreeMap::new(),
            sites: BTreeMap::new(),
            disks: BTreeMap::new(),
            now_ms: 1_000,
            calls: Vec::new(),
            posts: Vec::new(),
            answers: Vec::new(),
            writes: Vec::new(),
        };
        for one in names {
            bench.disks.insert(name(one), BTreeMap::new());
        }
        for one in names {
            bench.start(one, 1);
        }
        bench.settle();
        bench
    }

    pub fn found(&self, site: &str) -> Records {
        let rows = self.disks[&name(site)].iter();
        rows.map(|((table, key), value)| (*table, key.clone(), value.clone()))
            .collect()
    }

    pub fn start(&mut self, site: &str, incarnation: u64) {
        let mut out = Output::new();
        let archive = Arc::new(Shelved(Mutex::new(self.disks[&name(site)].clone())));
        self.archives.insert(name(site), archive.clone());
        let birth = Birth {
            me: name(site),
            key: MeshKey::new([1; 32]),
            tuning: Tuning {
                settle_ms: 1_000,
                refuse_after_ms: 3_000,
                retain_bytes: RETAIN_BYTES,
                shared_max: SHARED_MAX,
                // Whatever may rest, rests at once.
                idle_max: 0,
                ..Tuning::default()
            },
            incarnation,
            peers: self.disks.keys().cloned().collect(),
            found: Box::new(self.found(site).into_iter()),
            archive: Some(archive),
            reader: Reader::default(),
            bug: None,
        };
        let started = Site::start(
            birth,
            Now {
                monotonic_ms: self.now_ms,
            },
            &mut out,
        );
        self.sites.insert(name(site), started);
        self.take(&name(site), out);
    }

    pub fn step(&mut self, site: &str, event: Event) {
        let mut out = Output::new();
        let now = Now {
            monotonic_ms: self.now_ms,
        };
        self.sites
            .get_mut(&name(site))
            .unwrap()
            .step(now, event, &mut out);
        self.take(&name(site), out);
    }

    fn take(&mut self, site: &SiteName, out: Output) {
        let disk = self.disks.get_mut(site).unwrap();
        let writes = &mut self.writes;
        let persist = |changes: Vec<Change>| {
            for change in changes {
                writes.push(change.clone());
                match change.value {
                    Some(value) => disk.insert((change.table, change.key), value),
                    None => disk.remove(&(change.table, change.key)),
                };
            }
            Ok::<(), std::convert::Infallible>(())
        };
        let effects = out.commit(persist).unwrap();
        *self.archives[site].0.lock().unwrap() = self.disks[site].clone();
        self.sites.get_mut(site).unwrap().rest();
        for effect in effects {
            match effect {
                Effect::Send { to, envelope } => self.posts.push((site.clone(), to, envelope)),
                Effect::Call { id, call, .. } => self.calls.push((site.clone(), id, call)),
                Effect::Answer { client, answer } => self.answers.push((client, answer)),
                Effect::Wake { .. } => (),
            }
        }
    }

    /// Delivers everything that is on its way, and what follows from it, also what is told a little later.
    pub fn settle(&mut self) {
        self.deliver();
        for _ in 0..2 {
            self.pass(NEWS_MS + REPORT_MS);
        }
    }

    /// Delivers everything that is on its way, and what follows from it at once.
    pub fn deliver(&mut self) {
        for _ in 0..200 {
            if self.posts.is_empty() {
                return;
            }
            for (from, to, envelope) in std::mem::take(&mut self.posts) {
                if self.sites.contains_key(&to) {
                    self.step(to.as_str(), Event::Message { from, envelope });
                }
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        for site in self.sites.keys().cloned().collect::<Vec<_>>() {
            self.step(site.as_str(), Event::Tick);
        }
        self.deliver();
    }

    /// Lets time pass.
    pub fn wait(&mut self, ms: u64) {
        self.pass(ms);
        self.settle();
    }

    /// The one call that is open at a site.
    pub fn call_at(&mut self, site: &str) -> (CallId, Call) {
        let at = self
            .calls
            .iter()
            .position(|(at, ..)| at.as_str() == site)
            .expect("a call is open");
        let (_, id, call) = self.calls.remove(at);
        (id, call)
    }

    pub fn outcome(&mut self, site: &str, call: CallId, outcome: Outcome) {
        self.step(site, Event::Outcome { call, outcome });
    }

    pub fn submit(&mut self, site: &str, client: u64, submission: Submission) {
        self.step(
            site,
            Event::Submit {
                client: ClientId(client),
                submission,
            },
        );
    }

    pub fn answer_to(&self, client: u64) -> Option<&Answer> {
        self.answers
            .iter()
            .rev()
            .find(|(to, _)| *to == ClientId(client))
            .map(|(_, answer)| answer)
    }
}

pub fn applied(local: Option<&str>) -> Outcome {
    let status = if local.is_some() { 201 } else { 200 };
    Outcome::Applied {
        status,
        local: local.map(String::from),
        body: b"{}".to_vec(),
    }
}

pub fn create(id: u128, sites: &[&str]) -> Submission {
    submission(id, id, Kind::Create, &[("name", "n")], sites)
}

pub fn update(id: u128, of: u128, fields: &[(&str, &str)], sites: &[&str]) -> Submission {
    submission(id, of, Kind::Update, fields, sites)
}

pub fn submission(
    id: u128,
    of: u128,
    kind: Kind,
    fields: &[(&str, &str)],
    sites: &[&str],
) -> Submission {
    let fields: Fields = fields
        .iter()
        .map(|(f, v)| (f.to_string(), v.to_string()))
        .collect();
    let id = OperationId(id);
    let op = Operation {
        fields,
        rest: b"POST /things".to_vec(),
        digest: id.0 as u64,
        ..Operation::new(id, ReplicantId(of), kind, name(sites[0]))
    };
    let sites = sites.iter().map(|site| name(site)).collect();
    Submission {
        doubt: DoubtBy::Mark,
        attempt: id.0 as u64,
        ..Submission::new(op, sites, "thing", 5_000)
    }
}
