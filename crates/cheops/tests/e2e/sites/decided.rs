//! What operators decide of sites.

use serde_json::{Value, json};

use super::{Mesh, decide, signal};
use crate::common::agent::{run, text};
use crate::common::client::{ask, get};
use crate::common::eventually;
use crate::common::setup::Setup;

#[tokio::test]
async fn a_fenced_site_stays_out_everywhere_until_it_is_attached() {
    let mut mesh = Setup::of(3).start().await;
    assert_eq!(decide(&mesh, 1, "site3", "fence", json!({})).await, 200);
    mesh.wait_mark(1, 3, "fenced").await;
    mesh.wait_mark(2, 3, "fenced").await;
    let refused = get(mesh.site(2).image, "/images", Some("image: site3")).await;
    assert_eq!(refused.problem(), "site-unreachable");
    eventually("the fenced site reaches nobody", || async {
        let answer = get(mesh.site(3).image, "/images", Some("image: site1")).await;
        (answer.status != 200).then_some(())
    })
    .await;
    assert_eq!(get(mesh.site(3).image, "/images", None).await.status, 200);
    // It is remembered, and the site that comes back is told so.
    mesh.take_agent(1).kill().await;
    mesh.restart(1).await;
    mesh.take_agent(3).kill().await;
    mesh.restart(3).await;
    mesh.wait_mark(1, 3, "fenced").await;
    eventually("the site is told that it is fenced", || async {
        mesh.agent(3)
            .log()
            .contains("this site was fenced")
            .then_some(())
    })
    .await;
    assert_eq!(decide(&mesh, 2, "site3", "attach", json!({})).await, 200);
    mesh.wait_mark(1, 3, "connected").await;
    mesh.wait_mark(2, 3, "connected").await;
    mesh.wait_mark(3, 1, "connected").await;
}

/// With datagrams, and where only links carry them.
#[tokio::test]
async fn a_site_that_detached_itself_comes_back_by_its_own_word() {
    for loss_ppm in [0, 1_000_000] {
        let mut setup = Setup::of(2);
        setup.loss_ppm = loss_ppm;
        let mesh = setup.start().await;
        assert_eq!(decide(&mesh, 2, "site2", "detach", json!({})).await, 200);
        mesh.wait_mark(1, 2, "disconnected").await;
        assert_eq!(decide(&mesh, 2, "site2", "attach", json!({})).await, 200);
        mesh.wait_mark(1, 2, "connected").await;
        mesh.wait_mark(2, 1, "connected").await;
    }
}

/// The number under which a site speaks, which only it raises, grows when it is attached again: what
/// was said of it before cannot stand against it.
#[tokio::test]
async fn a_removed_site_cannot_let_itself_in_and_attached_again_it_takes_part_in_everything() {
    let mut mesh = Setup::of(3).start().await;
    for again in [Again::Running, Again::Restarted] {
        assert_eq!(decide(&mesh, 1, "site3", "remove", json!({})).await, 200);
        eventually("the site is told that it was removed", || async {
            let seen = mesh.seen_from(3, 3).await?;
            (seen["standing"] == "removed").then_some(())
        })
        .await;
        assert_eq!(decide(&mesh, 3, "site3", "attach", json!({})).await, 409);
        if again == Again::Restarted {
            mesh.take_agent(3).kill().await;
            mesh.restart(3).await;
        }
        eventually("it is still out", || async {
            let far = get(mesh.site(3).image, "/images", Some("image: site1")).await;
            (far.status != 200).then_some(())
        })
        .await;
        assert_eq!(decide(&mesh, 2, "site3", "attach", json!({})).await, 200);
        for (from, to) in [(1, 3), (2, 3), (3, 1), (3, 2)] {
            mesh.wait_mark(from, to, "connected").await;
            let scope = format!("image: site{to}");
            let served = get(mesh.site(from).image, "/images", Some(&scope)).await;
            assert_eq!(served.status, 200, "site{from} to site{to}, {again:?}");
        }
        // Its death is believed, and its return: its words count as before.
        signal(&mesh, 3, "-STOP").await;
        mesh.wait_mark(1, 3, "autonomous").await;
        signal(&mesh, 3, "-CONT").await;
        mesh.wait_mark(1, 3, "connected").await;
        mesh.wait_mark(3, 2, "connected").await;
    }
}

/// How a removed site is when it is attached again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Running,
    Restarted,
}

#[tokio::test]
async fn removing_takes_a_majority_and_takes_the_name_away() {
    let mesh = Setup::of(3).start().await;
    mesh.cut(1);
    mesh.wait_mark(1, 2, "autonomous").await;
    mesh.wait_mark(1, 3, "autonomous").await;
    assert_eq!(decide(&mesh, 1, "site3", "remove", json!({})).await, 409);
    mesh.heal(1);
    mesh.wait_mark(1, 2, "connected").await;
    assert_eq!(decide(&mesh, 1, "site3", "remove", json!({})).await, 200);
    eventually("it is gone everywhere", || async {
        let gone = mesh.seen_from(2, 3).await.is_none() && mesh.seen_from(1, 3).await.is_none();
        gone.then_some(())
    })
    .await;
    let refused = get(mesh.site(1).image, "/images", Some("image: site3")).await;
    assert_eq!(refused.problem(), "unknown-site");
    assert_eq!(decide(&mesh, 1, "site3", "attach", json!({})).await, 200);
    mesh.wait_mark(1, 3, "connected").await;
}

#[tokio::test]
async fn a_held_site_takes_no_changes_from_elsewhere() {
    let mesh = Setup::of(2).start().await;
    assert_eq!(
        decide(&mesh, 1, "site2", "hold", json!({})).await,
        409,
        "not its own agent"
    );
    let address = mesh.site(2).admin.to_string();
    let output = run(&["site", "hold", "site2", "--admin", &address]).await;
    assert!(output.status.success(), "{output:?}");
    let scope = [("X-Scope", "image: site2")];
    let body = br#"{"name":"x"}"#;
    let far = ask(mesh.site(1).image, "POST", "/images", &scope, body).await;
    assert_eq!(
        (far.status, far.problem().as_str()),
        (403, "forbidden-by-policy")
    );
    let read = get(mesh.site(1).image, "/images", Some("image: site2")).await;
    assert_eq!(read.status, 200);
    let own = ask(mesh.site(2).image, "POST", "/images", &[], body).await;
    assert_eq!(own.status, 201);
    assert_eq!(decide(&mesh, 2, "site2", "release", json!({})).await, 200);
    let far = ask(mesh.site(1).image, "POST", "/images", &scope, body).await;
    assert_eq!(far.status, 201);
}

/// `cheops site …` at a site's agent; what it printed.
async fn site(mesh: &Mesh, at: usize, arguments: &[&str]) -> Result<String, String> {
    let address = mesh.site(at).admin.to_string();
    let all: Vec<&str> = [&["site"], arguments, &["--admin", &address]].concat();
    let output = run(&all).await;
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

async fn shown(mesh: &Mesh, at: usize, name: &str) -> Value {
    let text = site(mesh, at, &["show", name, "-o", "json"]).await.unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn sites_are_shown_detached_attached_failed_and_moved_by_command() {
    let mesh = Setup::of(3).start().await;
    let told = site(&mesh, 1, &["show", "site2"]).await.unwrap();
    for line in [
        "mark        connected",
        "standing    attached",
        "path        direct",
    ] {
        assert!(told.contains(line), "{told}");
    }
    assert!(site(&mesh, 1, &["show", "nowhere"]).await.is_err());

    site(&mesh, 1, &["detach", "site2"]).await.unwrap();
    let told = shown(&mesh, 1, "site2").await;
    assert_eq!(
        (&told["mark"], &told["standing"]),
        (&json!("disconnected"), &json!("detached"))
    );
    mesh.wait_mark(3, 2, "disconnected").await;
    let refused = get(mesh.site(3).image, "/images", Some("image: site2")).await;
    assert_eq!(refused.problem(), "site-unreachable");
    assert_eq!(get(mesh.site(2).image, "/images", None).await.status, 200);
    site(&mesh, 3, &["attach", "site2"]).await.unwrap();
    mesh.wait_mark(1, 2, "connected").await;
    mesh.wait_mark(2, 1, "connected").await;

    // It has failed until it is heard again.
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    site(&mesh, 1, &["fail", "site2"]).await.unwrap();
    mesh.wait_mark(3, 2, "failed").await;
    mesh.heal(2);
    mesh.wait_mark(1, 2, "connected").await;
    mesh.wait_mark(3, 2, "connected").await;

    let refused = site(&mesh, 1, &["move", "site2", "--parent", "site1"]).await;
    assert!(refused.unwrap_err().contains("own agent"));
    site(&mesh, 2, &["move", "site2", "--parent", "site1"])
        .await
        .unwrap();
    eventually("the tree is known", || async {
        let tree = site(&mesh, 1, &["ls", "--tree"]).await.ok()?;
        tree.contains("\n  site2  ").then_some(())
    })
    .await;
    let refused = site(&mesh, 1, &["move", "site1", "--parent", "site2"]).await;
    assert!(refused.unwrap_err().contains("circle"));
    site(&mesh, 2, &["move", "site2", "--top"]).await.unwrap();
    eventually("it is at the top again", || async {
        let parent = mesh.seen_from(1, 2).await?["parent"].clone();
        parent.is_null().then_some(())
    })
    .await;
}
