//! `cargo xtask figures`: what this agent alone costs: idle connections, many large bodies at once,
//! bytes of bodies, a second thread, TLS, instructions.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use super::bulk::{self, ask};
use super::load::Load;
use super::peers::{self, Peer, Skipped};
use super::{instructions, median, origin, process, say};
use crate::soak::service;

#[derive(Args)]
pub(crate) struct FiguresArgs {
    /// The agent's program; built with `cargo build --profile dist`
    #[arg(long, default_value = "target/dist/cheops")]
    agent: PathBuf,
    /// Idle connections
    #[arg(long, default_value_t = 10_000)]
    idle: usize,
    /// Large bodies at the same time
    #[arg(long, default_value_t = 1_000)]
    bodies: usize,
}

pub(crate) fn run(args: &FiguresArgs) -> anyhow::Result<()> {
    say("| what | seen |\n| --- | --- |");
    idle_connections(args)?;
    large_bodies(args)?;
    body_bytes(args)?;
    second_thread(args)?;
    secured(args)?;
    instructions::count(&args.agent)
}

/// An agent in front of a service.
fn agent(args: &FiguresArgs, service: SocketAddr, threads: usize) -> anyhow::Result<Running> {
    let folder = tempfile::tempdir()?;
    let started = peers::start_agent(folder.path(), service, threads, &args.agent);
    let peer = started.map_err(|Skipped(why)| anyhow::anyhow!(why))?;
    Ok(Running {
        peer,
        _folder: folder,
    })
}

struct Running {
    peer: Peer,
    _folder: tempfile::TempDir,
}

/// Each has asked once, and asks nothing more.
fn idle_connections(args: &FiguresArgs) -> anyhow::Result<()> {
    let agent = agent(args, service::start()?, 1)?;
    let mut kept = Vec::new();
    for _ in 0..64 {
        kept.push(asked(agent.peer.address, "/small")?);
    }
    let before = process::memory_mb(agent.peer.pid)?;
    for _ in 0..args.idle {
        kept.push(asked(agent.peer.address, "/small")?);
    }
    let after = settled_mb(agent.peer.pid)?;
    let each_kb = (after - before) * 1000.0 / args.idle as f64;
    say(&format!(
        "| {} idle connections | {each_kb:.1} KB each ({before:.1} → {after:.1} MB) |",
        args.idle
    ));
    Ok(())
}

/// Memory once nothing moves any more: connections come to rest after a second, and the allocator
/// gives back what they held a little later.
fn settled_mb(pid: u32) -> anyhow::Result<f64> {
    let mut held = process::memory_mb(pid)?;
    let mut same = 0;
    while same < 3 {
        std::thread::sleep(Duration::from_secs(1));
        let now = process::memory_mb(pid)?;
        same = if (now - held).abs() < 1.0 {
            same + 1
        } else {
            0
        };
        held = now;
    }
    Ok(held)
}

/// Opens a connection and gets one small answer on it.
fn asked(address: SocketAddr, path: &str) -> anyhow::Result<TcpStream> {
    let mut stream = ask(address, path)?;
    let mut buffer = [0; 4096];
    let mut held = Vec::new();
    while !held.ends_with(b"yyyy") {
        match stream.read(&mut buffer)? {
            0 => bail!("closed: {}", String::from_utf8_lossy(&held)),
            read => held.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(stream)
}

/// All are asked for before any is read: what a slow reader leaves is not kept for it.
fn large_bodies(args: &FiguresArgs) -> anyhow::Result<()> {
    let agent = agent(args, service::start()?, 1)?;
    drop(asked(agent.peer.address, "/small")?);
    let before = process::memory_mb(agent.peer.pid)?;
    let mut open = Vec::new();
    for _ in 0..args.bodies {
        open.push(ask(agent.peer.address, "/huge")?);
    }
    let held = settled_mb(agent.peer.pid)?;
    let peak = process::memory_peak_mb(agent.peer.pid)?;
    say(&format!(
        "| {} answers of 100 MiB at once, none of them read | {:.0} KB each ({before:.1} → {held:.1} MB, peak {peak:.1}) |",
        args.bodies,
        (held - before) * 1000.0 / args.bodies as f64,
    ));
    Ok(())
}

fn body_bytes(args: &FiguresArgs) -> anyhow::Result<()> {
    const TIMES: usize = 5;
    let agent = agent(args, service::start()?, 1)?;
    let seen: Result<Vec<f64>, _> = (0..TIMES).map(|_| bulk::cpu_ms(&agent.peer)).collect();
    let memory = process::memory_mb(agent.peer.pid)?;
    say(&format!(
        "| 100 MB of an answer's body | {:.1} ms CPU (median of {TIMES}; {memory:.1} MB after) |",
        median(seen?)
    ));
    Ok(())
}

/// With the load on the same cores, requests per second say little. What one request costs with one
/// and with two threads says how much of a second core would be lost.
fn second_thread(args: &FiguresArgs) -> anyhow::Result<()> {
    const ROUNDS: usize = 5;
    let origin = origin::Origin::start()?;
    let (one, two) = (
        agent(args, origin.address, 1)?,
        agent(args, origin.address, 2)?,
    );
    let (mut ones, mut twos) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ones.push(cost_us(&one.peer)?);
        twos.push(cost_us(&two.peer)?);
    }
    let (one_us, two_us) = (median(ones), median(twos));
    let memory = process::memory_mb(two.peer.pid)?;
    say(&format!(
        "| CPU per request, one thread and two | {one_us:.1} and {two_us:.1} µs: two cores do {:.2} × the work of one ({memory:.1} MB after) |",
        2.0 * one_us / two_us
    ));
    Ok(())
}

fn cost_us(peer: &Peer) -> anyhow::Result<f64> {
    let load = |seconds| {
        Load {
            address: peer.address,
            connections: 64,
            time: Duration::from_secs(seconds),
        }
        .run()
    };
    load(0)?;
    let before = process::cpu_us(peer.pid)?;
    let outcome = load(2).context("the load")?;
    Ok((process::cpu_us(peer.pid)? - before) / outcome.answers as f64)
}

/// One end of a TLS connection: the same requests over HTTP/2 to a listener with TLS and to one
/// without, by `h2load`.
fn secured(args: &FiguresArgs) -> anyhow::Result<()> {
    const ROUNDS: usize = 5;
    if Command::new("h2load").arg("--version").output().is_err() {
        say("| TLS, one end | skipped: h2load is not installed |");
        return Ok(());
    }
    let origin = origin::Origin::start()?;
    let agent = agent(args, origin.address, 1)?;
    let Some(tls) = agent.peer.secured else {
        bail!("the agent has no listener with TLS");
    };
    let (plain, tls) = (
        format!("http://{}/v2", agent.peer.address),
        format!("https://{tls}/v2"),
    );
    let (mut plains, mut secureds) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plains.push(h2load_us(&agent.peer, &plain)?);
        secureds.push(h2load_us(&agent.peer, &tls)?);
    }
    let (plain_us, tls_us) = (median(plains), median(secureds));
    say(&format!(
        "| CPU per HTTP/2 request, without and with TLS, one end | {plain_us:.1} and {tls_us:.1} µs: {:.1} µs more |",
        tls_us - plain_us
    ));
    Ok(())
}

/// CPU of the agent for one request; some handshakes are among it.
fn h2load_us(peer: &Peer, url: &str) -> anyhow::Result<f64> {
    const REQUESTS: u32 = 20_000;
    let count = REQUESTS.to_string();
    let before = process::cpu_us(peer.pid)?;
    let told = Command::new("h2load")
        .args(["-n", &count, "-c", "8", "-m", "4", url])
        .output()
        .context("h2load")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    if !told.contains(&format!("{REQUESTS} succeeded")) {
        bail!("h2load {url}: {told}");
    }
    Ok((process::cpu_us(peer.pid)? - before) / f64::from(REQUESTS))
}
