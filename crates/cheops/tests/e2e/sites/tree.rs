//! A tree of sites: who may address whom, hop by hop, and what the top is told.

use serde_json::Value;

use crate::common::agent::{run, text};
use crate::common::client::{admin, get};
use crate::common::eventually;
use crate::common::setup::Setup;

#[tokio::test]
async fn in_a_tree_operations_go_down_hop_by_hop_and_reports_go_up() {
    let mut setup = Setup::of(7);
    setup.parents = vec![(2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)];
    let mesh = setup.start().await;
    let image = |site: usize| mesh.site(site).image;
    let list = |from: usize, to: &'static str| get(image(from), "/images", Some(to));
    for (from, to) in [
        (1, "image: site2"),
        (1, "image: site7"),
        (2, "image: site4"),
    ] {
        assert_eq!(list(from, to).await.status, 200, "site{from} to {to}");
    }
    for (from, to) in [
        (2, "image: site1"),
        (4, "image: site1"),
        (2, "image: site3"),
        (4, "image: site5"),
        (2, "image: site6"),
    ] {
        let refused = list(from, to).await;
        let found = (refused.status, refused.problem());
        assert_eq!(
            found,
            (403, "forbidden-by-topology".to_owned()),
            "site{from} to {to}"
        );
    }
    // No path of its own from the top to a leaf: its parent carries the request.
    let between =
        |link: &&crate::common::mesh::Link| [(1, 4), (4, 1)].contains(&(link.from, link.to));
    mesh.links
        .iter()
        .filter(between)
        .for_each(|link| link.relay.cut());
    let carried = eventually("the request goes by the parent", || async {
        let answer = list(1, "image: site4").await;
        let hops = answer.all("via").join(",").matches("site2").count();
        (answer.status == 200 && hops > 0).then_some(answer)
    })
    .await;
    assert_eq!(carried.served_by(), "site4");
    eventually("the top holds a report of every site", || async {
        let sites = admin(mesh.site(1).admin, "/v1/sites").await.json();
        let items = sites["items"].as_array()?;
        let told = |item: &&Value| item["report"]["age_ms"].is_u64();
        (items.iter().filter(told).count() == 7).then_some(())
    })
    .await;
    let address = mesh.site(1).admin.to_string();
    let output = run(&["site", "ls", "--tree", "--admin", &address]).await;
    let tree = text(&output.stdout);
    assert!(tree.contains("\n    site4  "), "{tree}");
}
