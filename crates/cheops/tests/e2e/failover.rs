//! `failover=auto`: a leader that is gone is replaced by a majority, and nothing acknowledged is lost.

use serde_json::{Value, json};

use crate::common::client::{admin, ask};
use crate::common::eventually;
use crate::common::setup::Setup;
use crate::replicas::{at, held, in_path, wait_held};
use crate::resources::converged;

const AUTO: &str = "image: eventual(site1 & site2 & site3, failover=auto)";

#[tokio::test]
async fn another_site_leads_by_itself_and_the_old_leader_comes_back_as_a_follower() {
    let mut mesh = Setup::of(3).start().await;
    let made = at(
        &mesh,
        1,
        "POST",
        "/images",
        AUTO,
        json!({ "name": "debian" }),
    )
    .await;
    assert_eq!(made.status, 201, "{made:?}");
    let meta = in_path(&made.json()["id"]);
    let told = converged(&mesh, 1, &meta).await;
    assert_eq!(
        told["guarantee"],
        json!({ "kind": "eventual", "failover": "auto" })
    );
    let path = format!("/images/{meta}");
    // Acknowledged by the leader, which is killed at once: perhaps nobody else has heard of it.
    let last = eventually("the leader has its lease", || async {
        let last = at(&mesh, 1, "PATCH", &path, "", json!({ "min_disk": 9 })).await;
        (last.status == 200).then_some(last)
    })
    .await;
    assert_eq!(last.served_by(), "site1");
    mesh.take_agent(1).kill().await;

    let mut number = 0;
    let written = loop {
        number += 1;
        let text = format!("try {number}");
        // Not longer than that for a leader of whom nobody knows yet that it is gone.
        let headers = [("Content-Type", "application/json"), ("Prefer", "wait=2")];
        let body = json!({ "description": text }).to_string();
        let service = mesh.site(2).image;
        let changed = ask(service, "PATCH", &path, &headers, body.as_bytes()).await;
        match changed.status {
            200 => break text,
            503 | 504 => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
            _ => panic!("{changed:?}"),
        }
        assert!(number < 200, "nobody takes over");
    };
    let leader = |told: &Value| told["leader"].as_str().unwrap_or_default().to_owned();
    let page = format!("/v1/resources/{meta}");
    let told = admin(mesh.site(2).admin, &page).await.json();
    assert_ne!(leader(&told), "site1");
    assert!(told["epoch"].as_u64() > Some(1));

    mesh.restart(1).await;
    for site in 1..=3 {
        eventually(&format!("site{site} has everything"), || async {
            let image = wait_held(&mesh, site, "debian").await;
            let all = image["description"] == json!(written) && image["min_disk"] == 9;
            all.then_some(())
        })
        .await;
        assert_eq!(held(&mesh, site, "debian").await.len(), 1);
    }
    let told = converged(&mesh, 1, &meta).await;
    assert_ne!(leader(&told), "site1", "{told}");
    assert_eq!(told["conflicts"], 0);
    // The old leader passes writes on.
    let changed = at(
        &mesh,
        1,
        "PATCH",
        &path,
        "",
        json!({ "description": "passed on" }),
    )
    .await;
    assert_eq!(changed.status, 200, "{changed:?}");
}

#[tokio::test]
async fn a_leader_without_a_majority_writes_nothing() {
    let mesh = Setup::of(3).start().await;
    let made = at(
        &mesh,
        1,
        "POST",
        "/images",
        AUTO,
        json!({ "name": "debian" }),
    )
    .await;
    let meta = in_path(&made.json()["id"]);
    converged(&mesh, 1, &meta).await;
    mesh.cut(1);
    mesh.wait_mark(1, 2, "autonomous").await;
    mesh.wait_mark(1, 3, "autonomous").await;
    let path = format!("/images/{meta}");
    let refused = eventually("its lease is over", || async {
        let refused = at(&mesh, 1, "PATCH", &path, "", json!({ "min_disk": 1 })).await;
        (refused.status == 503).then_some(refused)
    })
    .await;
    assert!(!refused.header("retry-after").is_empty());
    // Reads go on.
    assert_eq!(
        at(&mesh, 1, "GET", &path, "", Value::Null).await.status,
        200
    );
}
