//! Many replicants at once, for measurements: made by the protocol itself between this site and another that exists
//! only meanwhile, and written as an agent writes them. Nothing else uses this.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cheops_core::eventual::{Archive, Mark, Tuning};
use cheops_core::limits::{NEWS_MS, REPORT_MS};
use cheops_core::operation::{DoubtBy, Kind};
use cheops_core::{
    Birth, Change, ClientId, Effect, Envelope, Event, MeshKey, Now, Operation, OperationId,
    Outcome, Output, ReplicantId, Site, Submission, Table,
};
use cheops_model::SiteName;

use super::disk::DiskFault;
use super::index::Index;
use super::limits::SHARDS;
use super::reread::reader;
use super::wire::{Asked, encode};
use super::{IDS, lasting_id, open, worded};
use crate::identity::MeshSecret;

/// Made together, and written together.
const TOGETHER: usize = 500;

/// What to make.
pub struct Population {
    /// Whose records.
    pub here: SiteName,
    /// Where else they live.
    pub other: SiteName,
    /// Of the mesh.
    pub secret: MeshSecret,
    /// Which API.
    pub service: String,
    /// How many.
    pub count: usize,
}

/// What an index of that many costs.
#[derive(Clone, Copy, Debug)]
pub struct Lookups {
    /// To find one by the id that clients see.
    pub hit: Duration,
    /// To see that an id is an ordinary one.
    pub miss: Duration,
}

/// Writes them into the records of an agent that does not run, and returns what clients would call them.
pub fn populate(data_dir: &Path, wanted: &Population) -> Result<Vec<String>, String> {
    let folder = data_dir.join("store");
    let others = [wanted.other.clone()];
    let (disk, ..) = open(&folder, &others).map_err(worded)?;
    let key = MeshKey::new(wanted.secret.key_for(IDS));
    let mut names = Vec::new();
    while names.len() < wanted.count {
        let shard = (names.len() / TOGETHER) as u8 % SHARDS;
        let count = TOGETHER.min(wanted.count - names.len());
        let mut pair = Pair::new(wanted, &key);
        for _ in 0..count {
            pair.make(wanted, shard);
        }
        pair.calm_down();
        let changes = pair.records()?;
        names.extend(changes.iter().filter_map(name_in));
        disk.persist(shard, changes)
            .map_err(|fault: DiskFault| worded(fault))?;
    }
    Ok(names)
}

/// Looks things up in an index of `count` replicants, for a while.
pub fn look_up(wanted: &Population) -> Lookups {
    let key = MeshKey::new(wanted.secret.key_for(IDS));
    let index = Index::new(key.clone());
    let id_of =
        |number: usize| ReplicantId((number as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c));
    let meta_of = |number: usize| key.meta_id(id_of(number), cheops_core::Shape::Uuid);
    for number in 0..wanted.count {
        let summary = cheops_core::eventual::Summary {
            service: wanted.service.clone(),
            kind: wanted.service.clone(),
            meta: meta_of(number),
            local: format!("{:032x}", number as u128 * 7),
            leader: wanted.here.clone(),
            sites: vec![wanted.here.clone(), wanted.other.clone()],
            parent: None,
            has_content: false,
            operations: Vec::new(),
        };
        index.put_resting(id_of(number), &summary);
    }
    let asked = 100_000.min(wanted.count);
    let spread = |number: usize| number.wrapping_mul(7_919) % wanted.count;
    let known: Vec<String> = (0..asked).map(|number| meta_of(spread(number))).collect();
    let ordinary: Vec<String> = (0..asked).map(|number| format!("{number:032x}f")).collect();
    let time = |ids: &[String]| {
        let started = Instant::now();
        let found = ids
            .iter()
            .filter(|id| index.find(&wanted.service, id).is_some());
        let found = found.count();
        (started.elapsed() / asked as u32, found)
    };
    let ((hit, found), (miss, _)) = (time(&known), time(&ordinary));
    assert_eq!(found, asked, "what was put there is found");
    Lookups { hit, miss }
}

fn name_in(change: &Change) -> Option<String> {
    let value = change
        .value
        .as_ref()
        .filter(|_| change.table == Table::Marks)?;
    match cheops_core::record::decode(value) {
        Ok(Mark::Resting(summary)) => Some(summary.meta),
        Ok(Mark::Awake) | Err(_) => None,
    }
}

/// Two sites in one hand.
struct Pair {
    sites: [Half; 2],
    posts: VecDeque<(usize, Envelope)>,
    now_ms: u64,
}

struct Half {
    name: SiteName,
    site: Site,
    records: Arc<Records>,
}

type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

#[derive(Default)]
struct Records(Mutex<Rows>);

impl Archive for Records {
    fn read(&self, table: Table, prefix: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let records = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let from = records.range((table, prefix.to_vec())..);
        let of = from.take_while(|((found, key), _)| *found == table && key.starts_with(prefix));
        Some(
            of.map(|((_, key), value)| (key.clone(), value.clone()))
                .collect(),
        )
    }
}

impl Pair {
    fn new(wanted: &Population, key: &MeshKey) -> Pair {
        let names = [wanted.here.clone(), wanted.other.clone()];
        let mut outs = Vec::new();
        let sites = names.clone().map(|name| {
            let records = Arc::new(Records::default());
            let birth = Birth {
                me: name.clone(),
                key: key.clone(),
                tuning: Tuning {
                    idle_max: 0,
                    ..Tuning::default()
                },
                incarnation: 1,
                peers: names.to_vec(),
                found: Box::new(std::iter::empty()),
                archive: Some(records.clone()),
                reader: reader(),
                bug: None,
            };
            let mut out = Output::new();
            let site = Site::start(birth, Now { monotonic_ms: 1 }, &mut out);
            outs.push(out);
            Half {
                name,
                site,
                records,
            }
        });
        let posts = VecDeque::new();
        let mut pair = Pair {
            sites,
            posts,
            now_ms: 1,
        };
        for (at, out) in outs.into_iter().enumerate() {
            pair.finish(at, out);
        }
        pair.settle();
        pair
    }

    fn make(&mut self, wanted: &Population, shard: u8) {
        let OperationId(drawn) = lasting_id();
        let id = drawn - drawn % u128::from(SHARDS) + u128::from(shard);
        let asked = Asked {
            method: "POST".to_owned(),
            path: format!("/{}s", wanted.service),
            headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
            body: format!(
                "{{\"name\":\"{id:x}\",\"description\":\"{}\"}}",
                "x".repeat(64)
            )
            .into(),
            collection: format!("/{}s", wanted.service),
            kind: wanted.service.clone(),
            scope: None,
            created_ms: 0,
            content: None,
        };
        let fields = [
            ("name".to_owned(), format!("\"{id:x}\"")),
            ("description".to_owned(), format!("\"{}\"", "x".repeat(64))),
        ];
        let id = OperationId(id);
        let op = Operation {
            fields: fields.into(),
            rest: encode(&asked),
            digest: id.0 as u64,
            ..Operation::new(id, id.into(), Kind::Create, wanted.here.clone())
        };
        let sites = vec![wanted.here.clone(), wanted.other.clone()];
        let submission = Submission {
            doubt: DoubtBy::Match,
            ..Submission::new(op, sites, &wanted.service, 60_000)
        };
        let client = ClientId(id.0 as u64);
        self.step(0, Event::Submit { client, submission });
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((to, envelope)) = self.posts.pop_front() {
            let from = self.sites[1 - to].name.clone();
            self.step(to, Event::Message { from, envelope });
        }
    }

    fn step(&mut self, at: usize, event: Event) {
        let mut out = Output::new();
        let monotonic_ms = self.now_ms;
        let site = &mut self.sites[at].site;
        site.step(Now { monotonic_ms }, event, &mut out);
        self.finish(at, out);
    }

    /// Lets so much time pass that both have told each other everything.
    fn calm_down(&mut self) {
        for _ in 0..3 {
            self.now_ms += REPORT_MS + NEWS_MS;
            for at in [0, 1] {
                self.step(at, Event::Tick);
                self.settle();
            }
        }
    }

    fn finish(&mut self, at: usize, out: Output) {
        let half = &mut self.sites[at];
        let mut records = half.records.0.lock().unwrap_or_else(|e| e.into_inner());
        let stored = out.commit(|changes| {
            for Change { table, key, value } in changes {
                match value {
                    Some(value) => records.insert((table, key), value),
                    None => records.remove(&(table, key)),
                };
            }
            Ok::<(), std::convert::Infallible>(())
        });
        drop(records);
        half.site.rest();
        for effect in stored.unwrap_or_else(|never| match never {}) {
            match effect {
                Effect::Send { envelope, .. } => self.posts.push_back((1 - at, envelope)),
                Effect::Call { id, .. } => {
                    let local: u128 = rand::random();
                    let outcome = Outcome::Applied {
                        status: 201,
                        local: Some(format!("{local:032x}")),
                        body: format!("{{\"id\":\"{local:032x}\"}}").into(),
                    };
                    self.step(at, Event::Outcome { call: id, outcome });
                }
                Effect::Answer { .. } | Effect::Wake { .. } => (),
            }
        }
    }

    /// What the first of them has written, if everything rests.
    fn records(self) -> Result<Vec<Change>, String> {
        let [here, _] = self.sites;
        let (awake, _) = here.site.populations();
        if awake > 0 {
            return Err(format!("{awake} replicants do not rest"));
        }
        drop(here.site);
        let mut records = here.records.0.lock().unwrap_or_else(|e| e.into_inner());
        let all = std::mem::take(&mut *records).into_iter();
        let change = |((table, key), value)| Change {
            table,
            key,
            value: Some(value),
        };
        Ok(all.map(change).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_rests_and_has_names_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let site = |name: &str| SiteName::new(name).unwrap();
        let wanted = Population {
            here: site("site1"),
            other: site("site2"),
            secret: MeshSecret::generate(),
            service: "image".to_owned(),
            count: TOGETHER + 3,
        };
        let mut names = populate(folder.path(), &wanted).unwrap();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), wanted.count);
    }
}
