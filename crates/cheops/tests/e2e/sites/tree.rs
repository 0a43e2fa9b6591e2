//! A tree of sites: who may address whom, hop by hop, and what the top is told.

use serde_json::Value;

use super::Mesh;
use crate::common::agent::{run, text};
use crate::common::client::{Answer, admin, get};
use crate::common::eventually;
use crate::common::mesh::Link;
use crate::common::setup::Setup;

/// site1 over site2 and site3, those over two each; site4 and site6 declare a link with each other,
/// site5 one with site7 that does not declare it.
async fn seven() -> Mesh {
    let mut setup = Setup::of(7);
    setup.parents = vec![(2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)];
    setup.declared = vec![(4, 6), (6, 4), (5, 7)];
    setup.start().await
}

async fn list(mesh: &Mesh, from: usize, to: usize) -> Answer {
    let scope = format!("image: site{to}");
    get(mesh.site(from).image, "/images", Some(&scope)).await
}

#[tokio::test]
async fn in_a_tree_operations_go_down_hop_by_hop_and_reports_go_up() {
    let mut mesh = seven().await;
    let below = [(1, 2), (1, 7), (2, 4), (3, 7)];
    for (from, to) in below.into_iter().chain([(4, 6), (6, 4)]) {
        let found = list(&mesh, from, to).await;
        assert_eq!(found.status, 200, "site{from} to site{to}: {found:?}");
    }
    let above = "and operations go down";
    let beside = "send the request to a site above both";
    let half = "add site5 to its `mesh.links`";
    for (from, to, reason) in [
        (2, 1, above),
        (4, 1, above),
        (2, 3, beside),
        (4, 5, beside),
        (2, 6, beside),
        (5, 7, half),
        (7, 5, half),
    ] {
        let refused = list(&mesh, from, to).await;
        let found = (refused.status, refused.problem());
        let topology = (403, "forbidden-by-topology".to_owned());
        assert_eq!(found, topology, "site{from} to site{to}");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(reason), "site{from} to site{to}: {detail}");
    }
    goes_by_the_parent(&mesh).await;
    the_top_is_told(&mut mesh).await;
}

/// No path of its own from the top to a leaf: its parent carries the request.
async fn goes_by_the_parent(mesh: &Mesh) {
    let between = |link: &&Link| [(1, 4), (4, 1)].contains(&(link.from, link.to));
    for link in mesh.links.iter().filter(between) {
        link.relay.cut();
    }
    let carried = eventually("the request goes by the parent", || async {
        let answer = list(mesh, 1, 4).await;
        let hops = answer.all("via").join(",").matches("site2").count();
        (answer.status == 200 && hops > 0).then_some(answer)
    })
    .await;
    assert_eq!(carried.served_by(), "site4");
    mesh.wait_mark(1, 4, "connected").await;
}

/// Of every site below how it is, and how long ago that was: also of one that tells no more.
async fn the_top_is_told(mesh: &mut Mesh) {
    eventually("the top holds a report of every site", || async {
        let ages = ages(mesh).await;
        (ages.len() == 7 && ages.iter().all(Option::is_some)).then_some(())
    })
    .await;
    mesh.take_agent(7).kill().await;
    // A report comes every 5 s, by the parent 5 s later at most.
    let ages = eventually("what was told of a dead site gets old", || async {
        let ages = ages(mesh).await;
        let (dead, living) = (ages[6]?, ages[3]?);
        (dead > 12_000 && living < 12_000).then_some(ages)
    })
    .await;
    println!("ages at the top, of site1 to site7, which is dead: {ages:?}");
    let address = mesh.site(1).admin.to_string();
    let output = run(&["site", "ls", "--tree", "--admin", &address]).await;
    let tree = text(&output.stdout);
    assert!(tree.contains("\n    site4  "), "{tree}");
}

/// Milliseconds since each site's report was made, as the top has it.
async fn ages(mesh: &Mesh) -> Vec<Option<u64>> {
    let sites = admin(mesh.site(1).admin, "/v1/sites").await.json();
    let items = sites["items"].as_array().unwrap();
    let age = |item: &Value| item["report"]["age_ms"].as_u64();
    items.iter().map(age).collect()
}
