//! `cheops`: one binary, one agent per site. This file only chooses the command; see
//! ARCHITECTURE.md for the way a request takes.

mod cli;
mod commands;
mod config;
mod terminal;
mod world_file;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

/// The data plane allocates and frees small things on every request. Without huge pages (`no_thp`): a
/// few megabytes of them, scattered over pages of 2 MB, would take twice the memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Agent(args) => commands::agent::run(&args),
        Command::Bench(command) => commands::bench::run(&command),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Init(args) => commands::init::run(&args),
        Command::Lint { files, format } => commands::lint::run(&files, &format),
        Command::Status { admin, format } => commands::status::run(&admin, &format),
        Command::Resource(command) => commands::replicas::resource::run(command),
        Command::Op(command) => commands::replicas::op::run(command),
        Command::Conflict(command) => commands::replicas::conflict::run(command),
        Command::Why(one) => commands::replicas::why::run(&one),
        Command::Wait(args) => commands::replicas::wait::run(&args),
        Command::Site(command) => commands::site::run(&command),
        Command::Rtt {
            from,
            to,
            admin,
            format,
        } => commands::rtt::run(&from, &to, &admin, &format),
        Command::Scope(command) => commands::scope::run(command),
    };
    outcome.unwrap_or_else(|error| {
        terminal::error(&format!("error: {error:#}"));
        ExitCode::from(2)
    })
}
