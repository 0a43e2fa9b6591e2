//! `cargo xtask bench`: this agent beside the proxies people trust, in one interleaved run.
//!
//! The same client and origin against each; what decides is CPU time per request as a ratio, since
//! requests per second on a small machine say more about the neighbours. A proxy that is not
//! installed is skipped with a word.

mod bulk;
mod figures;
mod instructions;
mod load;
mod origin;
mod peers;
pub(crate) mod process;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

pub(crate) use figures::{FiguresArgs, run as run_figures};
use load::Load;
pub(crate) use peers::free_address;
use peers::{Peer, Skipped};

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Rounds; each measures every proxy once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of load per proxy and round
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Connections of the client
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Threads of each proxy; more than one are of use with --spread
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The agent's program; built with `cargo build --profile dist`
    #[arg(long, default_value = "target/dist/cheops")]
    agent: PathBuf,
    /// Lets the processes have all processors. Without it they share one, so that no processor has to be woken for another's sake and
    /// who is where is the same for all
    #[arg(long)]
    spread: bool,
    /// The proxy that ratios are against
    #[arg(long, default_value = "haproxy")]
    base: String,
}

/// The origin, as a process of its own.
pub(crate) fn serve_origin() -> anyhow::Result<()> {
    origin::serve()
}

/// What was seen of one proxy in one round.
struct Seen {
    cpu_us: f64,
    per_second: f64,
    p50_us: f64,
    alone_p50_us: f64,
    body_ms: f64,
    memory_mb: f64,
}

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    if !args.spread {
        process::keep_to_one_processor()?;
    }
    let origin = origin::Origin::start()?;
    let mut running = vec![Peer::direct(&origin)];
    for started in peers::start_all(folder.path(), origin.address, args.threads, &args.agent) {
        match started {
            Ok(peer) => running.push(peer),
            Err(Skipped(why)) => say(&format!("skipped: {why}")),
        }
    }
    let mut seen: Vec<Vec<Seen>> = running.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for (peer, seen) in running.iter().zip(&mut seen) {
            seen.push(measure(peer, args).with_context(|| peer.name.clone())?);
        }
        say(&format!("round {round} of {} done", args.rounds));
    }
    say("\nMedians of the rounds:");
    print_table(&running, &seen, &args.base, median);
    say("\nThe least of the rounds, which others disturbed least:");
    print_table(&running, &seen, &args.base, least);
    Ok(())
}

fn measure(peer: &Peer, args: &BenchArgs) -> anyhow::Result<Seen> {
    let load = |connections, seconds| {
        Load {
            address: peer.address,
            connections,
            time: Duration::from_secs(seconds),
        }
        .run()
    };
    // A first breath: connections to the origin, caches.
    load(args.connections, 0)?;
    let before = process::cpu_us(peer.pid)?;
    let busy = load(args.connections, args.seconds)?;
    let cpu_us = process::cpu_us(peer.pid)? - before;
    let alone = load(1, 1)?;
    let memory_mb = process::memory_mb(peer.pid)?;
    Ok(Seen {
        cpu_us: cpu_us / busy.answers as f64,
        per_second: busy.answers as f64 / args.seconds as f64,
        p50_us: busy.p50_us(),
        alone_p50_us: alone.p50_us(),
        body_ms: bulk::cpu_ms(peer)?,
        memory_mb,
    })
}

fn print_table(peers: &[Peer], seen: &[Vec<Seen>], base: &str, one_of: fn(Vec<f64>) -> f64) {
    let of = |place: usize, what: fn(&Seen) -> f64| one_of(seen[place].iter().map(what).collect());
    let base = peers.iter().position(|peer| peer.name == base).unwrap_or(0);
    let base_cpu = of(base, |seen| seen.cpu_us);
    let direct_p50 = of(0, |seen| seen.alone_p50_us);
    say(&format!(
        "\n| proxy | CPU µs/request | × {} | requests/s | p50 µs | added p50 at one connection, µs | CPU ms/100 MB of body | memory MB |",
        peers[base].name
    ));
    say("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (place, peer) in peers.iter().enumerate() {
        let cpu = of(place, |seen| seen.cpu_us);
        say(&format!(
            "| {} | {cpu:.1} | {:.2} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} |",
            peer.name,
            cpu / base_cpu,
            of(place, |seen| seen.per_second),
            of(place, |seen| seen.p50_us),
            of(place, |seen| seen.alone_p50_us) - direct_p50,
            of(place, |seen| seen.body_ms),
            of(place, |seen| seen.memory_mb),
        ));
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn least(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

pub(crate) fn say(text: &str) {
    let _ = std::io::Write::write_all(
        &mut std::io::stdout().lock(),
        format!("{text}\n").as_bytes(),
    );
}
