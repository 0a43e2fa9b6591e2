//! Sites with agents, sample services, and a link each way between any two.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cheops_engine::identity;
use cheops_model::SiteName;
use cheops_relay::{Relay, Shape};
use cheops_samples::{compute, image};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::agent::Agent;
use super::client::{Answer, admin, ask, get};
use super::setup::Setup;
use super::{eventually, ports};

/// One site; its number is its place from 1 on.
pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) image: SocketAddr,
    pub(crate) compute: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) mesh: SocketAddr,
    /// The services themselves, behind the agent.
    pub(crate) image_service: SocketAddr,
    pub(crate) compute_service: SocketAddr,
    pub(crate) config: PathBuf,
    pub(crate) agent: Option<Agent>,
}

pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) relay: Relay,
}

/// A running mesh; it ends with the value.
pub(crate) struct Mesh {
    pub(crate) sites: Vec<Site>,
    pub(crate) links: Vec<Link>,
    _samples: JoinSet<()>,
    folder: TempDir,
}

impl Mesh {
    pub(super) async fn lay_out(setup: &Setup) -> Mesh {
        let folder = tempfile::Builder::new().prefix("cheops-e2e-").tempdir();
        let folder = folder.unwrap();
        let mut mesh = Mesh {
            sites: Vec::new(),
            links: Vec::new(),
            _samples: JoinSet::new(),
            folder,
        };
        for number in 1..=setup.sites {
            let site = mesh.place(number, setup).await;
            mesh.sites.push(site);
        }
        let names: Vec<_> = mesh
            .sites
            .iter()
            .map(|site| SiteName::new(&site.name).unwrap())
            .collect();
        identity::init("e2e", &mesh.path().join("mesh"), &names).unwrap();
        for from in 1..=setup.sites {
            for to in (1..=setup.sites).filter(|to| *to != from) {
                let shape = Shape {
                    loss_ppm: setup.loss_ppm,
                    ..Shape::with_delay(setup.delay)
                };
                let relay = Relay::start(mesh.site(to).mesh, shape).unwrap();
                mesh.links.push(Link { from, to, relay });
            }
        }
        for number in 1..=setup.sites {
            let text = setup.configuration(&mesh, number);
            std::fs::write(&mesh.site(number).config, text).unwrap();
        }
        mesh
    }

    /// Starts a site's sample services.
    async fn place(&mut self, number: usize, setup: &Setup) -> Site {
        let name = format!("site{number}");
        let image = ports::free();
        let images = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let computes = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = setup.image_at.iter().find(|(site, _)| *site == number);
        let site = Site {
            image,
            compute: ports::free(),
            admin: ports::free(),
            mesh: ports::free(),
            image_service: other.map_or(images.local_addr().unwrap(), |(_, address)| *address),
            compute_service: computes.local_addr().unwrap(),
            config: self.path().join(format!("{name}.toml")),
            agent: None,
            name: name.clone(),
        };
        let mut image_config = image::Config::new(name.clone());
        image_config.kept_bytes_max = setup.kept_bytes_max;
        image_config.ids = setup.ids;
        let mut compute_config =
            compute::Config::new(name, format!("http://{image}").parse().unwrap());
        compute_config.passed_on = vec![setup.passed_on.parse().unwrap()];
        self._samples.spawn(async move {
            let _ = image::serve(images, image_config).await;
        });
        self._samples.spawn(async move {
            let _ = compute::serve(computes, compute_config).await;
        });
        site
    }

    pub(super) async fn start_all(&mut self) -> Result<(), String> {
        for site in &mut self.sites {
            site.agent = Some(Agent::start(&site.config).await?);
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// By its number, from 1 on.
    pub(crate) fn site(&self, number: usize) -> &Site {
        &self.sites[number - 1]
    }

    pub(crate) fn agent(&self, number: usize) -> &Agent {
        self.site(number).agent.as_ref().expect("its agent runs")
    }

    /// Takes a site's agent out, to be killed or waited for.
    pub(crate) fn take_agent(&mut self, number: usize) -> Agent {
        self.sites[number - 1].agent.take().expect("its agent runs")
    }

    /// Starts a site's agent again, on what it left.
    pub(crate) async fn restart(&mut self, number: usize) {
        let site = &mut self.sites[number - 1];
        assert!(site.agent.is_none(), "it runs");
        let started = Agent::start(&site.config).await;
        site.agent = Some(started.unwrap_or_else(|log| panic!("no restart: {log}")));
    }

    /// Cuts a site off from every other, both ways.
    pub(crate) fn cut(&self, number: usize) {
        self.links_of(number).for_each(|link| link.relay.cut());
    }

    /// Mends what [`cut`](Mesh::cut) cut.
    pub(crate) fn heal(&self, number: usize) {
        self.links_of(number)
            .for_each(|link| link.relay.heal().unwrap());
    }

    fn links_of(&self, number: usize) -> impl Iterator<Item = &Link> {
        self.links
            .iter()
            .filter(move |link| link.from == number || link.to == number)
    }

    /// What one site's admin API says of another.
    pub(crate) async fn seen_from(&self, from: usize, to: usize) -> Option<Value> {
        let sites = admin(self.site(from).admin, "/v1/sites").await.json();
        let name = &self.site(to).name;
        let items = sites["items"].as_array().unwrap();
        items.iter().find(|item| item["name"] == **name).cloned()
    }

    pub(crate) async fn wait_mark(&self, from: usize, to: usize, mark: &str) {
        let what = format!("site{to} is {mark} for site{from}");
        eventually(&what, || async {
            let seen = self.seen_from(from, to).await?;
            (seen["mark"] == mark).then_some(())
        })
        .await;
    }

    /// Makes an image with a content at one site, by its service itself, and tells its id.
    pub(crate) async fn upload(&self, number: usize, name: &str, content: &[u8]) -> String {
        let service = self.site(number).image_service;
        let body = json!({ "name": name }).to_string();
        let made = ask(service, "POST", "/images", &[], body.as_bytes()).await;
        assert_eq!(made.status, 201);
        let id = made.json()["id"].to_string().replace('"', "");
        let path = format!("/images/{id}/file");
        assert_eq!(ask(service, "PUT", &path, &[], content).await.status, 204);
        id
    }

    /// Asks a site to boot an image.
    pub(crate) async fn boot(&self, at: usize, image: &str, headers: &[(&str, &str)]) -> Answer {
        let body = json!({ "name": "vm", "image_id": image }).to_string();
        ask(
            self.site(at).compute,
            "POST",
            "/servers",
            headers,
            body.as_bytes(),
        )
        .await
    }
}

/// What a service saw of requests with that path.
pub(crate) async fn seen(service: SocketAddr, path: &str) -> Vec<Value> {
    let all = get(service, "/debug/seen", None).await.json();
    let entries = all["seen"].as_array().unwrap().iter();
    entries
        .filter(|entry| entry["path"] == path)
        .map(|entry| entry["headers"].clone())
        .collect()
}

/// Asserts that nothing in the headers of a request tells of agents.
pub(crate) fn assert_untouched(headers: &Value) {
    for name in headers.as_object().unwrap().keys() {
        let ours = name == "x-scope" || name.starts_with("x-cheops-");
        assert!(!ours, "{name} reached the service: {headers}");
    }
}
