//! Agents killed at any moment under load: nothing acknowledged is lost, nothing is done twice, and
//! everything is the same everywhere afterwards.
//!
//! A few rounds in every build; `STORM_ROUNDS=200 cargo test -p cheops --test e2e -- storm --nocapture`
//! for as many as one likes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::client::{get, try_ask};
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;

const SITES: usize = 3;
const CLIENTS: usize = 4;
const SCOPE: &str = "image: site1 & site2 & site3";
/// Far more than finding out about a lost create takes.
const HEAL_TIME_MAX: Duration = Duration::from_secs(90);

/// What clients know of one image.
#[derive(Clone, Debug, Default)]
struct Wish {
    /// The create was acknowledged.
    made: bool,
    /// The last acknowledged revision, and the last that was asked for.
    acknowledged: u64,
    asked: u64,
}

#[derive(Default)]
struct Ledger {
    wishes: Mutex<BTreeMap<String, Wish>>,
    acknowledged: AtomicUsize,
    unknown: AtomicUsize,
    refused: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_are_killed_under_load() {
    let rounds: usize = match std::env::var("STORM_ROUNDS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 4,
    };
    let mut mesh = Setup::of(SITES).start().await;
    let mut rng = StdRng::seed_from_u64(rounds as u64);
    let ledger = Arc::new(Ledger::default());
    let mut slowest = Duration::ZERO;
    let mut in_doubt = BTreeMap::new();
    for round in 0..rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        let doors: Vec<SocketAddr> = (1..=SITES).map(|site| mesh.site(site).image).collect();
        for client in 0..CLIENTS {
            let load = Load {
                name: format!("{round}-{client}"),
                doors: doors.clone(),
                ledger: ledger.clone(),
                stop: stop.clone(),
                rng: StdRng::seed_from_u64((round * CLIENTS + client) as u64),
            };
            clients.spawn(load.run());
        }
        let victim = rng.random_range(1..=SITES);
        tokio::time::sleep(Duration::from_millis(rng.random_range(5..400))).await;
        mesh.take_agent(victim).kill().await;
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..300))).await;
        mesh.restart(victim).await;
        stop.store(true, Ordering::Relaxed);
        while clients.join_next().await.is_some() {}
        let began = Instant::now();
        settle(&mesh, &ledger, &mut in_doubt, round).await;
        slowest = slowest.max(began.elapsed());
    }
    let wishes = ledger.wishes.lock().unwrap();
    println!(
        "{rounds} kills: {} operations acknowledged, {} with an unknown outcome, {} refused; {} images; {} in doubt; slowest heal {slowest:?}",
        ledger.acknowledged.load(Ordering::Relaxed),
        ledger.unknown.load(Ordering::Relaxed),
        ledger.refused.load(Ordering::Relaxed),
        wishes.len(),
        in_doubt.len(),
    );
}

/// Waits until the sites agree, and checks what they agree on. What nobody was promised may stay in
/// doubt, and is counted.
async fn settle(
    mesh: &Mesh,
    ledger: &Ledger,
    in_doubt: &mut BTreeMap<String, usize>,
    round: usize,
) {
    let until = Instant::now() + HEAL_TIME_MAX;
    loop {
        let mut all = Vec::new();
        for site in 1..=SITES {
            all.push(stock(mesh.site(site).image_service).await);
        }
        let faults = faults(&all, ledger, in_doubt);
        if faults.is_empty() {
            return;
        }
        if Instant::now() > until {
            let lost = faults.iter().filter(|(_, sure)| *sure);
            let lost: Vec<_> = lost.map(|(what, _)| what).collect();
            if !lost.is_empty() {
                for site in 1..=SITES {
                    println!("== site{site}\n{}", mesh.agent(site).log());
                }
                panic!("round {round}: {lost:#?}");
            }
            for (what, _) in faults {
                println!("round {round}: in doubt: {what}");
                let name = what.split(':').next().unwrap_or_default().to_owned();
                in_doubt.insert(name, round);
            }
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

type Stock = BTreeMap<String, Vec<u64>>;

/// What is not as it has to be: and whether that breaks a promise.
fn faults(
    all: &[Stock],
    ledger: &Ledger,
    in_doubt: &BTreeMap<String, usize>,
) -> Vec<(String, bool)> {
    let mut faults = Vec::new();
    for (name, wish) in ledger.wishes.lock().unwrap().iter() {
        let held: Vec<&[u64]> = all
            .iter()
            .map(|stock| stock.get(name).map_or(&[][..], Vec::as_slice))
            .collect();
        assert!(
            held.iter().all(|h| h.len() <= 1),
            "{name} was made twice: {held:?}"
        );
        let same = held.iter().all(|other| *other == held[0]);
        let revision = held[0].first().copied();
        let there = revision.is_some_and(|r| (wish.acknowledged..=wish.asked).contains(&r));
        let absent = revision.is_none() && !wish.made;
        if !(same && (there || absent)) && !in_doubt.contains_key(name) {
            faults.push((
                format!("{name}: {wish:?}, the sites have {held:?}"),
                wish.made,
            ));
        }
    }
    faults
}

/// Every image of a service by name, with its revisions.
async fn stock(service: SocketAddr) -> Stock {
    let mut stock = Stock::new();
    let all = get(service, "/images?limit=100000", None).await.json();
    for image in all["images"].as_array().unwrap() {
        let name = image["name"].as_str().unwrap().to_owned();
        let revision = image["level"].as_u64().unwrap();
        stock.entry(name).or_default().push(revision);
    }
    stock
}

/// One client: makes images and changes them, at whatever site, until told to stop.
struct Load {
    name: String,
    doors: Vec<SocketAddr>,
    ledger: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    rng: StdRng,
}

impl Load {
    async fn run(mut self) {
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            number += 1;
            let name = format!("{}-{number}", self.name);
            self.wish(&name, |_| ());
            let body = json!({ "name": name, "level": 0 });
            let Some(made) = self.ask("POST", "/images", body).await else {
                continue;
            };
            self.wish(&name, |wish| wish.made = true);
            let path = format!("/images/{made}");
            for revision in 1..=self.rng.random_range(1..4) {
                self.wish(&name, |wish| wish.asked = revision);
                let changed = self.ask("PATCH", &path, json!({ "level": revision })).await;
                if changed.is_some() {
                    self.wish(&name, |wish| wish.acknowledged = revision);
                }
            }
        }
    }

    fn wish(&self, name: &str, change: impl FnOnce(&mut Wish)) {
        let mut wishes = self.ledger.wishes.lock().unwrap();
        change(wishes.entry(name.to_owned()).or_default());
    }

    /// The id of the image if it was acknowledged.
    async fn ask(&mut self, method: &str, path: &str, body: Value) -> Option<String> {
        let door = self.doors[self.rng.random_range(0..self.doors.len())];
        let headers = [("Content-Type", "application/json"), ("X-Scope", SCOPE)];
        let answer = try_ask(door, method, path, &headers, body.to_string().as_bytes()).await;
        let count = match &answer {
            Ok(answer) if (200..300).contains(&answer.status) => &self.ledger.acknowledged,
            Ok(answer) if answer.status == 504 => &self.ledger.unknown,
            Ok(_) => &self.ledger.refused,
            Err(_) => &self.ledger.unknown,
        };
        count.fetch_add(1, Ordering::Relaxed);
        let answer = answer
            .ok()
            .filter(|answer| (200..300).contains(&answer.status))?;
        Some(answer.header("x-cheops-resource").to_owned())
    }
}
