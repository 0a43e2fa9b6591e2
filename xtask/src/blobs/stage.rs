//! Two sites on this machine: an agent each, a service that hashes and discards, links that can be cut.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cheops_relay::{Direction, Relay, Shape};
use cheops_samples::image;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::BlobsArgs;
use super::client::{Connection, Content};
use crate::bench::free_address;

/// How often it is looked how much has come.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Everything that runs; it ends with the value.
pub(super) struct Stage {
    sites: Vec<Site>,
    /// From site 1 to site 2, and the other way.
    links: Vec<Relay>,
    runtime: Runtime,
    folder: TempDir,
}

struct Site {
    image: SocketAddr,
    admin: SocketAddr,
    mesh: SocketAddr,
    service: SocketAddr,
    agent: Option<Child>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for agent in self.sites.iter_mut().filter_map(|site| site.agent.as_mut()) {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

impl Stage {
    pub(super) fn start(args: &BlobsArgs) -> anyhow::Result<Stage> {
        let program = fs::canonicalize(&args.agent)
            .with_context(|| format!("{}: it is not built", args.agent.display()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let mut sites = Vec::new();
        for number in 1..=2 {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            let service = listener.local_addr()?;
            let mut config = image::Config::new(format!("site{number}"));
            config.kept_bytes_max = 0;
            let _inside = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)?;
            runtime.spawn(async move { image::serve(listener, config).await });
            sites.push(Site {
                image: free_address(),
                admin: free_address(),
                mesh: free_address(),
                service,
                agent: None,
            });
        }
        let shape = || Shape {
            bytes_per_s_max: NonZeroU64::new(args.link_mib_per_s << 20),
            ..Shape::with_delay(Duration::from_millis(args.delay_ms))
        };
        let links = {
            let _inside = runtime.enter();
            [1, 0].map(|to: usize| Relay::start(sites[to].mesh, shape()))
        };
        let mut stage = Stage {
            sites,
            links: links.into_iter().collect::<Result<_, _>>()?,
            runtime,
            folder: tempfile::tempdir()?,
        };
        stage.init(&program)?;
        for number in 1..=2 {
            stage.start_agent(&program, number, args.rate_mib_per_s)?;
        }
        stage.wait_until(
            "both sites are connected",
            Duration::from_secs(30),
            |stage| {
                let head = "GET /images HTTP/1.1\r\nX-Scope: image: site2";
                let answer = Connection::open(stage.entry())?.ask(head, b"")?;
                Ok((answer.status == 200).then_some(()))
            },
        )?;
        Ok(stage)
    }

    fn init(&self, program: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(program);
        command.args(["init", "--mesh", "blobs", "--out", "mesh"]);
        command.args(["--site", "site1", "--site", "site2"]);
        command
            .current_dir(self.folder.path())
            .stdout(Stdio::null());
        match command.status()?.success() {
            true => Ok(()),
            false => bail!("no mesh could be made"),
        }
    }

    fn start_agent(&mut self, program: &Path, number: usize, rate: u64) -> anyhow::Result<()> {
        let (site, way) = (&self.sites[number - 1], self.links[number - 1].address());
        let rate = match rate {
            0 => String::new(),
            rate => format!("[blobs]\nrate = \"{rate}MiB\"\n"),
        };
        let text = format!(
            "site = \"site{number}\"\ndata = \"data{number}\"\nthreads = 2\n\
             [admin]\nlisten = \"{}\"\n\
             [mesh]\nlisten = \"{}\"\nidentity = \"mesh/site{number}\"\njoin = [\"{way}\"]\n\
             [mesh.routes]\nsite{} = \"{way}\"\n\
             [service.image]\nlisten = \"{}\"\nbackend = \"http://{}\"\n{rate}",
            site.admin,
            site.mesh,
            3 - number,
            site.image,
            site.service,
        );
        let folder = self.folder.path();
        fs::write(folder.join(format!("site{number}.toml")), text)?;
        let log = folder.join(format!("site{number}.log"));
        let mut agent = Command::new(program)
            .args(["agent", "--config", &format!("site{number}.toml")])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut line = String::new();
        let stdout = agent.stdout.take().context("no standard output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        self.sites[number - 1].agent = Some(agent);
        if !line.starts_with("ready ") {
            bail!("site{number} did not start: {}", fs::read_to_string(log)?);
        }
        Ok(())
    }

    /// Where clients ask: site 1.
    pub(super) fn entry(&self) -> SocketAddr {
        self.sites[0].image
    }

    pub(super) fn pid(&self, number: usize) -> u32 {
        self.sites[number - 1].agent.as_ref().map_or(0, Child::id)
    }

    /// Makes an image on both sites; tells its id.
    pub(super) fn create(&self, name: &str) -> anyhow::Result<String> {
        let head = "POST /images HTTP/1.1\r\nX-Scope: image: site1 & site2\r\nContent-Type: application/json";
        let body = format!("{{\"name\": \"{name}\"}}");
        let made = Connection::open(self.entry())?.ask(head, body.as_bytes())?;
        let made: Value = serde_json::from_slice(&made.body)?;
        Ok(made["id"].as_str().context("it was not made")?.to_owned())
    }

    /// Brings a content; tells the operation.
    pub(super) fn upload(&self, image: &str, content: &mut Content) -> anyhow::Result<String> {
        let head =
            format!("PUT /images/{image}/file HTTP/1.1\r\nContent-Type: application/octet-stream");
        let answer = Connection::open(self.entry())?.bring(&head, content)?;
        if answer.status != 204 {
            bail!(
                "{}: {}",
                answer.status,
                String::from_utf8_lossy(&answer.body)
            );
        }
        let operation = answer.header("x-cheops-operation");
        Ok(operation.context("it was not replicated")?.to_owned())
    }

    pub(super) fn wait_received(
        &self,
        operation: &str,
        bytes: u64,
        patience: Duration,
    ) -> anyhow::Result<()> {
        self.wait_until("more of it has come", patience, |stage| {
            let step = stage.step(operation)?;
            let enough = step["received"].as_u64() >= Some(bytes) || step["state"] == "applied";
            Ok(enough.then_some(()))
        })
    }

    pub(super) fn wait_applied(&self, operation: &str, patience: Duration) -> anyhow::Result<()> {
        self.wait_until("it is applied", patience, |stage| {
            Ok((stage.step(operation)?["state"] == "applied").then_some(()))
        })
    }

    /// While `work` is done: how many MiB have come to site 2, by seconds since then.
    pub(super) fn watch<T>(
        &self,
        operation: &str,
        since: Instant,
        work: impl FnOnce() -> T,
    ) -> (Vec<(f64, f64)>, T) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut seen = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    // Once it is applied, nothing is on its way any more.
                    let step = self.step(operation).ok();
                    let received = step.and_then(|step| step["received"].as_u64());
                    let mib = received.map(|bytes| bytes as f64 / f64::from(1 << 20));
                    seen.extend(mib.map(|mib| (since.elapsed().as_secs_f64(), mib)));
                    std::thread::sleep(LOOK_EVERY);
                }
                seen
            });
            let worked = work();
            done.store(true, Ordering::Relaxed);
            (watcher.join().unwrap_or_default(), worked)
        })
    }

    /// How far an operation is at site 2, as that says.
    fn step(&self, operation: &str) -> anyhow::Result<Value> {
        let head = format!("GET /v1/operations/{operation} HTTP/1.1");
        let answer = Connection::open(self.sites[1].admin)?.ask(&head, b"")?;
        let told: Value = serde_json::from_slice(&answer.body)?;
        Ok(told["sites"]["site2"].clone())
    }

    /// What the service of a site says of what it has got.
    pub(super) fn checksum(&self, number: usize, name: &str) -> anyhow::Result<String> {
        let head = format!("GET /images?name={name} HTTP/1.1");
        let answer = Connection::open(self.sites[number - 1].service)?.ask(&head, b"")?;
        let told: Value = serde_json::from_slice(&answer.body)?;
        let sum = told["images"][0]["checksum"].as_str();
        Ok(sum.unwrap_or_default().to_owned())
    }

    /// What went over both links, both ways.
    pub(super) fn carried(&self) -> u64 {
        let ways = [Direction::ToTarget, Direction::FromTarget];
        let links = self.links.iter();
        links
            .map(|link| ways.map(|way| link.carried(way)).iter().sum::<u64>())
            .sum()
    }

    pub(super) fn cut_for(&self, time: Duration) -> anyhow::Result<()> {
        self.links.iter().for_each(Relay::cut);
        std::thread::sleep(time);
        let _inside = self.runtime.enter();
        for link in &self.links {
            link.heal()?;
        }
        Ok(())
    }

    fn wait_until<T>(
        &self,
        what: &str,
        patience: Duration,
        look: impl Fn(&Stage) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let until = Instant::now() + patience;
        loop {
            if let Ok(Some(seen)) = look(self) {
                return Ok(seen);
            }
            if Instant::now() > until {
                bail!("never: {what}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
