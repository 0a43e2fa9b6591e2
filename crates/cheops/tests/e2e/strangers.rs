//! Agents of two meshes that are pointed at each other never serve each other.

use crate::common::client::get;
use crate::common::eventually;
use crate::common::setup::Setup;

#[tokio::test]
async fn agents_of_two_meshes_never_connect_and_say_so() {
    // One layout, but site2's identity is of another mesh of the same name.
    let mut mesh = Setup::of(2).start_agents().await;
    for site in [1, 2] {
        mesh.take_agent(site).kill().await;
        std::fs::remove_dir_all(mesh.path().join(format!("data-site{site}"))).unwrap();
    }
    let other = mesh.path().join("other");
    let name = cheops_model::SiteName::new("site2").unwrap();
    cheops_engine::identity::init("e2e", &other, &[name]).unwrap();
    let config = mesh.site(2).config.clone();
    let text = std::fs::read_to_string(&config).unwrap();
    let ours = mesh.path().join("mesh/site2").display().to_string();
    let theirs = other.join("site2").display().to_string();
    std::fs::write(&config, text.replace(&ours, &theirs)).unwrap();
    for site in [1, 2] {
        let log = mesh.site(site).config.with_extension("log");
        std::fs::write(log, "").unwrap();
        mesh.restart(site).await;
    }
    for site in [1, 2] {
        eventually("the stranger is spoken of", || async {
            mesh.agent(site)
                .log()
                .contains("not of this mesh")
                .then_some(())
        })
        .await;
    }
    for (here, there) in [(1, 2), (2, 1)] {
        let log = mesh.agent(here).log();
        let said = log
            .lines()
            .filter(|line| line.contains("no link: "))
            .count();
        assert!(said <= 1, "said once: {log}");
        assert_eq!(mesh.seen_from(here, there).await, None, "never heard of");
        let scope = format!("image: site{there}");
        let answer = get(mesh.site(here).image, "/images", Some(&scope)).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (400, "unknown-site")
        );
        let answer = get(mesh.site(here).image, "/images", None).await;
        assert_eq!(answer.status, 200, "what is local goes on");
    }
}

#[tokio::test]
async fn the_mesh_port_serves_no_client() {
    let mesh = Setup::of(1).start().await;
    let asked = crate::common::client::try_ask(
        mesh.site(1).mesh,
        "GET",
        "/images",
        &[(
            "X-Cheops-Mesh",
            "service=image;target=site1;entry=x;visited=x;hops=0;deadline=9999",
        )],
        b"",
    )
    .await;
    assert!(asked.is_err(), "{asked:?}");
    let seen = get(mesh.site(1).image_service, "/debug/seen", None)
        .await
        .json();
    assert_eq!(seen["seen"], serde_json::json!([]));
}
