//! Replication: `image: site1 & site2` makes one resource on both, and keeps it the same.

use cheops_samples::IdForm;
use serde_json::{Value, json};

use crate::common::client::{Answer, ask, get};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;

const BOTH: &str = "image: site1 & site2";
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Asks a site's agent.
async fn at(
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
async fn create(mesh: &Mesh, entry: usize, name: &str) -> (String, Answer) {
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

fn in_path(id: &Value) -> String {
    match id.as_str() {
        Some(text) => text.to_owned(),
        None => id.to_string(),
    }
}

/// What the service of a site itself has, by name.
async fn held(mesh: &Mesh, site: usize, name: &str) -> Vec<Value> {
    let all = get(mesh.site(site).image_service, "/images?limit=1000", None)
        .await
        .json();
    let images = all["images"].as_array().unwrap().iter();
    images
        .filter(|image| image["name"] == name)
        .cloned()
        .collect()
}

async fn wait_held(mesh: &Mesh, site: usize, name: &str) -> Value {
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
            let read = at(&mesh, site, "GET", path, "", Value::Null).await;
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
    let unknown = at(&mesh, 3, "GET", &path, "", Value::Null).await;
    assert_eq!(
        (unknown.status, unknown.problem().as_str()),
        (404, "unknown-replicant")
    );
    let read = at(&mesh, 3, "GET", &path, "image: site2", Value::Null).await;
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
        let read = at(&mesh, site, "GET", &path, "", Value::Null).await;
        assert_eq!(
            (read.status, read.problem().as_str()),
            (404, "unknown-replicant")
        );
    }
}
