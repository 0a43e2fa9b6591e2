//! Chores of the project: `cargo xtask NAME`. No build step and no test of a user needs one.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod blobs;
mod openstack;
mod real;
mod sites;
mod soak;
mod tidy;

/// Chores of the project.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Measure this agent beside nginx, HAProxy, HAProxy with Lua and Envoy
    Bench(bench::BenchArgs),
    /// Measure this agent alone: idle connections, large bodies, a second thread
    Figures(bench::FiguresArgs),
    /// The service behind the benchmark
    #[command(hide = true)]
    BenchOrigin,
    /// Mixed traffic for half an hour, with reloads, drains and cuts: no error, no growth
    Soak(soak::SoakArgs),
    /// One long content to two sites over a link that is cut on the way: whole, memory, bytes on the link
    Blobs(blobs::BlobsArgs),
    /// PocketBase and docker-registry, unmodified, each behind its agent: the workflow step by step
    Real(real::RealArgs),
    /// More agents than keep a link to each other: all known everywhere, few links, a death noticed by all
    Sites(sites::SitesArgs),
    /// Check layers, purity and the habits that no compiler checks
    Tidy,
    /// Real OpenStack sites, each behind its agent: up, test, status, down
    Openstack {
        /// A chore and its options; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 1..)]
        words: Vec<String>,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().chore {
        Chore::Bench(args) => bench::run(&args).map(|()| ExitCode::SUCCESS),
        Chore::BenchOrigin => bench::serve_origin().map(|()| ExitCode::SUCCESS),
        Chore::Figures(args) => bench::run_figures(&args).map(|()| ExitCode::SUCCESS),
        Chore::Soak(args) => soak::run(&args).map(|()| ExitCode::SUCCESS),
        Chore::Blobs(args) => blobs::run(&args).map(|()| ExitCode::SUCCESS),
        Chore::Real(args) => real::run(&args),
        Chore::Sites(args) => sites::run(&args).map(|()| ExitCode::SUCCESS),
        Chore::Tidy => tidy::run(),
        Chore::Openstack { words } => openstack::run(&words),
    }
}
