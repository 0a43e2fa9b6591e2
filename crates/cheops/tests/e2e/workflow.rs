//! What a site says of scopes: its rules, whether clients may give one, how deep calls may go.

use crate::common::client::{ask, get};
use crate::common::mesh::seen;
use crate::common::ports;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

const RULES: &str = r#"
[[rule]]
match = { service = "image", method = "POST", path = "/images", header = { name = "X-Team", value = "far" } }
scope = "image: site2"
[[rule]]
match = { service = "compute" }
scope = "compute: site1, image: site2"
"#;

#[tokio::test]
async fn a_rule_adds_a_scope_where_none_is_given() {
    let mut setup = Setup::of(2);
    setup.more = RULES.to_owned();
    let mesh = setup.start().await;
    let here = mesh.site(1).image;
    let far = [("X-Team", "far")];
    let made = ask(here, "POST", "/images", &far, b"{\"name\":\"a\"}").await;
    assert_eq!((made.status, made.served_by()), (201, "site2"));
    for headers in [&[][..], &[("X-Team", "near")]] {
        let made = ask(here, "POST", "/images", headers, b"{\"name\":\"a\"}").await;
        assert_eq!((made.status, made.served_by()), (201, "site1"));
    }
    let listed = ask(here, "GET", "/images", &far, b"").await;
    assert_eq!(listed.served_by(), "site1", "the rule is for POST");
    let own = [("X-Team", "far"), ("X-Scope", "image: site1")];
    let made = ask(here, "POST", "/images", &own, b"{\"name\":\"a\"}").await;
    assert_eq!(
        made.served_by(),
        "site1",
        "a client's own scope comes first"
    );
}

#[tokio::test]
async fn the_scope_of_a_rule_follows_the_workflow() {
    let mut setup = Setup::of(2);
    setup.more = RULES.to_owned();
    let mesh = setup.start().await;
    let id = mesh.upload(2, "far", b"x").await;
    let answer = mesh.boot(1, &id, &[]).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.json()["booted_at"], "site1");
}

#[tokio::test]
async fn a_site_may_take_no_scope_from_clients() {
    let mut setup = Setup::of(2);
    setup.compute = "accept_scope = false".to_owned();
    let mesh = setup.start().await;
    let answer = get(mesh.site(1).compute, "/servers", Some("compute: site2")).await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.problem(), "forbidden-by-policy");
    let answer = get(mesh.site(1).compute, "/servers", None).await;
    assert_eq!((answer.status, answer.served_by()), (200, "site1"));
    let answer = get(mesh.site(1).image, "/images", Some("image: site2")).await;
    assert_eq!(answer.served_by(), "site2", "the other service takes them");
}

#[tokio::test]
async fn a_workflow_that_calls_itself_ends_as_a_loop() {
    // The image service calls the image service, by the address its siblings use.
    let mut setup = Setup::of(2);
    let listen = ports::free();
    let circle = Stub::calling(listen).await;
    setup.no_image_at = vec![1];
    setup.more = format!(
        "[service.circle]\nlisten = \"LISTEN\"\nbackend = \"http://{}\"\n",
        circle.address
    );
    // Both sites have it; only site1 is reached by the stub.
    setup.more = setup.more.replace("LISTEN", "127.0.0.1:0");
    let mut mesh = setup.start().await;
    let site = mesh.site(1).config.clone();
    let text = std::fs::read_to_string(&site).unwrap();
    std::fs::write(&site, text.replace("127.0.0.1:0", &listen.to_string())).unwrap();
    mesh.take_agent(1).kill().await;
    mesh.restart(1).await;
    let answer = get(listen, "/", Some("circle: site1")).await;
    assert_eq!(answer.status, 508, "{answer:?}");
    assert_eq!(answer.json()["code"], "loop");
    assert_eq!(circle.seen(), 17, "a request and 16 calls of services");
}

#[tokio::test]
async fn a_workflow_that_goes_to_and_fro_ends_as_a_loop_too() {
    let (one, two) = (ports::free(), ports::free());
    let (first, second) = (Stub::calling(two).await, Stub::calling(one).await);
    let mut setup = Setup::of(2);
    // `ping` runs at both sites under one address each; its scope sends it to the other site.
    setup.more = format!(
        "[service.ping]\nlisten = \"PING\"\nbackend = \"http://{}\"\n\
         [service.pong]\nlisten = \"PONG\"\nbackend = \"http://{}\"\n",
        first.address, second.address
    );
    let text = setup.more.clone();
    setup.more = text
        .replace("PING", "127.0.0.1:0")
        .replace("PONG", "127.0.0.1:0");
    let mut mesh = setup.start().await;
    let config = mesh.site(1).config.clone();
    let all = std::fs::read_to_string(&config).unwrap();
    let all = all.replacen("127.0.0.1:0", &one.to_string(), 1);
    std::fs::write(&config, all.replacen("127.0.0.1:0", &two.to_string(), 1)).unwrap();
    mesh.take_agent(1).kill().await;
    mesh.restart(1).await;
    let answer = get(one, "/", Some("ping: site1, pong: site1")).await;
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (508, Some("loop"))
    );
    assert_eq!(first.seen() + second.seen(), 17);
}

#[tokio::test]
async fn two_live_scopes_on_one_trace_are_refused_and_never_guessed() {
    let mut setup = Setup::of(2);
    setup.compute = "propagate = [\"correlate:traceparent\"]".to_owned();
    setup.passed_on = "traceparent";
    let mesh = setup.start().await;
    let id = mesh.upload(2, "far", b"x").await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let boot = |scope| [("Traceparent", trace), ("X-Scope", scope)];
    let answer = mesh.boot(1, &id, &boot("image: site2")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let boots = seen(mesh.site(1).compute_service, "/servers").await;
    assert_eq!(
        boots[0]["traceparent"], trace,
        "a trace goes on under its own id"
    );
    let answer = mesh.boot(1, &id, &boot("image: site1")).await;
    assert_eq!(answer.status, 409);
    assert_eq!(answer.problem(), "scope-ambiguous");
    assert_eq!(mesh.boot(1, &id, &boot("image: site2")).await.status, 201);
}
