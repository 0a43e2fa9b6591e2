//! `cargo xtask sites`: more real agents on loopback than keep a link to each other.
//!
//! All join through the first two. Everybody has to know everybody and what it runs, with few links;
//! then one is killed, and every other has to notice, of it alone.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;

use crate::bench::{free_address, process, say};

#[derive(Args)]
pub(crate) struct SitesArgs {
    /// How many
    #[arg(long, default_value_t = 40)]
    agents: usize,
    /// The agent's program; built with `cargo build --release`
    #[arg(long, default_value = "target/release/cheops")]
    agent: PathBuf,
}

/// Far more than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A new agent asks every other what they share, and keeps the link for five minutes after that.
const LINKS_PATIENCE: Duration = Duration::from_secs(420);

/// How long processor time is watched once everything is quiet.
const QUIET: Duration = Duration::from_secs(10);

/// Links that an agent may keep which nobody joins through: to the two, and to one site in use.
const LINKS_MAX: u64 = 3;

pub(crate) fn run(args: &SitesArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut crowd = Crowd::start(&args.agent, args.agents)?;
    say(&format!(
        "{} agents ready after {:.1} s",
        args.agents,
        seconds(started)
    ));
    let whole = |item: &Value| item["mark"] == "connected" && item["services"][0] == "image";
    crowd
        .wait(whole)
        .context("not everybody was known everywhere")?;
    say(&format!(
        "everybody connected everywhere after {:.1} s",
        seconds(started)
    ));
    let links = crowd.wait_for_few_links()?;
    say(&format!("links of each: {links:?}"));
    crowd.tell_use()?;

    let gone = crowd.kill_last()?;
    let died = Instant::now();
    let noticed = |item: &Value| {
        let mark = if item["name"] == *gone {
            "autonomous"
        } else {
            "connected"
        };
        item["mark"] == mark
    };
    crowd
        .wait(noticed)
        .context("not everybody noticed the death")?;
    say(&format!(
        "{gone} autonomous at every other, and nobody else, after {:.1} s",
        seconds(died)
    ));
    Ok(())
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// Every agent, and what it writes.
struct Crowd {
    sites: Vec<Site>,
    /// With the one that is killed.
    count: usize,
    _folder: tempfile::TempDir,
}

struct Site {
    name: String,
    admin: SocketAddr,
    agent: Child,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

impl Crowd {
    fn start(program: &Path, count: usize) -> anyhow::Result<Crowd> {
        let program = fs::canonicalize(program)
            .with_context(|| format!("{}: run `cargo build --release`", program.display()))?;
        let folder = tempfile::tempdir()?;
        let names: Vec<String> = (1..=count).map(|number| format!("site{number}")).collect();
        let mut init = Command::new(&program);
        init.args(["init", "--mesh", "many", "--out"])
            .arg(folder.path().join("mesh"));
        names
            .iter()
            .for_each(|name| _ = init.args(["--site", name]));
        if !init.stdout(Stdio::null()).status()?.success() {
            bail!("no identities were made");
        }
        let joined = [free_address(), free_address()];
        let mut sites = Vec::new();
        for (number, name) in names.into_iter().enumerate() {
            let mesh = match joined.get(number) {
                Some(address) => *address,
                None => free_address(),
            };
            let admin = free_address();
            let text = configuration(folder.path(), &name, [admin, mesh], joined)?;
            let agent = launch(&program, folder.path(), &name, &text)?;
            sites.push(Site { name, admin, agent });
        }
        Ok(Crowd {
            sites,
            count,
            _folder: folder,
        })
    }

    /// Until every agent sees every site as `wanted`.
    fn wait(&self, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        for site in &self.sites {
            loop {
                let seen = site.sees()?;
                if seen.len() == self.count && seen.iter().all(&wanted) {
                    break;
                }
                if Instant::now() > until {
                    bail!("at {}: {seen:?}", site.name);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    /// Until those that nobody joins through keep few links; how many each has.
    fn wait_for_few_links(&self) -> anyhow::Result<Vec<u64>> {
        let until = Instant::now() + LINKS_PATIENCE;
        loop {
            let links: Result<Vec<u64>, _> = self.sites.iter().map(Site::links).collect();
            let links = links?;
            if links[2..].iter().all(|count| *count <= LINKS_MAX) {
                return Ok(links);
            }
            if Instant::now() > until {
                bail!("too many links: {links:?}");
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Processor time and memory of the agents while nothing happens.
    fn tell_use(&self) -> anyhow::Result<()> {
        let spent = || -> anyhow::Result<Vec<f64>> {
            let of = |site: &Site| process::cpu_us(site.agent.id());
            self.sites.iter().map(of).collect()
        };
        let before = spent()?;
        std::thread::sleep(QUIET);
        let after = spent()?;
        let share = |(after, before): (&f64, &f64)| (after - before) / QUIET.as_micros() as f64;
        let mut shares: Vec<f64> = after.iter().zip(&before).map(share).collect();
        shares.sort_by(f64::total_cmp);
        let memory = |site: &Site| process::memory_mb(site.agent.id());
        let memory: Result<Vec<f64>, _> = self.sites.iter().map(memory).collect();
        let most = memory?.into_iter().fold(0.0, f64::max);
        say(&format!(
            "while nothing happens: processor of an agent {:.2} % (median), {:.2} % (most); memory at most {most:.1} MB",
            shares[shares.len() / 2] * 100.0,
            shares[shares.len() - 1] * 100.0,
        ));
        Ok(())
    }

    /// `kill -9` of the last; its name.
    fn kill_last(&mut self) -> anyhow::Result<String> {
        let site = self.sites.pop().context("there are agents")?;
        Ok(site.name.clone())
    }
}

fn configuration(
    folder: &Path,
    name: &str,
    [admin, mesh]: [SocketAddr; 2],
    joined: [SocketAddr; 2],
) -> anyhow::Result<String> {
    let mut text = format!(
        "site = {name:?}\ndata = {:?}\nthreads = 1\n[admin]\nlisten = \"{admin}\"\n",
        folder.join(format!("data-{name}"))
    );
    writeln!(
        text,
        "[mesh]\nlisten = \"{mesh}\"\nidentity = {:?}\njoin = [\"{}\", \"{}\"]",
        folder.join("mesh").join(name),
        joined[0],
        joined[1]
    )?;
    // Nobody calls the service: it is only announced.
    let (listen, backend) = (free_address(), joined[0]);
    writeln!(
        text,
        "[service.image]\nlisten = \"{listen}\"\nbackend = \"http://{backend}\""
    )?;
    Ok(text)
}

fn launch(program: &Path, folder: &Path, name: &str, text: &str) -> anyhow::Result<Child> {
    let config = folder.join(format!("{name}.toml"));
    fs::write(&config, text)?;
    let log = config.with_extension("log");
    let mut agent = Command::new(program)
        .args(["agent", "--config"])
        .arg(&config)
        .stdout(Stdio::piped())
        .stderr(File::create(&log)?)
        .spawn()?;
    let mut ready = String::new();
    if let Some(stdout) = agent.stdout.take() {
        BufReader::new(stdout).read_line(&mut ready)?;
    }
    if !ready.starts_with("ready ") {
        let _ = agent.kill();
        bail!("{name} did not start: {}", fs::read_to_string(&log)?);
    }
    Ok(agent)
}

impl Site {
    fn sees(&self) -> anyhow::Result<Vec<Value>> {
        let sites: Value = serde_json::from_str(&self.get("/v1/sites")?)?;
        let items = sites["items"].as_array();
        Ok(items.context("no items")?.clone())
    }

    fn links(&self) -> anyhow::Result<u64> {
        let text = self.get("/metrics")?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("cheops_links "));
        Ok(line.context("no count of links")?.parse()?)
    }

    /// The body of an answer of the admin API, which is not chunked for HTTP/1.0.
    fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (_, body) = text.split_once("\r\n\r\n").context("no answer")?;
        Ok(body.to_owned())
    }
}
