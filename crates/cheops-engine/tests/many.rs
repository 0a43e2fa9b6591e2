//! A mesh of more sites than an agent keeps links to; here that many are few.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::time::Duration;

use cheops_engine::mesh::View;
use cheops_model::Mark;
use common::{Agent, World, site};

const SITES: usize = 10;

/// News that missed somebody are found by comparing with one other site every 20 s, which may have missed them too.
const SEVERAL_COMPARISONS: Duration = Duration::from_secs(150);

fn name(number: usize) -> String {
    format!("site{number}")
}

/// Everybody joins through the first.
async fn start(world: &World) -> Vec<Agent> {
    let mut agents = vec![world.agent(&name(0)).await];
    for number in 1..SITES {
        let join = [agents[0].address()];
        agents.push(world.join(&name(number), &join).await);
    }
    agents
}

fn links(view: &View) -> usize {
    view.sites.values().filter(|seen| seen.linked).count()
}

/// Everybody is there and has said what it runs.
fn is_whole(view: &View) -> bool {
    let whole = |seen: &cheops_engine::mesh::SiteView| {
        seen.mark == Mark::Connected && seen.announcement.is_some()
    };
    view.sites.len() == SITES && view.sites.values().all(whole)
}

#[tokio::test]
async fn in_a_large_mesh_links_are_few_and_everybody_knows_of_everybody() {
    let names: Vec<_> = (0..SITES).map(name).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    world.links_all_max = 3;
    let mut agents = start(&world).await;
    for agent in &agents {
        agent.until_within(SEVERAL_COMPARISONS, is_whole).await;
    }
    // What links were made for is done: the one that it joined through stays.
    for agent in &agents[1..] {
        let settled = |view: &View| links(view) == 1 && is_whole(view);
        agent.until_within(SEVERAL_COMPARISONS, settled).await;
    }

    // What a site says anew reaches those that have no link to it.
    let view = agents[9].now();
    let mut said = (**view.sites[&site("site9")].announcement.as_ref().unwrap()).clone();
    said.services[0].version = Some("2.0".into());
    agents[9].mesh.announce(said.clone()).await.unwrap();
    for agent in &agents[..9] {
        let told = |view: &View| {
            let seen = &view.sites[&site("site9")];
            seen.announcement.as_ref().unwrap().services == said.services
        };
        agent.until_within(SEVERAL_COMPARISONS, told).await;
    }

    // A site that is used gets a link.
    let dialer = agents[3].mesh.dialer();
    dialer.dial_requests(&site("site7")).await.unwrap();
    agents[3]
        .until(|view| view.sites[&site("site7")].linked)
        .await;

    // Nobody has a link to the one that dies, but for the first.
    agents.pop().unwrap().kill().await;
    for agent in &agents {
        let noticed = |view: &View| {
            let gone = |name: &str| name == "site9";
            view.sites
                .iter()
                .all(|(name, seen)| match gone(name.as_str()) {
                    true => seen.mark == Mark::Autonomous,
                    false => seen.mark == Mark::Connected,
                })
        };
        agent.until_within(SEVERAL_COMPARISONS, noticed).await;
    }
}
