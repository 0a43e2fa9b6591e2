//! Everything the demo runs: an agent process per site, sample services, links with delays.

use std::fmt::Write;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use cheops_control::client::Client;
use cheops_engine::api::Sites;
use cheops_engine::identity;
use cheops_model::SiteName;
use cheops_relay::{Relay, Shape};
use cheops_samples::{compute, image};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Round trips between sites, in the order of pairs (1,2), (1,3), (2,3), …
const ROUND_TRIPS_MS: [u64; 3] = [12, 48, 90];

/// How long agents and links may take to come up.
const START_TIME_MAX: Duration = Duration::from_secs(20);

/// The demo, running.
pub(super) struct Stage {
    pub(super) sites: Vec<Site>,
    links: Vec<Link>,
    samples: JoinSet<()>,
    folder: TempDir,
}

/// One site.
pub(super) struct Site {
    pub(super) name: SiteName,
    pub(super) image: SocketAddr,
    pub(super) compute: SocketAddr,
    pub(super) admin: SocketAddr,
    mesh: SocketAddr,
    agent: Option<Child>,
}

/// The way from one site to another.
struct Link {
    from: usize,
    to: usize,
    relay: Relay,
}

impl Stage {
    /// Starts everything and waits until every site is connected to every other.
    pub(super) async fn set(count: u8, verbose: bool) -> anyhow::Result<Stage> {
        let folder = tempfile::Builder::new().prefix("cheops-demo-").tempdir()?;
        let mut stage = Stage {
            sites: (1..=count).map(site).collect::<anyhow::Result<_>>()?,
            links: Vec::new(),
            samples: JoinSet::new(),
            folder,
        };
        let names: Vec<SiteName> = stage.sites.iter().map(|site| site.name.clone()).collect();
        identity::init("demo", &stage.folder.path().join("mesh"), &names)?;
        stage.lay_links()?;
        for place in 0..stage.sites.len() {
            let config = stage.start_samples(place).await?;
            let file = stage
                .folder
                .path()
                .join(format!("{}.toml", stage.sites[place].name));
            std::fs::write(&file, config)?;
            stage.sites[place].agent = Some(start_agent(&file, verbose).await?);
        }
        stage.wait_connected().await?;
        Ok(stage)
    }

    fn lay_links(&mut self) -> anyhow::Result<()> {
        for from in 0..self.sites.len() {
            for to in (0..self.sites.len()).filter(|to| *to != from) {
                let one_way = Duration::from_millis(round_trip_ms(from, to)) / 2;
                let relay = Relay::start(self.sites[to].mesh, Shape::with_delay(one_way))?;
                self.links.push(Link { from, to, relay });
            }
        }
        Ok(())
    }

    /// Starts a site's services and writes its agent's configuration.
    async fn start_samples(&mut self, place: usize) -> anyhow::Result<String> {
        let site = &self.sites[place];
        let image_service = TcpListener::bind("127.0.0.1:0").await?;
        let compute_service = TcpListener::bind("127.0.0.1:0").await?;
        let backends = (image_service.local_addr()?, compute_service.local_addr()?);
        let name = site.name.to_string();
        // The compute service calls the image service by its agent's listener, and knows no more.
        let image_url = format!("http://{}", site.image).parse()?;
        let compute = compute::Config::new(name.clone(), image_url);
        self.samples.spawn(async move {
            let _ = image::serve(image_service, image::Config::new(name)).await;
        });
        self.samples.spawn(async move {
            let _ = compute::serve(compute_service, compute).await;
        });
        Ok(self.configuration(place, backends))
    }

    fn configuration(&self, place: usize, backends: (SocketAddr, SocketAddr)) -> String {
        let site = &self.sites[place];
        let name = &site.name;
        let data = self.folder.path().join(format!("data-{name}"));
        let identity = self.folder.path().join("mesh").join(name.as_str());
        let mut text = format!(
            "site = \"{name}\"\ndata = {data:?}\nthreads = 1\n\
             [admin]\nlisten = \"{}\"\n\
             [mesh]\nlisten = \"{}\"\nidentity = {identity:?}\n",
            site.admin, site.mesh,
        );
        let links: Vec<_> = self
            .links
            .iter()
            .filter(|link| link.from == place)
            .collect();
        let join: Vec<_> = links
            .iter()
            .map(|l| format!("\"{}\"", l.relay.address()))
            .collect();
        let _ = writeln!(text, "join = [{}]\n[mesh.routes]", join.join(", "));
        for link in links {
            let _ = writeln!(
                text,
                "{} = \"{}\"",
                self.sites[link.to].name,
                link.relay.address()
            );
        }
        for (service, listen, backend) in [
            ("image", site.image, backends.0),
            ("compute", site.compute, backends.1),
        ] {
            let _ = writeln!(
                text,
                "[service.{service}]\nlisten = \"{listen}\"\nbackend = \"http://{backend}\"",
            );
        }
        text
    }

    async fn wait_connected(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + START_TIME_MAX;
        for place in 0..self.sites.len() {
            while self
                .marks(place)
                .await?
                .iter()
                .filter(|(_, mark)| mark == "connected")
                .count()
                < self.sites.len()
            {
                if Instant::now() > until {
                    bail!("the sites did not find each other; try --verbose");
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// Every site and its mark, as one site sees them.
    pub(super) async fn marks(&self, place: usize) -> anyhow::Result<Vec<(String, String)>> {
        let client = Client::new(&self.sites[place].admin.to_string());
        let (_, body) = client.get("/v1/sites").await?;
        let sites: Sites = serde_json::from_slice(&body)?;
        Ok(sites
            .items
            .into_iter()
            .map(|site| (site.name.to_string(), site.mark))
            .collect())
    }

    /// Waits until one site gives that mark to another.
    pub(super) async fn wait_mark(&self, from: usize, to: usize, mark: &str) -> anyhow::Result<()> {
        let wanted = (self.sites[to].name.to_string(), mark.to_owned());
        let seen = async {
            while !self.marks(from).await?.contains(&wanted) {
                sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        };
        timeout(START_TIME_MAX, seen)
            .await
            .with_context(|| format!("never became {mark}"))?
    }

    /// Cuts a site off from every other, both ways.
    pub(super) fn cut(&self, place: usize) {
        self.links_of(place).for_each(|link| link.relay.cut());
    }

    /// Mends what [`cut`](Stage::cut) cut.
    pub(super) fn heal(&self, place: usize) -> anyhow::Result<()> {
        self.links_of(place)
            .try_for_each(|link| Ok(link.relay.heal()?))
    }

    fn links_of(&self, place: usize) -> impl Iterator<Item = &Link> {
        self.links
            .iter()
            .filter(move |link| link.from == place || link.to == place)
    }

    pub(super) fn describe(&self) -> String {
        let mut out = String::new();
        for (place, site) in self.sites.iter().enumerate() {
            let far: Vec<String> = (0..self.sites.len())
                .filter(|other| *other != place)
                .map(|other| {
                    format!(
                        "{} {} ms",
                        self.sites[other].name,
                        round_trip_ms(place, other)
                    )
                })
                .collect();
            let _ = writeln!(
                out,
                "{}  image http://{}  compute http://{}  admin {}  ({})",
                site.name,
                site.image,
                site.compute,
                site.admin,
                far.join(", "),
            );
        }
        out
    }

    /// Stops everything.
    pub(super) async fn strike(mut self) {
        for site in &mut self.sites {
            if let Some(agent) = &mut site.agent {
                // Its standard input ends: it stops by itself.
                drop(agent.stdin.take());
            }
        }
        for site in &mut self.sites {
            if let Some(mut agent) = site.agent.take()
                && timeout(Duration::from_secs(10), agent.wait())
                    .await
                    .is_err()
            {
                let _ = agent.kill().await;
            }
        }
        self.samples.shutdown().await;
    }
}

fn round_trip_ms(a: usize, b: usize) -> u64 {
    let (low, high) = (a.min(b), a.max(b));
    ROUND_TRIPS_MS[(high * (high - 1) / 2 + low) % ROUND_TRIPS_MS.len()]
}

fn site(number: u8) -> anyhow::Result<Site> {
    Ok(Site {
        name: SiteName::new(&format!("site{number}"))?,
        image: free_address()?,
        compute: free_address()?,
        admin: free_address()?,
        mesh: free_address()?,
        agent: None,
    })
}

/// A port that was free a moment ago.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(StdListener::bind("127.0.0.1:0")?.local_addr()?)
}

async fn start_agent(file: &Path, verbose: bool) -> anyhow::Result<Child> {
    let log = if verbose {
        Stdio::inherit()
    } else {
        Stdio::null()
    };
    let mut agent = Command::new(std::env::current_exe()?)
        .args(["agent", "--watch-stdin", "--config"])
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()?;
    let stdout = agent
        .stdout
        .take()
        .context("the agent has no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    match timeout(START_TIME_MAX, lines.next_line()).await {
        Ok(Ok(Some(line))) if line.starts_with("ready ") => Ok(agent),
        _ => bail!("an agent did not start; try --verbose"),
    }
}
