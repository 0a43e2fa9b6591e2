//! What is done to a world, and what is counted.

use std::collections::BTreeMap;

use cheops_core::membership::{Chance, Reach, State};

use crate::reporting::report_bytes;
use crate::site::Site;
use crate::world::{Belief, Settings, World};

/// Time for places and first comparisons to come around before anything is counted.
const WARM_UP_MS: u64 = 40_000;

/// Long enough for what is told again every minute.
const REPORTS_WATCHED_S: u64 = 120;

/// Bytes of one site in a second, on average over all sites and `seconds`; reports included.
pub fn traffic(settings: Settings, seconds: u64) -> f64 {
    let mut world = World::new(settings);
    world.run_ms(WARM_UP_MS);
    world.bytes = 0;
    world.run_ms(seconds * 1000);
    let told = report_bytes(
        settings.sites,
        settings.loss_permille,
        settings.seed,
        REPORTS_WATCHED_S,
    );
    world.bytes as f64 / f64::from(settings.sites) / seconds as f64 + told
}

/// How long it took until a dead site was believed in by nobody, in milliseconds.
#[derive(Clone, Debug)]
pub struct Detection {
    /// Until the first other site knew, for each death.
    pub first_ms: Vec<u64>,
    /// Until half of them knew.
    pub half_ms: Vec<u64>,
    /// Until every other site knew.
    pub all_ms: Vec<u64>,
}

/// Kills `deaths` sites, one after the other.
pub fn detection(settings: Settings, deaths: u16) -> Detection {
    let mut world = World::new(settings);
    let mut chance = Chance::new(settings.seed ^ 0xdead);
    world.run_ms(WARM_UP_MS);
    let mut found = Detection {
        first_ms: Vec::new(),
        half_ms: Vec::new(),
        all_ms: Vec::new(),
    };
    for _ in 0..deaths {
        let victim = loop {
            let site = Site(chance.below(usize::from(settings.sites)) as u16);
            if !world.dead[usize::from(site.0)] {
                break site;
            }
        };
        world.beliefs.clear();
        world.dead[usize::from(victim.0)] = true;
        let died_ms = world.now().ms();
        world.run_ms(60_000);
        let mut knew = BTreeMap::new();
        for belief in world.beliefs.iter().filter(|belief| belief.of == victim) {
            // A suspicion takes the mark `connected` away; a refutation would give it back.
            match belief.state {
                State::Alive => knew.remove(&belief.by),
                State::Suspect | State::Away | State::Left => {
                    *knew.entry(belief.by).or_insert(belief.at_ms) =
                        knew.get(&belief.by).copied().unwrap_or(belief.at_ms);
                    None
                }
            };
        }
        let alive = world.dead.iter().filter(|dead| !**dead).count();
        let mut times: Vec<u64> = knew.values().map(|at_ms| at_ms - died_ms).collect();
        times.sort_unstable();
        found
            .first_ms
            .push(times.first().copied().unwrap_or(u64::MAX));
        found
            .half_ms
            .push(times.get(alive / 2).copied().unwrap_or(u64::MAX));
        let all = if times.len() == alive {
            times.last().copied()
        } else {
            None
        };
        found.all_ms.push(all.unwrap_or(u64::MAX));
    }
    found
}

/// Live sites that somebody stopped believing in.
#[derive(Clone, Copy, Debug, Default)]
pub struct FalseMarks {
    /// Site-hours watched.
    pub site_hours: f64,
    /// Live sites that anybody marked `autonomous`, each time counted once.
    pub events: usize,
    /// Live sites that anybody stopped suspecting only by believing them away.
    pub believed: usize,
}

/// Watches a healthy mesh.
pub fn false_marks(settings: Settings, minutes: u64) -> FalseMarks {
    let mut world = World::new(settings);
    world.run_ms(WARM_UP_MS);
    world.beliefs.clear();
    let mut marks = FalseMarks::default();
    let mut last_of: BTreeMap<Site, u64> = BTreeMap::new();
    for _ in 0..minutes {
        world.run_ms(60_000);
        for belief in std::mem::take(&mut world.beliefs) {
            if belief.state == State::Alive {
                continue;
            }
            marks.believed += usize::from(belief.state == State::Away);
            let again = last_of.insert(belief.of, belief.at_ms);
            let same = again.is_some_and(|last| belief.at_ms < last + 60_000);
            marks.events += usize::from(!same);
        }
    }
    marks.site_hours = f64::from(settings.sites) * minutes as f64 / 60.0;
    marks
}

/// What became of a cut that leaves a way around.
#[derive(Clone, Debug, Default)]
pub struct CutOutcome {
    /// Pairs that are cut, each from one side.
    pub pairs: usize,
    /// Of them, those that the site sees as `indirect`.
    pub indirect: usize,
    /// Those it sees as `one-way`.
    pub one_way: usize,
    /// Times that anybody marked a live site `autonomous`.
    pub false_marks: usize,
    /// Times that a pair seen as cut was seen otherwise again, while it was cut: flapping.
    pub flaps: usize,
    /// Until a pair was seen as cut, of those that were.
    pub seen_ms: Vec<u64>,
}

/// Cuts the sites below `cut` from the next as many, both ways or one, and watches.
pub fn partial_cut(settings: Settings, cut: u16, ways: Ways, minutes: u64) -> CutOutcome {
    let mut world = World::new(settings);
    world.run_ms(WARM_UP_MS);
    world.beliefs.clear();
    let forth = move |from: Site, to: Site| from.0 < cut && (cut..2 * cut).contains(&to.0);
    world.cut = Some(Box::new(move |from, to| match ways {
        Ways::Both => forth(from, to) || forth(to, from),
        Ways::One => forth(from, to),
    }));
    let mut outcome = CutOutcome::default();
    let mut seen: BTreeMap<(Site, Site), Reach> = BTreeMap::new();
    for second in 1..=minutes * 60 {
        world.run_ms(1000);
        for by in 0..2 * cut {
            let others = if by < cut { cut..2 * cut } else { 0..cut };
            for of in others {
                let (by, of) = (Site(by), Site(of));
                let reach = world.swims[usize::from(by.0)]
                    .member(&of)
                    .map(|m| m.reach());
                let reach = reach.unwrap_or(Reach::None);
                let before = seen.insert((by, of), reach);
                let is_cut = |reach: Reach| matches!(reach, Reach::Indirect | Reach::OneWay);
                match (before.is_some_and(is_cut), is_cut(reach)) {
                    (true, false) => outcome.flaps += 1,
                    (false, true) => outcome.seen_ms.push(second * 1000),
                    (true, true) | (false, false) => (),
                }
            }
        }
    }
    let live = |belief: &&Belief| belief.state != State::Alive;
    outcome.false_marks = world.beliefs.iter().filter(live).count();
    outcome.pairs = seen.len();
    outcome.indirect = seen
        .values()
        .filter(|reach| **reach == Reach::Indirect)
        .count();
    outcome.one_way = seen
        .values()
        .filter(|reach| **reach == Reach::OneWay)
        .count();
    outcome
}

/// Which ways a cut takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// Both.
    Both,
    /// From the first to the second group.
    One,
}

/// One site is cut off from all others for two minutes.
#[derive(Clone, Copy, Debug)]
pub struct Isolation {
    /// Until it showed nobody as connected.
    pub alone_ms: u64,
    /// Until every other had it back after the cut was mended.
    pub back_ms: u64,
    /// Live sites that anybody doubted because of it, besides itself.
    pub doubted: usize,
}

/// Cuts one site off.
pub fn isolation(settings: Settings) -> Isolation {
    let mut world = World::new(settings);
    world.run_ms(WARM_UP_MS);
    let lone = Site(0);
    world.cut = Some(Box::new(move |from, to| from == lone || to == lone));
    let cut_ms = world.now().ms();
    let mut alone_ms = None;
    world.beliefs.clear();
    for _ in 0..120 {
        world.run_ms(1000);
        if !world.swims[0].hears(world.now()) {
            alone_ms.get_or_insert(world.now().ms() - cut_ms);
        }
    }
    world.cut = None;
    let healed_ms = world.now().ms();
    let mut back_ms = u64::MAX;
    for _ in 0..180 {
        world.run_ms(1000);
        let alive = |swim: &cheops_core::membership::Swim<Site>| {
            swim.member(&lone)
                .is_none_or(|member| member.state == State::Alive)
        };
        if world.swims.iter().all(alive) {
            back_ms = world.now().ms() - healed_ms;
            break;
        }
    }
    let doubted = |belief: &&Belief| belief.of != lone && belief.state != State::Alive;
    Isolation {
        alone_ms: alone_ms.unwrap_or(u64::MAX),
        back_ms,
        doubted: world.beliefs.iter().filter(doubted).count(),
    }
}

/// The middle one.
pub fn median(times: &[u64]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(u64::MAX)
}
