//! Sites on this machine, for the demo and the benchmarks: an agent process each, sample services, links with delays.

use std::fmt::Write;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
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

/// How long agents and links may take to come up, also with a million replicants.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// What to set up.
pub(super) struct Setting<'a> {
    pub(super) sites: u8,
    /// Between sites, in the order of pairs (1,2), (1,3), (2,3), and again from the first; none: they reach each
    /// other directly, and cannot be cut.
    pub(super) round_trips_ms: &'a [u64],
    /// Show what the agents log.
    pub(super) verbose: bool,
}

/// All of it, running.
pub(super) struct Stage {
    pub(super) sites: Vec<Site>,
    links: Vec<Link>,
    round_trips_ms: Vec<u64>,
    verbose: bool,
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
    pub(super) async fn set(setting: Setting<'_>) -> anyhow::Result<Stage> {
        let folder = tempfile::Builder::new().prefix("cheops-").tempdir()?;
        let mut stage = Stage {
            sites: (1..=setting.sites)
                .map(site)
                .collect::<anyhow::Result<_>>()?,
            links: Vec::new(),
            round_trips_ms: setting.round_trips_ms.to_vec(),
            verbose: setting.verbose,
            samples: JoinSet::new(),
            folder,
        };
        let names: Vec<SiteName> = stage.sites.iter().map(|site| site.name.clone()).collect();
        identity::init("demo", &stage.folder.path().join("mesh"), &names)?;
        stage.lay_links()?;
        for place in 0..stage.sites.len() {
            let config = stage.start_samples(place).await?;
            std::fs::write(stage.file(place), config)?;
            stage.start_agent(place).await?;
        }
        stage.wait_connected().await?;
        Ok(stage)
    }

    fn file(&self, place: usize) -> PathBuf {
        let name = format!("{}.toml", self.sites[place].name);
        self.folder.path().join(name)
    }

    /// Where a site's agent keeps its records.
    pub(super) fn data(&self, place: usize) -> PathBuf {
        let name = format!("data-{}", self.sites[place].name);
        self.folder.path().join(name)
    }

    /// Who it is to the others.
    pub(super) fn identity(&self, place: usize) -> PathBuf {
        let name = self.sites[place].name.as_str();
        self.folder.path().join("mesh").join(name)
    }

    async fn start_agent(&mut self, place: usize) -> anyhow::Result<()> {
        let agent = start_agent(&self.file(place), self.verbose).await?;
        self.sites[place].agent = Some(agent);
        Ok(())
    }

    /// Stops a site's agent and starts it again; returns how long it took to be ready.
    pub(super) async fn restart(&mut self, place: usize) -> anyhow::Result<Duration> {
        self.stop(place).await?;
        self.start(place).await
    }

    /// Stops a site's agent.
    pub(super) async fn stop(&mut self, place: usize) -> anyhow::Result<()> {
        if let Some(mut agent) = self.sites[place].agent.take() {
            drop(agent.stdin.take());
            agent.wait().await?;
        }
        Ok(())
    }

    /// Starts one that was stopped; returns how long it took to be ready.
    pub(super) async fn start(&mut self, place: usize) -> anyhow::Result<Duration> {
        let started = Instant::now();
        self.start_agent(place).await?;
        Ok(started.elapsed())
    }

    fn lay_links(&mut self) -> anyhow::Result<()> {
        if self.round_trips_ms.is_empty() {
            return Ok(());
        }
        for from in 0..self.sites.len() {
            for to in (0..self.sites.len()).filter(|to| *to != from) {
                let one_way = Duration::from_millis(self.round_trip_ms(from, to)) / 2;
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
        let data = self.data(place);
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
        let direct = self.sites.iter().map(|other| other.mesh);
        let direct = direct.filter(|_| self.links.is_empty());
        let join: Vec<_> = links
            .iter()
            .map(|link| link.relay.address())
            .chain(direct.filter(|mesh| *mesh != site.mesh))
            .map(|address| format!("\"{address}\""))
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

    fn round_trip_ms(&self, a: usize, b: usize) -> u64 {
        let (low, high) = (a.min(b), a.max(b));
        let all = &self.round_trips_ms;
        all[(high * (high - 1) / 2 + low) % all.len()]
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
                    let round_trip_ms = self.round_trip_ms(place, other);
                    format!("{} {round_trip_ms} ms", self.sites[other].name)
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

impl Site {
    /// Of its agent, while it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.agent.as_ref().and_then(Child::id)
    }
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
