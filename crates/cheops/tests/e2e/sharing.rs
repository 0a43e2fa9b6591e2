//! Sharing: `compute: a, image: b` in every combination, entered anywhere; and who sees what.

use crate::common::agent::run;
use crate::common::client::{ask, get};
use crate::common::eventually;
use crate::common::mesh::{Mesh, assert_untouched, seen};
use crate::common::setup::Setup;

const CONTENT: &[u8] = b"the bits of a disk";

/// One image of the same name at each site; only its own site knows its id.
async fn stocked(setup: Setup) -> (Mesh, Vec<String>) {
    let mesh = setup.start().await;
    let mut images = vec![String::new()];
    for site in 1..=3 {
        let content = [CONTENT, site.to_string().as_bytes()].concat();
        images.push(mesh.upload(site, &format!("of site{site}"), &content).await);
    }
    (mesh, images)
}

/// Boots in all 27 ways; each has to use the right services and tell who answered.
async fn check_all_placements(mesh: &Mesh, images: &[String]) {
    for (entry, compute, image) in all_threes() {
        let scope = format!("compute: site{compute}, image: site{image}");
        let headers = [("X-Scope", scope.as_str()), ("X-Request-Id", "mine")];
        let answer = mesh.boot(entry, &images[image], &headers).await;
        let told = format!("at site{entry}: {scope}: {answer:?}");
        assert_eq!(answer.status, 201, "{told}");
        let body = answer.json();
        assert_eq!(body["booted_at"], format!("site{compute}"), "{told}");
        assert_eq!(body["image_name"], format!("of site{image}"), "{told}");
        assert_eq!(answer.served_by(), format!("site{compute}"), "{told}");
        assert_eq!(answer.all("x-request-id"), ["mine"], "{told}");
        assert_eq!(answer.header("x-cheops-unbound"), "", "{told}");
        assert_eq!(answer.header("x-scope"), "", "{told}");
    }
}

fn all_threes() -> impl Iterator<Item = (usize, usize, usize)> {
    (0..27).map(|n| (n / 9 + 1, n / 3 % 3 + 1, n % 3 + 1))
}

#[tokio::test]
async fn every_placement_works_from_every_entry() {
    let (mesh, images) = stocked(Setup::of(3)).await;
    check_all_placements(&mesh, &images).await;
    for (site, image) in images.iter().enumerate().skip(1) {
        let boots = seen(mesh.site(site).compute_service, "/servers").await;
        assert_eq!(boots.len(), 9);
        for headers in &boots {
            assert_untouched(headers);
            assert_ne!(headers["x-request-id"], "mine", "two requests share no key");
        }
        let path = format!("/images/{image}");
        let fetches = seen(mesh.site(site).image_service, &path).await;
        assert_eq!(fetches.len(), 9, "the image is served from its own site");
        fetches.iter().for_each(assert_untouched);
    }
}

#[tokio::test]
async fn every_placement_works_where_the_service_passes_the_scope_on() {
    let mut setup = Setup::of(3);
    setup.passed_on = "x-scope";
    setup.compute = "propagate = [\"header\"]".to_owned();
    let (mesh, images) = stocked(setup).await;
    check_all_placements(&mesh, &images).await;
    for (site, image) in images.iter().enumerate().skip(1) {
        let boots = seen(mesh.site(site).compute_service, "/servers").await;
        assert!(boots.iter().all(|headers| headers["x-scope"].is_string()));
        let path = format!("/images/{image}");
        let fetches = seen(mesh.site(site).image_service, &path).await;
        fetches.iter().for_each(assert_untouched);
    }
}

#[tokio::test]
async fn every_placement_works_where_the_service_passes_baggage_on() {
    let mut setup = Setup::of(3);
    setup.passed_on = "baggage";
    setup.compute = "propagate = [\"baggage\"]".to_owned();
    let (mesh, images) = stocked(setup).await;
    check_all_placements(&mesh, &images).await;
    let headers = [("X-Scope", "image: site2"), ("Baggage", "user=7")];
    assert_eq!(mesh.boot(1, &images[2], &headers).await.status, 201);
    let boots = seen(mesh.site(1).compute_service, "/servers").await;
    let baggage = boots.last().unwrap()["baggage"].as_str().unwrap();
    assert!(baggage.starts_with("user=7,cheops-scope="), "{baggage}");
    let path = format!("/images/{}", images[2]);
    let fetches = seen(mesh.site(2).image_service, &path).await;
    let last = fetches.last().unwrap();
    assert_untouched(last);
    assert_eq!(
        last["baggage"], "user=7",
        "the image service asked for no scope"
    );
}

#[tokio::test]
async fn an_image_fetched_after_the_answer_is_placed_by_the_same_scope() {
    let (mesh, images) = stocked(Setup::of(3)).await;
    for (entry, compute, image) in [(1, 1, 2), (1, 2, 3), (3, 2, 2), (2, 3, 1)] {
        let scope = format!("compute: site{compute}, image: site{image}");
        let body = format!("{{\"name\":\"vm\",\"image_id\":\"{}\"}}", images[image]);
        let headers = [("X-Scope", scope.as_str())];
        let service = mesh.site(entry).compute;
        let answer = ask(
            service,
            "POST",
            "/servers?async=true",
            &headers,
            body.as_bytes(),
        )
        .await;
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.header("x-request-id"), "", "it had none");
        let path = answer.header("location").to_owned();
        let server = eventually("the server is built", || async {
            let shown = get(service, &path, Some(&scope)).await.json();
            (shown["status"] != "BUILD").then_some(shown)
        })
        .await;
        assert_eq!(server["status"], "ACTIVE", "{server}");
        assert_eq!(server["booted_at"], format!("site{compute}"));
        assert_eq!(server["image_name"], format!("of site{image}"));
    }
}

#[tokio::test]
async fn a_service_that_the_scope_does_not_bind_runs_here_and_says_so() {
    let mesh = Setup::of(2).start().await;
    let answer = get(mesh.site(1).image, "/images", Some("compute: site2")).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    assert_eq!(answer.header("x-cheops-unbound"), "image");
    let answer = get(mesh.site(1).image, "/images", Some("{}")).await;
    assert_eq!(answer.header("x-cheops-unbound"), "image");
    let answer = get(mesh.site(1).image, "/images", Some("GLANCE: site2")).await;
    assert_eq!(
        (answer.served_by(), answer.header("x-cheops-unbound")),
        ("site2", "")
    );
    let answer = get(mesh.site(1).image, "/images", None).await;
    assert_eq!(
        (answer.served_by(), answer.header("x-cheops-unbound")),
        ("site1", "")
    );
}

#[tokio::test]
async fn here_is_where_the_workflow_entered() {
    let (mesh, images) = stocked(Setup::of(3)).await;
    let headers = [("X-Scope", "compute: site2, image: here")];
    let answer = mesh.boot(1, &images[1], &headers).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.json()["image_name"], "of site1");
}

#[tokio::test]
async fn status_tells_all_sites_and_its_exit_code_whether_all_are_well() {
    let mesh = Setup::of(2).start().await;
    let admin = mesh.site(1).admin.to_string();
    let output = run(&["status", "--admin", &admin]).await;
    assert_eq!(output.status.code(), Some(0));
    mesh.cut(2);
    mesh.wait_mark(1, 2, "autonomous").await;
    let output = run(&["status", "--admin", &admin, "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(1));
    let output = run(&["status", "--admin", "127.0.0.1:1"]).await;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}
