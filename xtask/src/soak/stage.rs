//! Three sites on this machine: an agent each, a service behind it, links that can be cut.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cheops_relay::{Relay, Shape};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{lock, service};
use crate::bench::free_address;

pub(super) const SITES: usize = 3;

/// The site whose agent remembers scopes by the headers of requests.
pub(super) const REMEMBERING: usize = 1;

/// Everything that runs.
pub(super) struct Stage {
    pub(super) sites: Vec<Site>,
    links: Vec<Link>,
    program: PathBuf,
    runtime: Runtime,
    /// When each site was last hard to reach, from and to.
    trouble: Mutex<Vec<Trouble>>,
    folder: TempDir,
}

pub(super) struct Site {
    pub(super) image: SocketAddr,
    admin: SocketAddr,
    mesh: SocketAddr,
    service: SocketAddr,
    process: Mutex<Option<Child>>,
}

struct Link {
    from: usize,
    to: usize,
    relay: Relay,
}

/// A time in which requests to a site may fail.
struct Trouble {
    site: usize,
    from: Instant,
    to: Option<Instant>,
}

/// A cut is noticed, a heal is noticed, and what was under way may take a while.
const AFTERMATH: Duration = Duration::from_secs(6);

impl Stage {
    pub(super) fn start(program: &Path) -> anyhow::Result<Stage> {
        let program = fs::canonicalize(program)
            .with_context(|| format!("{}: run `cargo build --profile dist`", program.display()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let mut sites = Vec::new();
        for _ in 0..SITES {
            sites.push(Site {
                image: free_address(),
                admin: free_address(),
                mesh: free_address(),
                service: service::start()?,
                process: Mutex::new(None),
            });
        }
        let mut stage = Stage {
            sites,
            links: Vec::new(),
            program,
            runtime,
            trouble: Mutex::default(),
            folder: tempfile::tempdir()?,
        };
        stage.link()?;
        stage.init()?;
        for number in 1..=SITES {
            stage.configure(number, 60)?;
            stage.start_agent(number)?;
        }
        stage.wait_connected()?;
        Ok(stage)
    }

    fn link(&mut self) -> anyhow::Result<()> {
        let _inside = self.runtime.enter();
        for from in 1..=SITES {
            for to in (1..=SITES).filter(|to| *to != from) {
                let shape = Shape::with_delay(Duration::from_millis(2));
                let relay = Relay::start(self.site(to).mesh, shape)?;
                self.links.push(Link { from, to, relay });
            }
        }
        Ok(())
    }

    fn init(&self) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["init", "--mesh", "soak", "--out", "mesh"]);
        for number in 1..=SITES {
            command.args(["--site", &format!("site{number}")]);
        }
        let made = command
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .status()?;
        if !made.success() {
            bail!("no mesh could be made");
        }
        Ok(())
    }

    /// By its number, from 1 on.
    pub(super) fn site(&self, number: usize) -> &Site {
        &self.sites[number - 1]
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("site{number}.toml"))
    }

    /// Writes a site's file, each time a little different.
    pub(super) fn configure(&self, number: usize, deadline_s: u64) -> anyhow::Result<()> {
        let site = self.site(number);
        let mut text = format!(
            "site = \"site{number}\"\ndata = \"data{number}\"\nthreads = 2\n\
             [admin]\nlisten = \"{}\"\n[mesh]\nlisten = \"{}\"\nidentity = \"mesh/site{number}\"\n",
            site.admin, site.mesh,
        );
        let own: Vec<&Link> = self
            .links
            .iter()
            .filter(|link| link.from == number)
            .collect();
        let addresses: Vec<_> = own
            .iter()
            .map(|l| format!("\"{}\"", l.relay.address()))
            .collect();
        let _ = writeln!(text, "join = [{}]\n[mesh.routes]", addresses.join(", "));
        for link in own {
            let _ = writeln!(text, "site{} = \"{}\"", link.to, link.relay.address());
        }
        let _ = writeln!(
            text,
            "[service.image]\nlisten = \"{}\"\nbackend = \"http://{}\"\ndeadline = \"{deadline_s}s\"",
            site.image, site.service,
        );
        // What correlation remembers fills up to its bound; an agent without it shows what else there is.
        if number != REMEMBERING {
            let _ = writeln!(text, "propagate = []");
        }
        Ok(fs::write(self.file(number), text)?)
    }

    pub(super) fn start_agent(&self, number: usize) -> anyhow::Result<()> {
        let log = self.folder.path().join(format!("site{number}.log"));
        let log = File::options().create(true).append(true).open(log)?;
        let mut process = Command::new(&self.program)
            .args(["agent", "--config", &format!("site{number}.toml")])
            .current_dir(self.folder.path())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("no standard output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        if !line.starts_with("ready ") {
            let log = self.folder.path().join(format!("site{number}.log"));
            bail!("site{number} did not start: {}", fs::read_to_string(log)?);
        }
        *lock(&self.site(number).process) = Some(process);
        Ok(())
    }

    fn wait_connected(&self) -> anyhow::Result<()> {
        let until = Instant::now() + Duration::from_secs(20);
        let scopes = || {
            (1..=SITES).flat_map(|at| (1..=SITES).map(move |to| (at, format!("image: site{to}"))))
        };
        for (at, scope) in scopes() {
            while super::clients::ask_once(self.site(at).image, &scope) != Some(200) {
                if Instant::now() > until {
                    bail!("site{at} does not reach `{scope}`");
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    pub(super) fn pid(&self, number: usize) -> u32 {
        lock(&self.site(number).process)
            .as_ref()
            .map_or(0, Child::id)
    }

    pub(super) fn signal(&self, number: usize, signal: &str) -> anyhow::Result<()> {
        let pid = self.pid(number).to_string();
        let sent = Command::new("kill").args([signal, &pid]).status()?;
        if !sent.success() {
            bail!("site{number} is gone");
        }
        Ok(())
    }

    /// Waits for the end of an agent that was told to stop.
    pub(super) fn wait_ended(&self, number: usize) -> anyhow::Result<()> {
        let process = lock(&self.site(number).process).take();
        let status = process.context("it does not run")?.wait()?;
        if !status.success() {
            bail!("site{number} ended badly: {status}");
        }
        Ok(())
    }

    /// Cuts the links between a site and the others.
    pub(super) fn cut(&self, number: usize) {
        self.links_of(number).for_each(|link| link.relay.cut());
    }

    pub(super) fn heal(&self, number: usize) -> anyhow::Result<()> {
        let _inside = self.runtime.enter();
        for link in self.links_of(number) {
            link.relay.heal()?;
        }
        Ok(())
    }

    fn links_of(&self, number: usize) -> impl Iterator<Item = &Link> {
        self.links
            .iter()
            .filter(move |link| link.from == number || link.to == number)
    }

    /// The lines of the agents' logs that tell of links, the last ones of each.
    pub(super) fn what_links_said(&self) -> String {
        const LINES: usize = 60;
        let mut out = String::new();
        for number in 1..=SITES {
            let log = self.folder.path().join(format!("site{number}.log"));
            let log = fs::read_to_string(log).unwrap_or_default();
            let told: Vec<&str> = log.lines().filter(|line| line.contains("mesh")).collect();
            for line in &told[told.len().saturating_sub(LINES)..] {
                let _ = writeln!(out, "site{number}: {line}");
            }
        }
        out
    }

    /// From now on requests to that site may fail.
    pub(super) fn trouble_begins(&self, site: usize) {
        let mut all = lock(&self.trouble);
        all.retain(|t| t.to.is_none_or(|to| to.elapsed() < AFTERMATH * 20));
        all.push(Trouble {
            site,
            from: Instant::now(),
            to: None,
        });
    }

    pub(super) fn trouble_ends(&self, site: usize) {
        let mut all = lock(&self.trouble);
        for trouble in all.iter_mut().filter(|t| t.site == site && t.to.is_none()) {
            trouble.to = Some(Instant::now());
        }
    }

    /// Whether a failure of a request that was under way since `begun` is explained.
    pub(super) fn explains(&self, site: usize, begun: Instant) -> bool {
        let now = Instant::now();
        lock(&self.trouble).iter().any(|trouble| {
            let over = trouble.to.map(|to| to + AFTERMATH);
            trouble.site == site && trouble.from <= now && over.is_none_or(|over| begun <= over)
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for site in &self.sites {
            if let Some(mut process) = lock(&site.process).take() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}
