//! Replication: `image: site1 & site2` makes one resource on both, and keeps it the same.

use cheops_samples::IdForm;
use serde_json::{Value, json};

use crate::common::client::{Answer, ask, get};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;

pub(crate) const BOTH: &str = "image: site1 & site2";
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Asks a site's agent.
pub(crate) async fn at(
    mesh: &Mesh,
    site: usize,
    method: &str,
    path: &str,
    scope: &str,
    body: Value,
) -> Answer {
    let text = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let mut headers = vec![JSON];
    if !scope.is_empty() {
        headers.push(("X-Scope", scope));
    }
    ask(
        mesh.site(site).image,
        method,
        path,
        &headers,
        text.as_bytes(),
    )
    .await
}

/// Makes an image on both sites; tells the id that clients see, as it stands in paths.
pub(crate) async fn create(mesh: &Mesh, entry: usize, name: &str) -> (String, Answer) {
    let made = at(
        mesh,
        entry,
        "POST",
        "/images",
        BOTH,
        json!({ "name": name, "min_disk": 7 }),
    )
    .await;
    assert_eq!(made.status, 201, "{made:?}");
    (in_path(&made.json()["id"]), made)
}

pub(crate) fn in_path(id: &Value) -> String {
    match id.as_str() {
        Some(text) => text.to_owned(),
        None => id.to_string(),
    }
}

/// Reads, as soon as the agent knows that its service has it.
async fn read_at(mesh: &Mesh, site: usize, path: &str, scope: &str) -> Answer {
    let what = format!("{path} is at site{site}");
    eventually(&what, || async {
        let answer = at(mesh, site, "GET", path, scope, Value::Null).await;
        (answer.status != 503).then_some(answer)
    })
    .await
}

/// What the service of a site itself has, by name.
pub(crate) async fn held(mesh: &Mesh, site: usize, name: &str) -> Vec<Value> {
    let all = get(mesh.site(site).image_service, "/images?limit=1000", None)
        .await
        .json();
    let images = all["images"].as_array().unwrap().iter();
    images
        .filter(|image| image["name"] == name)
        .cloned()
        .collect()
}

pub(crate) async fn wait_held(mesh: &Mesh, site: usize, name: &str) -> Value {
    let what = format!("site{site} has {name}");
    eventually(&what, || async {
        held(mesh, site, name).await.into_iter().next()
    })
    .await
}

#[tokio::test]
async fn the_workflow_of_the_papers_with_uuids() {
    check_workflow(IdForm::Uuid).await;
}

#[tokio::test]
async fn the_workflow_of_the_papers_with_integers() {
    check_workflow(IdForm::Integer).await;
}

async fn check_workflow(ids: IdForm) {
    let mut setup = Setup::of(3);
    setup.ids = ids;
    let mesh = setup.start().await;
    // Integers would be the same everywhere by chance.
    mesh.upload(2, "something else", b"x").await;

    let (meta, made) = create(&mesh, 1, "debian").await;
    assert_eq!(made.served_by(), "site1");
    assert_eq!(made.header("x-cheops-resource"), meta);
    assert!(made.header("location").ends_with(&meta), "{made:?}");
    assert_eq!(made.header("x-cheops-operation").len(), 32);
    let (first, second) = (
        wait_held(&mesh, 1, "debian").await,
        wait_held(&mesh, 2, "debian").await,
    );
    assert_ne!(first["id"], second["id"]);
    assert_ne!(in_path(&first["id"]), meta);
    assert!(
        held(&mesh, 3, "debian").await.is_empty(),
        "only where involved"
    );

    // Read, by meta-id everywhere and by local id where it is one.
    let path = format!("/images/{meta}");
    for (site, local) in [(1, &first), (2, &second)] {
        let by_local = format!("/images/{}", in_path(&local["id"]));
        for path in [&path, &by_local] {
            let read = read_at(&mesh, site, path, "").await;
            assert_eq!(read.status, 200, "{path}: {read:?}");
            assert_eq!(in_path(&read.json()["id"]), meta, "{path}");
            assert_eq!(read.served_by(), format!("site{site}"));
        }
        let list = at(&mesh, site, "GET", "/images", "", Value::Null)
            .await
            .json();
        let listed = list["images"].as_array().unwrap().iter();
        let listed: Vec<_> = listed.filter(|image| image["name"] == "debian").collect();
        assert_eq!(listed.len(), 1);
        assert_eq!(in_path(&listed[0]["id"]), meta);
    }
    let unknown = read_at(&mesh, 3, &path, "").await;
    assert_eq!(
        (unknown.status, unknown.problem().as_str()),
        (404, "unknown-replicant")
    );
    let read = read_at(&mesh, 3, &path, "image: site2").await;
    assert_eq!((read.status, read.served_by()), (200, "site2"));

    // Update: at the leader, at the follower by its local id, from a site without it.
    let by_local = format!("/images/{}", in_path(&second["id"]));
    let ways = [
        (1, &path, ""),
        (2, &by_local, ""),
        (3, &path, "image: site1"),
        (3, &path, BOTH),
    ];
    for (number, (site, path, scope)) in ways.into_iter().enumerate() {
        let change = json!({ "description": format!("version {number}") });
        let changed = at(&mesh, site, "PATCH", path, scope, change.clone()).await;
        assert_eq!(changed.status, 200, "{number}: {changed:?}");
        assert_eq!(in_path(&changed.json()["id"]), meta);
        for site in [1, 2] {
            let what = format!("change {number} is at site{site}");
            eventually(&what, || async {
                let image = held(&mesh, site, "debian").await.remove(0);
                (image["description"] == change["description"]).then_some(())
            })
            .await;
        }
    }

    // Delete, and it is gone for everybody.
    let gone = at(&mesh, 2, "DELETE", &path, "", Value::Null).await;
    assert_eq!(gone.status, 204, "{gone:?}");
    for site in [1, 2] {
        let what = format!("site{site} has dropped it");
        eventually(&what, || async {
            held(&mesh, site, "debian").await.is_empty().then_some(())
        })
        .await;
        let read = read_at(&mesh, site, &path, "").await;
        assert_eq!(
            (read.status, read.problem().as_str()),
            (404, "unknown-replicant")
        );
    }
}

/// Waits until both services hold the same description under that name.
async fn wait_same(mesh: &Mesh, name: &str, description: &str) {
    for site in [1, 2] {
        let what = format!("site{site} has {name} as {description}");
        eventually(&what, || async {
            let held = held(mesh, site, name).await;
            let same = held.len() == 1 && held[0]["description"] == description;
            same.then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_site_that_is_cut_off_gets_everything_when_it_is_back() {
    let mesh = Setup::of(2).start().await;
    let (meta, _) = create(&mesh, 1, "before").await;
    wait_held(&mesh, 2, "before").await;
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    mesh.wait_mark(2, 1, "autonomous").await;

    // The leader writes on; the other one reads, and says what it cannot do.
    let (_, made) = create(&mesh, 1, "during").await;
    assert_eq!(made.header("x-cheops-pending"), "site2");
    let path = format!("/images/{meta}");
    let change = json!({ "description": "by the leader" });
    let changed = at(&mesh, 1, "PATCH", &path, "", change).await;
    assert_eq!(
        (changed.status, changed.header("x-cheops-pending")),
        (200, "site2")
    );
    let read = read_at(&mesh, 2, &path, "").await;
    assert_eq!(read.status, 200);
    let refused = at(&mesh, 2, "PATCH", &path, "", json!({ "description": "x" })).await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (503, "not-leader")
    );
    assert_eq!(refused.json()["sites"], json!(["site1"]));
    assert!(!refused.header("retry-after").is_empty());

    // What it takes all the same, it keeps for the leader.
    let headers = [JSON, ("Prefer", "respond-async")];
    let body = json!({ "description": "by the other" }).to_string();
    let taken = ask(
        mesh.site(2).image,
        "PATCH",
        &path,
        &headers,
        body.as_bytes(),
    )
    .await;
    assert_eq!(taken.status, 202, "{taken:?}");
    assert!(
        taken
            .header("location")
            .starts_with("/.cheops/v1/operations/")
    );

    mesh.heal(2);
    wait_held(&mesh, 2, "during").await;
    wait_same(&mesh, "before", "by the other").await;
}

#[tokio::test]
async fn a_create_enters_at_a_site_without_it_and_is_led_by_the_first_of_its_own() {
    let mesh = Setup::of(3).start().await;
    let (meta, made) = create(&mesh, 3, "from outside").await;
    assert_eq!(made.served_by(), "site1");
    wait_held(&mesh, 1, "from outside").await;
    wait_held(&mesh, 2, "from outside").await;
    assert!(held(&mesh, 3, "from outside").await.is_empty());
    let path = format!("/images/{meta}");
    let read = read_at(&mesh, 2, &path, "").await;
    assert_eq!(read.status, 200);
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_agents_are_killed() {
    let mut mesh = Setup::of(2).start().await;
    let (meta, _) = create(&mesh, 1, "kept").await;
    wait_held(&mesh, 2, "kept").await;
    let path = format!("/images/{meta}");
    for round in 0..3 {
        mesh.cut(2);
        mesh.wait_mark(1, 2, "autonomous").await;
        let text = format!("round {round}");
        let changed = at(&mesh, 1, "PATCH", &path, "", json!({ "description": text })).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let (_, made) = create(&mesh, 1, &text).await;
        assert_eq!(made.header("x-cheops-pending"), "site2");
        for site in [1, 2] {
            mesh.take_agent(site).kill().await;
        }
        mesh.heal(2);
        for site in [1, 2] {
            mesh.restart(site).await;
        }
        wait_held(&mesh, 2, &text).await;
        wait_same(&mesh, "kept", &text).await;
        let read = read_at(&mesh, 2, &path, "").await;
        assert_eq!(in_path(&read.json()["id"]), meta);
    }
    for site in [1, 2] {
        for round in 0..3 {
            let text = format!("round {round}");
            assert_eq!(held(&mesh, site, &text).await.len(), 1, "site{site} {text}");
        }
    }
}

#[tokio::test]
async fn a_key_stands_for_one_request_wherever_it_is_sent() {
    let mesh = Setup::of(3).start().await;
    let body = json!({ "name": "once" }).to_string();
    let headers = [JSON, ("X-Scope", BOTH), ("Idempotency-Key", "k1")];
    let mut ids = Vec::new();
    for entry in [1, 1, 2, 3] {
        let made = ask(
            mesh.site(entry).image,
            "POST",
            "/images",
            &headers,
            body.as_bytes(),
        )
        .await;
        assert_eq!(made.status, 201, "{made:?}");
        ids.push(made.json()["id"].clone());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    wait_held(&mesh, 2, "once").await;
    assert_eq!(held(&mesh, 1, "once").await.len(), 1);
    assert_eq!(held(&mesh, 2, "once").await.len(), 1);

    let other = json!({ "name": "other" }).to_string();
    let reused = ask(
        mesh.site(1).image,
        "POST",
        "/images",
        &headers,
        other.as_bytes(),
    )
    .await;
    assert_eq!(reused.status, 422, "{reused:?}");
    assert!(held(&mesh, 1, "other").await.is_empty());
}

#[tokio::test]
async fn what_cannot_be_replicated_is_said_and_nothing_is_half_done() {
    let mesh = Setup::of(2).start().await;
    let own = mesh.upload(1, "ordinary", b"x").await;
    let path = format!("/images/{own}");

    // A change under `&` to what is no replicant.
    let refused = at(
        &mesh,
        1,
        "PATCH",
        &path,
        BOTH,
        json!({ "description": "x" }),
    )
    .await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (409, "conflict")
    );
    // An ordinary resource is changed as ever.
    let changed = at(&mesh, 1, "PATCH", &path, "", json!({ "description": "y" })).await;
    assert_eq!(changed.status, 200);

    // A verdict of the service is the answer, and nothing goes elsewhere.
    let refused = at(&mesh, 1, "POST", "/images", BOTH, json!({ "no": "name" })).await;
    assert_eq!(
        (refused.status, refused.served_by()),
        (400, "site1"),
        "{refused:?}"
    );

    // A body that is not what its content type says.
    let headers = [JSON, ("X-Scope", BOTH)];
    let broken = ask(
        mesh.site(1).image,
        "POST",
        "/images",
        &headers,
        b"{\"name\": ",
    )
    .await;
    assert_eq!(
        (broken.status, broken.problem().as_str()),
        (400, "bad-body")
    );

    // One that is too long for a log.
    let long = json!({ "name": "x".repeat(200 << 10) }).to_string();
    let refused = ask(
        mesh.site(1).image,
        "POST",
        "/images",
        &headers,
        long.as_bytes(),
    )
    .await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (413, "no-room")
    );

    // A site that is not there.
    let unknown = at(
        &mesh,
        1,
        "POST",
        "/images",
        "image: site1 & site9",
        json!({}),
    )
    .await;
    assert_eq!(
        (unknown.status, unknown.problem().as_str()),
        (400, "unknown-site")
    );
    let all = get(mesh.site(2).image_service, "/images", None)
        .await
        .json();
    assert_eq!(all["images"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn lists_of_several_sites_are_one_with_replicas_once() {
    let mesh = Setup::of(2).start().await;
    mesh.upload(1, "only at 1", b"x").await;
    mesh.upload(2, "only at 2", b"x").await;
    let (id, _) = create(&mesh, 1, "both").await;
    // The service has it before its agent has heard that it does.
    read_at(&mesh, 2, &format!("/images/{id}"), "").await;
    let list = at(&mesh, 1, "GET", "/images", BOTH, Value::Null).await;
    assert_eq!(list.status, 200);
    assert_eq!(list.served_by(), "site1, site2");
    let body = list.json();
    let mut names: Vec<_> = body["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["both", "only at 1", "only at 2"]);

    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let list = at(&mesh, 1, "GET", "/images", BOTH, Value::Null).await;
    assert_eq!(
        (list.status, list.header("x-cheops-partial")),
        (200, "site2")
    );
}
