//! `cargo xtask real`: servers that nobody here wrote, unmodified, each behind its agent.
//!
//! Three sites per server, links that can be cut, and the workflow of the papers step by step. What cannot be had on
//! this machine is skipped, and counted. Packages are unpacked below `.out/real`; nothing is installed into the system.

mod http;
mod install;
mod pocketbase;
mod registry;
mod stage;
mod story;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::bench::say;
use install::NotHad;
use story::Tally;

#[derive(Args)]
pub(crate) struct RealArgs {
    /// Which server; all of them if none is named
    #[arg(value_enum)]
    servers: Vec<Server>,
    /// The agent's program; built with `cargo build --release`
    #[arg(long, default_value = "target/release/cheops")]
    agent: PathBuf,
    /// Where packages are kept
    #[arg(long, default_value = ".out/real")]
    cache: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Server {
    Pocketbase,
    DockerRegistry,
}

pub(crate) fn run(args: &RealArgs) -> anyhow::Result<ExitCode> {
    let all = [Server::Pocketbase, Server::DockerRegistry];
    let servers = match args.servers.is_empty() {
        true => &all[..],
        false => &args.servers[..],
    };
    let mut tally = Tally::default();
    for server in servers {
        let told = match server {
            Server::Pocketbase => pocketbase::tell(args),
            Server::DockerRegistry => registry::tell(args),
        };
        match told {
            Ok(steps) => tally.add(steps),
            Err(error) => match error.downcast_ref::<NotHad>() {
                Some(NotHad(why)) => {
                    say(&format!("skipped: {server:?}: {why}"));
                    tally.skipped += 1;
                }
                None => return Err(error),
            },
        }
    }
    say(&tally.to_string());
    Ok(match tally.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
