//! Three sites on this machine: a server and an agent each, links that can be cut.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use cheops_relay::{Relay, Shape};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::http::Ask;
use super::story::eventually;
use crate::bench::free_address;

/// Two that are involved, one that is not.
pub(super) const SITES: usize = 3;

/// Everything that runs.
pub(super) struct Stage {
    /// From 0 on; their names are `site1` and so on.
    pub(super) sites: Vec<Site>,
    links: Vec<Link>,
    // After the links: relays end within it.
    _runtime: Runtime,
    folder: TempDir,
}

/// One of them.
pub(super) struct Site {
    /// Of the agent, in front of the server.
    pub(super) geo: SocketAddr,
    /// Of the server itself.
    pub(super) server: SocketAddr,
    admin: SocketAddr,
    mesh: SocketAddr,
    running: Vec<Running>,
}

/// Ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Link {
    from: usize,
    to: usize,
    relay: Relay,
}

/// How one kind of server is run.
pub(super) struct Cast<'a> {
    /// What it is called in scopes.
    pub(super) service: &'a str,
    /// The shipped profile.
    pub(super) profile: &'a str,
    /// Further lines of every agent's configuration.
    pub(super) rules: &'a str,
}

impl Stage {
    /// Starts the servers with `server(address, folder)`, then the agents, and waits until they know each other.
    pub(super) fn set(
        program: &Path,
        cast: &Cast<'_>,
        server: impl Fn(SocketAddr, &Path) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Stage> {
        let program = fs::canonicalize(program)
            .with_context(|| format!("{}: run `cargo build --release`", program.display()))?;
        let mut stage = Stage {
            sites: (0..SITES).map(|_| Site::new()).collect(),
            links: Vec::new(),
            _runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()?,
            folder: tempfile::tempdir()?,
        };
        stage.link()?;
        stage.init(&program)?;
        for place in 0..SITES {
            let folder = stage.folder.path().join(format!("server{}", place + 1));
            fs::create_dir_all(&folder)?;
            let address = stage.sites[place].server;
            let mut command = server(address, &folder)?;
            let log = File::create(folder.join("log"))?;
            command.stdout(log.try_clone()?).stderr(log);
            stage.sites[place].running.push(Running(command.spawn()?));
            if !eventually(|| Ok(TcpStream::connect(address).is_ok()))? {
                bail!("no server: {}", fs::read_to_string(folder.join("log"))?);
            }
        }
        for place in 0..SITES {
            stage.start_agent(&program, place, cast)?;
        }
        stage.wait_connected()?;
        Ok(stage)
    }

    fn link(&mut self) -> anyhow::Result<()> {
        let _inside = self._runtime.enter();
        for from in 0..SITES {
            for to in (0..SITES).filter(|to| *to != from) {
                let shape = Shape::with_delay(Duration::from_millis(5));
                let relay = Relay::start(self.sites[to].mesh, shape)?;
                self.links.push(Link { from, to, relay });
            }
        }
        Ok(())
    }

    fn init(&self, program: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(program);
        command.args(["init", "--mesh", "real", "--out", "mesh"]);
        for number in 1..=SITES {
            command.args(["--site", &format!("site{number}")]);
        }
        let made = command
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .status()?;
        match made.success() {
            true => Ok(()),
            false => bail!("no mesh could be made"),
        }
    }

    fn start_agent(&mut self, program: &Path, place: usize, cast: &Cast) -> anyhow::Result<()> {
        let number = place + 1;
        let folder = self.folder.path();
        let file = folder.join(format!("site{number}.toml"));
        fs::write(&file, self.configuration(place, cast)?)?;
        let log = File::create(self.log(place))?;
        let mut agent = Command::new(program)
            .args(["agent", "--config", &format!("site{number}.toml")])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let stdout = agent.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if !line.starts_with("ready ") {
            bail!(
                "site{number} did not start: {}",
                fs::read_to_string(self.log(place))?
            );
        }
        self.sites[place].running.push(Running(agent));
        Ok(())
    }

    fn log(&self, place: usize) -> PathBuf {
        self.folder.path().join(format!("site{}.log", place + 1))
    }

    fn configuration(&self, place: usize, cast: &Cast<'_>) -> anyhow::Result<String> {
        let (number, site) = (place + 1, &self.sites[place]);
        let mut text = format!(
            "site = \"site{number}\"\ndata = \"data{number}\"\nthreads = 1\n\
             [admin]\nlisten = \"{}\"\n[mesh]\nlisten = \"{}\"\nidentity = \"mesh/site{number}\"\n",
            site.admin, site.mesh,
        );
        let own = || self.links.iter().filter(|link| link.from == place);
        let join: Vec<_> = own()
            .map(|link| format!("\"{}\"", link.relay.address()))
            .collect();
        writeln!(text, "join = [{}]\n[mesh.routes]", join.join(", "))?;
        for link in own() {
            writeln!(text, "site{} = \"{}\"", link.to + 1, link.relay.address())?;
        }
        let Cast {
            service,
            profile,
            rules,
        } = cast;
        writeln!(
            text,
            "[service.{service}]\nlisten = \"{}\"\nbackend = \"http://{}\"\nprofile = \"{profile}\"\n{rules}",
            site.geo, site.server,
        )?;
        Ok(text)
    }

    fn wait_connected(&self) -> anyhow::Result<()> {
        for place in 0..SITES {
            let marks = || {
                let sites = self.told(place, "/v1/sites")?;
                let items = sites["items"].as_array().cloned().unwrap_or_default();
                let connected = |site: &&Value| site["mark"] == "connected";
                Ok(items.iter().filter(connected).count() == SITES)
            };
            if !eventually(marks)? {
                bail!("site{} does not reach the others", place + 1);
            }
        }
        Ok(())
    }

    /// What an agent tells on its admin listener.
    pub(super) fn told(&self, place: usize, path: &str) -> anyhow::Result<Value> {
        Ok(Ask::new("GET", path).send(self.sites[place].admin)?.json())
    }

    /// Waits until the agent of `place` knows that every site of a replicant has all of it.
    pub(super) fn converged(&self, place: usize, id: &str) -> anyhow::Result<bool> {
        let path = format!("/v1/resources/{id}");
        eventually(|| Ok(self.told(place, &path)?["converged"] == true))
    }

    /// Cuts a site off from the others, and waits until `seen_by` has noticed.
    pub(super) fn cut(&self, place: usize, seen_by: usize) -> anyhow::Result<bool> {
        self.links_of(place).for_each(|link| link.relay.cut());
        let name = format!("site{}", place + 1);
        eventually(|| {
            let sites = self.told(seen_by, "/v1/sites")?;
            let items = sites["items"].as_array().cloned().unwrap_or_default();
            let gone = |site: &Value| site["name"] == *name && site["mark"] != "connected";
            Ok(items.iter().any(gone))
        })
    }

    pub(super) fn heal(&self, place: usize) -> anyhow::Result<()> {
        let _inside = self._runtime.enter();
        for link in self.links_of(place) {
            link.relay.heal()?;
        }
        Ok(())
    }

    fn links_of(&self, place: usize) -> impl Iterator<Item = &Link> {
        let of = move |link: &&Link| link.from == place || link.to == place;
        self.links.iter().filter(of)
    }
}

impl Site {
    fn new() -> Site {
        Site {
            geo: free_address(),
            server: free_address(),
            admin: free_address(),
            mesh: free_address(),
            running: Vec::new(),
        }
    }
}
